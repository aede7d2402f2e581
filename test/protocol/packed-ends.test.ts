/** @file The ends of a batch as columns: nothing is lost but the messages that were not asked for. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TaskEnd } from "../../protocol/agent-contract.ts";
import { packEnds, unpackEnds } from "../../protocol/packed-ends.ts";

const TIME = fc.integer({ min: 1_700_000_000_000, max: 1_800_000_000_000 });

/** As agents report them: a time of its end has only what has started. */
const endOf = (task: number): fc.Arbitrary<TaskEnd> =>
  fc.oneof(
    fc.constantFrom("not-run" as const, "stopped" as const).map((end) => ({ task, end })),
    fc
      .record(
        {
          end: fc.constantFrom("completed" as const, "failed" as const, "stopped" as const),
          startedAtMs: TIME,
          ranMs: fc.integer({ min: -5_000, max: 1_000_000_000 }),
          exitCode: fc.integer({ min: 0, max: 255 }),
          signal: fc.constantFrom("SIGKILL", "SIGTERM"),
          message: fc.string({ maxLength: 20 }),
        },
        { requiredKeys: ["end", "startedAtMs", "ranMs"] },
      )
      .map(({ ranMs, ...end }) => ({ task, ...end, endedAtMs: end.startedAtMs + ranMs })),
  );

const ENDS = fc
  .uniqueArray(fc.integer({ min: 0, max: 999_999 }), { maxLength: 60 })
  .chain((tasks) => fc.tuple(...tasks.map(endOf)));

describe("packed ends", () => {
  it("come back as they were, in the order of the batch, with as many messages as were asked for", () => {
    fc.assert(
      fc.property(ENDS, fc.nat({ max: 60 }), (ends, mostTexts) => {
        const tasks = ends.map(({ task }) => task);
        const packed = packEnds(ends, mostTexts);
        const sent = JSON.parse(JSON.stringify(packed)) as typeof packed;
        let texts = 0;
        const want = ends.map(({ message, ...end }) =>
          message !== undefined && (texts += 1) <= mostTexts ? { ...end, message } : end,
        );
        expect(unpackEnds(tasks, sent)).toEqual(want);
      }),
    );
  });

  it("of a short report leave out the tasks that it does not reach, and of a long one add none", () => {
    const ends = [0, 1, 2].map((task): TaskEnd => ({ task, end: "completed", exitCode: 0 }));
    const packed = packEnds(ends, 0);
    expect(unpackEnds([5, 6, 7, 8], packed).map(({ task }) => task)).toEqual([5, 6, 7]);
    expect(unpackEnds([5], { ...packed, ends: [["completed", 1e12]] })).toHaveLength(1);
  });

  it("are a tenth of the ends alone where every exit code differs", () => {
    const ends = Array.from({ length: 1_000 }, (_, at): TaskEnd => {
      const startedAtMs = 1_700_000_000_000 + 37 * at;
      return {
        ...{ task: 900_000 + at, end: "failed", exitCode: 1 + (at % 255) },
        ...{ startedAtMs, endedAtMs: startedAtMs + 120, message: "m".repeat(512) },
      };
    });
    expect(JSON.stringify(packEnds(ends, 0)).length).toBeLessThan(20 * ends.length);
    expect(JSON.stringify(ends).length).toBeGreaterThan(600 * ends.length);
  });
});
