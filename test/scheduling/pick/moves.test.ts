/** @file A move keeps the gang's size, takes free GPUs only, and leads to another candidate; together the moves reach all counts. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { movesFrom } from "../../../scheduling/pick/moves.ts";
import { openSeats, shapesOf } from "../../../scheduling/pick/shapes.ts";
import { keyOf } from "../../../scheduling/pick/search.ts";
import { isAnswer, worlds } from "./worlds.ts";

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

  test("from one candidate reach every way to split the gang over different hosts", () => {
    const domain = {
      hosts: [0, 1, 2].map((at) => ({ id: hostId("c", `h${at}`), gpuCount: 4, gpuType: "H100" })),
      intraGbs: (host: number) => 100 + host,
    };
    const hosts = allOptions(domain, [15, 15, 15]);
    const ground = {
      hosts: new Map(hosts.map((host) => [host.host, host])),
      seats: openSeats(hosts),
    };
    const first = [
      { host: 0, mask: 15 },
      { host: 1, mask: 3 },
    ];
    const seen = new Map([[keyOf(first), first as Parameters<typeof movesFrom>[0]]]);
    for (const pick of seen.values())
      for (const moved of movesFrom(pick, ground)) seen.set(keyOf(moved), moved);
    const splits = new Set(
      [...seen.values()].map((pick) =>
        [0, 1, 2]
          .map((host) => popCount(pick.find((each) => each.host === host)?.mask ?? 0))
          .join(),
      ),
    );
    // Counts of 0 to 4 on three hosts that sum to 6: 19 ways.
    expect(splits.size).toBe(19);
  });
});
