/** @file What a tuner of collectives keeps: each step once, apart by overlap, bounded, and without what came before a shift. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NO_POLICY, type CollectiveReward } from "../../../domain/bandwidth/collective-evidence.ts";
import {
  forgotten,
  NO_COLLECTIVE_MEMORY,
  takeInRewards,
  viewOfWorld,
  withPolicy,
  worldOf,
} from "../../../workflows/learners/collective-memory.ts";
import type { CollectiveMemory, RewardReport } from "../../../protocol/collective-messages.ts";

const reward = (over: Partial<CollectiveReward> = {}): CollectiveReward => ({
  step: 1,
  version: 1,
  collective: "allreduce",
  minBytes: 0,
  maxBytes: 1023,
  arm: "auto",
  calls: 1,
  micros: 1000,
  ...over,
});
const steps = (from: number, count: number): readonly CollectiveReward[] =>
  Array.from({ length: count }, (_, at) => reward({ step: from + at, micros: from + at }));
const report = (rewards: readonly CollectiveReward[], run = "lease-1 r"): RewardReport => ({
  hasOverlap: true,
  run,
  rewards,
});
const notified = (
  memory: CollectiveMemory,
  ...reports: readonly RewardReport[]
): CollectiveMemory => reports.reduce((all, each) => takeInRewards(all, each).memory, memory);
const micros = (memory: CollectiveMemory): readonly number[] =>
  worldOf(memory, true).rows.flatMap(({ samples }) => samples.map((sample) => sample.micros));

describe("rewards that come in", () => {
  it("count once, however often they are said", () => {
    const once = notified(NO_COLLECTIVE_MEMORY, report(steps(1, 5)));
    const again = takeInRewards(once, report(steps(3, 4)));
    expect(again.isNew).toBe(true);
    expect(micros(again.memory)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(again.memory).toMatchObject({ heard: 6, repeated: 3, unfit: 0 });
    expect(takeInRewards(again.memory, report(steps(1, 6))).isNew).toBe(false);
  });

  it("of two runs are both heard, with the same steps", () => {
    const memory = notified(
      NO_COLLECTIVE_MEMORY,
      report(steps(1, 2)),
      report(steps(1, 2), "lease-2"),
    );
    expect(micros(memory)).toEqual([1, 2, 1, 2]);
    const [row] = worldOf(memory, true).rows;
    expect(new Set(row?.samples.map(({ run }) => run)).size).toBe(2);
  });

  it("with overlap and without are worlds apart", () => {
    const memory = notified(NO_COLLECTIVE_MEMORY, { ...report(steps(1, 2)), hasOverlap: false });
    expect(worldOf(memory, true)).toEqual({ hasOverlap: true, rows: [], policy: NO_POLICY });
    expect(worldOf(memory, false).rows).toHaveLength(1);
  });

  it.each([
    { name: "took no time", over: { micros: 0 } },
    { name: "took a day", over: { micros: 86_400e6 } },
    { name: "has no call", over: { calls: 0 } },
    { name: "has collectives that took no time", over: { slowestMicros: 0 } },
    { name: "has collectives that took a day", over: { slowestMicros: 86_400e6 } },
    { name: "has a band upside down", over: { minBytes: 9, maxBytes: 3 } },
  ])("that $name say nothing", ({ over }) => {
    const { memory, isNew } = takeInRewards(NO_COLLECTIVE_MEMORY, report([reward(over)]));
    expect(isNew).toBe(false);
    expect(memory).toMatchObject({ heard: 0, unfit: 1, worlds: [] });
  });

  it("are kept with what the collectives took, where that was told", () => {
    const memory = notified(
      NO_COLLECTIVE_MEMORY,
      report([reward({ slowestMicros: 300 }), reward({ step: 2 })]),
    );
    expect(worldOf(memory, true).rows[0]?.samples).toMatchObject([
      { micros: 1000, slowestMicros: 300 },
      { micros: 1000 },
    ]);
  });

  it("under several arms say how many calls a step has, and nothing of time", () => {
    const memory = notified(NO_COLLECTIVE_MEMORY, report([reward({ arm: "mixed", calls: 7 })]));
    expect(worldOf(memory, true).rows).toMatchObject([{ calls: 7, samples: [] }]);
  });

  const rowsOf = (step: number): readonly CollectiveReward[] => [
    reward({ step, version: 4, micros: step }),
    reward({ step, version: 4, micros: step, collective: "allgather" }),
  ];
  const exploring = (...names: readonly string[]): CollectiveMemory =>
    withPolicy(NO_COLLECTIVE_MEMORY, true, {
      stale: [],
      policy: {
        version: 4,
        text: "…",
        isExploring: names.length > 0,
        reasons: ["allreduce", "allgather"].map((collective) => ({
          collective,
          minBytes: 0,
          maxBytes: 1023,
          arm: "auto",
          isExploring: names.includes(collective),
          why: "",
          arms: [],
        })),
      },
    });

  it.each([
    {
      name: "nothing of time when several rows explored",
      before: exploring("allreduce", "allgather"),
      want: {},
    },
    { name: "of the one that explored", before: exploring("allgather"), want: { allgather: 2 } },
    {
      name: "of all rows when none did",
      before: exploring(),
      want: { allreduce: 2, allgather: 2 },
    },
    {
      name: "nothing of time under a policy that is not known",
      before: NO_COLLECTIVE_MEMORY,
      want: {},
    },
  ])("of a step with several rows tell $name", ({ before, want }) => {
    const memory = notified(before, report([...rowsOf(1), ...rowsOf(2)]));
    const { rows } = worldOf(memory, true);
    expect(rows.map(({ calls }) => calls)).toEqual([1, 1]);
    const counts = rows.flatMap(({ collective, samples }) =>
      samples.length > 0 ? [[collective, samples.length] as const] : [],
    );
    expect(Object.fromEntries(counts)).toEqual(want);
  });

  it("say how many calls a step has: the most of the run that was heard last", () => {
    const callsOf = (...said: readonly (readonly [run: string, step: number, calls: number])[]) =>
      worldOf(
        notified(
          NO_COLLECTIVE_MEMORY,
          ...said.map(([run, step, calls]) => report([reward({ step, calls, arm: "mixed" })], run)),
        ),
        true,
      ).rows[0]?.calls;
    expect(callsOf(["a", 1, 24], ["a", 2, 25], ["a", 3, 24])).toBe(25);
    expect(callsOf(["a", 1, 24], ["b", 1, 2])).toBe(2);
  });

  it("are kept as the first that explored and the latest, however many there were", () => {
    const batches = Array.from({ length: 20 }, (_, at) => report(steps(1 + 50 * at, 50)));
    const kept = micros(notified(NO_COLLECTIVE_MEMORY, ...batches));
    expect(kept).toHaveLength(320);
    expect(kept.slice(0, 80)).toEqual(steps(1, 80).map(({ step }) => step));
    expect(kept.at(-1)).toBe(1000);
  });

  it("of far too many rows and runs leave the memory bounded", () => {
    const rows = Array.from({ length: 100 }, (_, at) => reward({ minBytes: at, maxBytes: at }));
    const runs = Array.from({ length: 300 }, (_, at) => report([reward()], `run ${String(at)}`));
    const memory = notified(NO_COLLECTIVE_MEMORY, report(rows), ...runs);
    expect(worldOf(memory, true).rows.length).toBeLessThanOrEqual(64);
    expect(memory.runs.length).toBeLessThanOrEqual(200);
  });

  it("in whatever pieces and order of repetition give the same samples", () => {
    const all = steps(1, 30);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 10 }), (cuts) => {
        // What is said again always begins before what is new: an answer was lost.
        const ends = [...cuts, 30].sort((a, b) => a - b);
        const said = ends.map((end, at) =>
          report(all.slice(Math.max(0, (ends[at - 2] ?? 0) - 3), end)),
        );
        expect(micros(notified(NO_COLLECTIVE_MEMORY, ...said))).toEqual(
          all.map(({ step }) => step),
        );
      }),
    );
  });
});

describe("a policy that was made", () => {
  const policy = { version: 4, text: "…", reasons: [], isExploring: false };

  it("stays with its world, and what came before a shift leaves", () => {
    const memory = notified(NO_COLLECTIVE_MEMORY, report(steps(1, 10)));
    const stale = [{ collective: "allreduce", minBytes: 0, maxBytes: 1023, samples: 6 }];
    const after = withPolicy(memory, true, { policy, stale });
    expect(micros(after)).toEqual([7, 8, 9, 10]);
    expect(after.version).toBe(4);
    expect(viewOfWorld(worldOf(after, true))).toMatchObject({
      policy,
      rows: [{ calls: 1, samples: 4 }],
    });
  });

  it("is outlived by its number when everything is forgotten", () => {
    const memory = withPolicy(notified(NO_COLLECTIVE_MEMORY, report(steps(1, 10))), true, {
      policy,
      stale: [],
    });
    const after = forgotten(memory);
    expect(after).toMatchObject({ version: 4, heard: 0 });
    expect(micros(after)).toEqual([]);
    // Steps of a run that goes on are not heard a second time.
    expect(takeInRewards(after, report(steps(1, 10))).isNew).toBe(false);
  });
});
