/** @file Replicas of a service: which one answers, how many there are, and what is known of a prompt without reading it. */

import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  chooseReplica,
  leastLoaded,
  type RoutedReplica,
} from "../../../planning/serving/choose-replica.ts";
import { promptBlocks } from "../../../planning/serving/prompt-blocks.ts";
import { replicaTarget, type LoadSample } from "../../../planning/serving/replica-target.ts";

const replica = (id: string, of: Partial<RoutedReplica> = {}): RoutedReplica => ({
  ...{ id, slots: 8, inService: 0, promptMs: 0, backlogMs: 0, busyUntilMs: 0, known: () => 0 },
  ...of,
});
const AT = { blocks: ["a", "b"], nowMs: 1_000 };

describe("the choice of a replica", () => {
  it("prefers the one that knows more of the prompt, unless it is much busier", () => {
    const known = replica("z", { known: () => 2, inService: 2 });
    expect(chooseReplica([replica("a"), known], AT)?.id).toBe("z");
    expect(chooseReplica([replica("a"), { ...known, inService: 3 }], AT)?.id).toBe("a");
  });

  it("gives a replica no prompt while those that have come keep it busy for longer than its backlog", () => {
    const terms = { promptMs: 30, backlogMs: 60 };
    const one = replica("a", { ...terms, busyUntilMs: 1_030 });
    expect(chooseReplica([one], AT)?.id).toBe("a");
    expect(chooseReplica([{ ...one, busyUntilMs: 1_031 }], AT)).toBeUndefined();
  });

  it("names one with room whenever there is one, and the least busy of those without a prompt", () => {
    const drawn = fc.array(
      fc.record({ inService: fc.nat(8), slots: fc.integer({ min: 1, max: 8 }), known: fc.nat(2) }),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(drawn, (those) => {
        const replicas = those.map(({ known, ...each }, at) =>
          replica(String(at), { ...each, known: () => known }),
        );
        const able = replicas.filter(({ inService, slots }) => inService < slots);
        const chosen = chooseReplica(replicas, AT);
        expect(chosen !== undefined).toBe(able.length > 0);
        if (chosen !== undefined) expect(able).toContain(chosen);
        expect(chooseReplica(replicas, { ...AT, blocks: [] })).toBe(leastLoaded(able));
      }),
    );
  });
});

describe("the beginning of a prompt", () => {
  const body = (text: string): Uint8Array =>
    Buffer.from(JSON.stringify({ model: "m", prompt: text, max_tokens: 5 }));
  const LONG = "once upon a time ".repeat(200);

  it("is known again whatever stands before it, and up to the first difference", () => {
    const one = promptBlocks(body(`${LONG} one ${LONG}`));
    const other = promptBlocks(Buffer.from(`{"temperature": 1, "prompt":"${LONG} other ${LONG}"}`));
    const common = one.findIndex((block, at) => block !== other[at]);
    expect(one.length).toBeGreaterThan(10);
    // Whole blocks of what both begin with.
    expect(common).toBe(Math.floor((LONG.length + '"prompt":"'.length) / 256));
  });

  it("is looked at within a bound, whatever the body's size, and is nothing for a short one", () => {
    expect(promptBlocks(body(LONG.repeat(1_000)))).toHaveLength(64);
    expect(promptBlocks(body("hello"))).toEqual([]);
  });
});

/** Samples each 250 ms; `rate`: requests a second at a time. */
const samplesOf = (seconds: number, rate: (s: number) => number): readonly LoadSample[] => {
  let came = 0;
  return Array.from({ length: 4 * seconds + 1 }, (_, at) => {
    came += rate(at / 4) / 4;
    return { atMs: 250 * at, inService: 1, waiting: 0, came };
  });
};
const TERMS = { slots: 100, ratePerS: 10 };
const target = (samples: readonly LoadSample[], replicas: number, idle = {}): number =>
  replicaTarget(
    { min: 0, max: 50, ...idle },
    { samples, terms: TERMS, replicas, lastRequestMs: 0 },
  );

describe("the number of replicas", () => {
  it("follows the rate of requests: at once upwards, and down when it has stayed lower", () => {
    expect(
      target(
        samplesOf(20, () => 95),
        10,
      ),
    ).toBe(10);
    const burst = samplesOf(21.5, (s) => (s < 20 ? 95 : 285));
    expect(target(burst, 10)).toBeGreaterThanOrEqual(25);
    const after = samplesOf(40, (s) => (s < 20 ? 285 : 95));
    expect(target(after, 29)).toBe(10);
  });

  test.each([
    { what: "a busy service", inService: 1, idleMs: 1_000, want: 1 },
    { what: "one that idles long enough", inService: 0, idleMs: 1_000, want: 0 },
    { what: "one that idled too short", inService: 0, idleMs: 100_000, want: 1 },
    { what: "one that may not", inService: 0, idleMs: undefined, want: 1 },
  ])("$what wants $want", ({ inService, idleMs, want }) => {
    const samples = samplesOf(20, () => 0).map((sample) => ({ ...sample, inService }));
    expect(target(samples, 1, idleMs === undefined ? {} : { idleMs })).toBe(want);
  });

  it("falls by one at a time where no rate is known, and never leaves its bounds", () => {
    const samples = samplesOf(20, () => 0).map((sample) => ({ ...sample, inService: 3 }));
    const load = { samples, terms: { slots: 8 }, replicas: 5, lastRequestMs: 0 };
    expect(replicaTarget({ min: 0, max: 9 }, load)).toBe(4);
    expect(replicaTarget({ min: 6, max: 9 }, load)).toBe(6);
    const many = samples.map((sample) => ({ ...sample, waiting: 1_000 }));
    expect(replicaTarget({ min: 0, max: 9 }, { ...load, samples: many })).toBe(9);
  });
});
