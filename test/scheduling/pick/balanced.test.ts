/** @file EHA: the best single host, else even shares over as few hosts as can hold the gang. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { eha, evenCounts } from "../../../scheduling/pick/balanced.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { allPicks, bestOfAll, worlds, type World } from "./worlds.ts";
import { caseCount } from "../../support/case-count.ts";

const RUNS = { numRuns: caseCount(300) };
const law = (check: (world: World) => void): void => fc.assert(fc.property(worlds(), check), RUNS);

describe("EHA", () => {
  test("takes the best host that holds the gang", () => {
    law((world) => {
      const single = allPicks(world).filter((pick) => pick.length === 1);
      if (single.length > 0) expect(eha(world)?.predictedGbs).toBe(bestOfAll(world, single));
    });
  });

  test("uses as few hosts as can hold the gang, none of which could take a GPU from another that has two more", () => {
    law((world) => {
      const found = eha(world);
      if (found === undefined) return;
      const fewest = Math.min(...allPicks(world).map((pick) => pick.length));
      expect(found.pick).toHaveLength(fewest);
      const counts = found.pick.map(({ mask }) => popCount(mask));
      for (const [at, { host, mask }] of found.pick.entries()) {
        const hasRoom = popCount(mask) < popCount(world.freeMasks[host] ?? 0);
        if (hasRoom) expect(Math.max(...counts)).toBeLessThanOrEqual((counts[at] ?? 0) + 1);
      }
    });
  });
});

test.each([
  { free: [8, 8, 8], gpus: 12, want: [[4, 4, 4]] },
  { free: [8, 2, 8], gpus: 12, want: [[5, 2, 5]] },
  {
    free: [4, 4],
    gpus: 5,
    want: [
      [3, 2],
      [2, 3],
    ],
  },
  {
    free: [1, 3, 3],
    gpus: 6,
    want: [
      [1, 3, 2],
      [1, 2, 3],
    ],
  },
])("hosts with $free free give $gpus GPUs as $want", ({ free, gpus, want }) => {
  const domain = {
    hosts: free.map((gpuCount, at) => ({ id: hostId("c", `h${at}`), gpuCount, gpuType: "H100" })),
    intraGbs: () => 100,
  };
  const hosts = allOptions(
    domain,
    free.map((count) => 2 ** count - 1),
  );
  expect([...evenCounts(hosts, gpus)]).toEqual(want);
});
