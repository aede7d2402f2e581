/** @file Shapes are all partitions that hosts could hold, from the most even on; a move keeps the gang's size and takes free GPUs only. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostId } from "../../../domain/ids.ts";
import { popCount } from "../../../domain/lease.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { movesFrom } from "../../../scheduling/pick/moves.ts";
import { openSeats, shapesOf } from "../../../scheduling/pick/shapes.ts";
import { worlds, isAnswer } from "./worlds.ts";

/** Falling counts of at most `most` in at most `parts` parts. */
function allPartitions(gpus: number, parts: number, most: number): readonly string[] {
  if (gpus === 0) return [""];
  if (parts === 0) return [];
  return Array.from({ length: Math.min(gpus, most) }, (_, at) => at + 1).flatMap((first) =>
    allPartitions(gpus - first, parts - 1, first).map((rest) => `${String(first)} ${rest}`),
  );
}

const MOST_SHAPES = 2_000;

describe("shapes", () => {
  test("are every partition of the gang that hosts of these sizes could hold", () => {
    fc.assert(
      fc.property(worlds(), ({ predictor, freeMasks, gpus }) => {
        const hosts = allOptions(predictor.domain, freeMasks);
        const mostFree = hosts.reduce((most, { free }) => Math.max(most, free), 0);
        const found = new Set<string>();
        for (const shape of shapesOf(hosts, gpus)) {
          found.add(shape.map((count) => `${String(count)} `).join(""));
          if (found.size > MOST_SHAPES) break;
        }
        for (const one of allPartitions(gpus, hosts.length, mostFree)) expect(found).toContain(one);
      }),
    );
  });

  test("of many hosts come at once: a gang of 1,000 on 220 hosts", () => {
    const domain = {
      hosts: Array.from({ length: 220 }, (_, at) => ({
        id: hostId("c", `h${String(at)}`),
        gpuCount: 8,
        gpuType: "H100",
      })),
      intraGbs: () => 100,
    };
    const freeMasks = domain.hosts.map((_, at) => (at % 2 === 0 ? 255 : 31));
    let seen = 0;
    for (const shape of shapesOf(allOptions(domain, freeMasks), 1_000)) {
      expect(shape.reduce((sum, count) => sum + count, 0)).toBe(1_000);
      seen += 1;
      if (seen === 200) break;
    }
    expect(seen).toBe(200);
  });
});

describe("moves", () => {
  test("lead from an answer to other answers", () => {
    fc.assert(
      fc.property(worlds(), (world) => {
        const { predictor, freeMasks, gpus } = world;
        const hosts = allOptions(predictor.domain, freeMasks);
        const seats = openSeats(hosts);
        const ground = { hosts: new Map(hosts.map((host) => [host.host, host])), seats };
        for (const shape of shapesOf(hosts, gpus)) {
          const seated = seats.seat(shape, "snug");
          if (seated === undefined) continue;
          for (const moved of movesFrom(seated.pick, ground)) {
            expect(isAnswer(world, moved)).toBe(true);
            expect(moved.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(gpus);
          }
          return;
        }
      }),
    );
  });
});
