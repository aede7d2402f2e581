/** @file The rivals: what each does, and that none breaks what all keep. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bestClusters } from "../../../../scheduling/placement/best-clusters.ts";
import {
  compareScores,
  scoreChoice,
  type ClusterPolicy,
} from "../../../../scheduling/placement/cluster-policy.ts";
import {
  DEFAULT_GENETIC,
  geneticClusters,
} from "../../../../bench/rivals/placement/genetic-clusters.ts";
import { ilpClusters } from "../../../../bench/rivals/placement/ilp-clusters.ts";
import { lyra, mast, opportunistic } from "../../../../bench/rivals/placement/clusters.ts";
import { solverFor } from "../../../../solvers/index.ts";
import { anyRoom, LETTERS, roomOf } from "../../../scheduling/placement/clusters.ts";
import { caseCount } from "../../../support/case-count.ts";

const ROOM = roomOf({ a: 4, b: 6, c: 8, d: 8 }, [
  { between: "ab", gbps: 10 },
  { between: "ac", gbps: 2 },
  { between: "bd", gbps: 3 },
]);
const genetic = geneticClusters({ ...DEFAULT_GENETIC, population: 8, generations: 8 });
const lending = lyra({ isInference: [false, false, true, true] });

test.each([
  { policy: "Opportunistic", of: opportunistic, gpus: 3, want: "b3" },
  { policy: "Opportunistic", of: opportunistic, gpus: 8, want: "b6 a2" },
  { policy: "MAST", of: mast, gpus: 7, want: "c7" },
  { policy: "MAST", of: mast, gpus: 9, want: "" },
  { policy: "Lyra", of: lending, gpus: 5, want: "b5" },
  { policy: "Lyra borrows for what its own hold in no cluster,", of: lending, gpus: 7, want: "c7" },
  { policy: "Lyra", of: lending, gpus: 9, want: "b6 a3" },
  { policy: "Lyra", of: lending, gpus: 12, want: "b6 a4 c2" },
  { policy: "DT-FM", of: genetic, gpus: 14, want: "d8 b6" },
])("$policy gives $gpus GPUs as $want", ({ of, gpus, want }) => {
  const { choice } = of({ gpus, maxClusters: 9 }, ROOM);
  const got = (choice?.clusters ?? []).map(
    (cluster, at) => `${LETTERS.charAt(cluster)}${String(choice?.gpus[at])}`,
  );
  expect(got.sort()).toEqual(want === "" ? [] : want.split(" ").sort());
});

describe("every rival", () => {
  const policies: readonly (readonly [string, ClusterPolicy])[] = [
    ["Opportunistic", opportunistic],
    ["MAST", mast],
    ["Lyra", lending],
    ["DT-FM", genetic],
  ];
  test.each(policies)("%s gives whole gangs and is never better than the optimum", (_, policy) => {
    fc.assert(
      fc.property(
        anyRoom(9),
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 9 }),
        (room, gpus, maxClusters) => {
          const demand = { gpus, maxClusters };
          const { choice } = policy(demand, room);
          if (choice === undefined) return;
          expect(choice.gpus.reduce((sum, own) => sum + own, 0)).toBe(gpus);
          expect(choice.clusters.length).toBeLessThanOrEqual(maxClusters);
          for (const [at, cluster] of choice.clusters.entries())
            expect(choice.gpus[at]).toBeLessThanOrEqual(room.free[cluster] ?? 0);
          const best = bestClusters(demand, room).choice;
          expect(best).toBeDefined();
          if (best === undefined) return;
          const got = scoreChoice(choice, room);
          expect(got.bottleneckGbps).toBeGreaterThan(0);
          expect(compareScores(scoreChoice(best, room), got)).toBeLessThanOrEqual(0);
        },
      ),
      { numRuns: caseCount(60) },
    );
  });

  test("the integer programs agree with the optimum in all three keys", async () => {
    await fc.assert(
      fc.asyncProperty(anyRoom(6), fc.integer({ min: 1, max: 40 }), async (room, gpus) => {
        const demand = { gpus, maxClusters: 9 };
        const ports = { solverFor, limits: { timeLimitMs: 60_000 } };
        const { choice } = await ilpClusters(demand, room, ports);
        const best = bestClusters(demand, room).choice;
        expect(choice === undefined).toBe(best === undefined);
        if (choice === undefined || best === undefined) return;
        expect(scoreChoice(choice, room)).toEqual(scoreChoice(best, room));
      }),
      { numRuns: caseCount(15) },
    );
  });
});
