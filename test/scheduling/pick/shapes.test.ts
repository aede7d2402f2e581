/** @file Shapes are all partitions that hosts could hold, from the most even on; seats take free GPUs by their rule. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { openSeats, shapesOf } from "../../../scheduling/pick/shapes.ts";
import { isAnswer, worlds } from "./worlds.ts";

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

describe("seats", () => {
  test("hold every shape that the hosts can hold, with the counts of the shape", () => {
    fc.assert(
      fc.property(worlds(), (world) => {
        const { predictor, freeMasks, gpus } = world;
        const hosts = allOptions(predictor.domain, freeMasks);
        const free = hosts.map((host) => host.free).sort((a, b) => b - a);
        const seats = openSeats(hosts);
        let seen = 0;
        for (const shape of shapesOf(hosts, gpus)) {
          const canHold = shape.every((count, at) => count <= (free[at] ?? 0));
          for (const rule of ["fast", "snug"] as const) {
            const seated = seats.seat(shape, rule);
            expect(seated !== undefined).toBe(canHold);
            if (seated === undefined) continue;
            expect(isAnswer(world, seated.pick)).toBe(true);
            const counts = seated.pick.map(({ mask }) => popCount(mask)).sort((a, b) => b - a);
            expect(counts).toEqual(shape);
          }
          if ((seen += 1) > 50) break;
        }
      }),
    );
  });
});
