/** @file From evidence to a policy: what is given out first, when a version is spent, and what is chosen in the end. */

import { describe, expect, it } from "vitest";
import { tuned } from "../../../activities/collectives/tune.ts";
import {
  NO_POLICY,
  type OverlapEvidence,
  type PublishedPolicy,
  type RewardSample,
  type TopologyClass,
} from "../../../domain/bandwidth/collective-evidence.ts";
import { parsePolicy } from "../../../tuning/policy-file.ts";
import { armAt, type Policy, type PolicyRow } from "../../../tuning/policy.ts";

const TWO_BY_FOUR: TopologyClass = {
  cluster: "eu-1",
  name: "2x4-A100-nvlink",
  nodes: 2,
  ranks: 8,
  hasNvlink: true,
  hasNvlinkSharp: false,
};
const BAND = { collective: "allreduce", minBytes: 16 * 2 ** 20, maxBytes: 128 * 2 ** 20 - 1 };

const evidence = (
  policy: PublishedPolicy,
  samples: readonly RewardSample[],
  calls = 1,
): OverlapEvidence => ({
  hasOverlap: true,
  policy,
  rows: samples.length === 0 && calls === 1 ? [] : [{ ...BAND, calls, run: 1, samples }],
});

const read = ({ text }: PublishedPolicy): Policy => {
  const parsed = parsePolicy(text, "test");
  if (parsed.kind === "refused") throw new Error(parsed.problems[0]?.message);
  return parsed.policy;
};
const rowIn = (policy: PublishedPolicy): PolicyRow => {
  const row = read(policy).sections[0]?.rows.find(
    ({ collective, minBytes }) => collective === BAND.collective && minBytes === BAND.minBytes,
  );
  if (row === undefined) throw new Error("the band is missing");
  return row;
};

/** Steps under a policy, as a job would take them; `millisOf` is the truth. */
function play(
  policy: PublishedPolicy,
  count: number,
  millisOf: (arm: string) => number,
): readonly RewardSample[] {
  const row = rowIn(policy);
  return Array.from({ length: count }, (_, call) => {
    const arm = armAt(row, call * (row.explore?.stride ?? 1));
    return { arm, micros: 1000 * millisOf(arm), version: policy.version, run: 1 };
  });
}

/** Learns until it is settled; gives the last policy and the steps that it took. */
function learn(topology: TopologyClass, millisOf: (arm: string) => number) {
  let samples: readonly RewardSample[] = [];
  let { policy } = tuned({ topology, evidence: evidence(NO_POLICY, []), version: 1 });
  for (let turn = 0; turn < 40 && rowIn(policy).explore !== undefined; turn += 1) {
    const iterations = rowIn(policy).explore?.runs.reduce((sum, { count }) => sum + count, 0) ?? 0;
    samples = [...samples, ...play(policy, iterations, millisOf)];
    const order = { topology, evidence: evidence(policy, samples), version: policy.version + 1 };
    const { version } = policy;
    ({ policy } = tuned(order));
    // Ranks count calls since a version took effect: the same schedule again is a new version.
    if (rowIn(policy).explore !== undefined) expect(policy.version).toBe(version + 1);
  }
  return { policy, samples };
}

describe("the first policy", () => {
  const { policy } = tuned({
    topology: TWO_BY_FOUR,
    evidence: evidence(NO_POLICY, []),
    version: 1,
  });

  it("explores every band of what training uses, and is for this shape only", () => {
    expect(policy).toMatchObject({ version: 1, isExploring: true });
    const { sections } = read(policy);
    expect(sections).toMatchObject([{ topology: "eu-1/2x4-A100-nvlink", nodes: 2, ranks: 8 }]);
    expect(new Set(rowIn(policy).explore?.runs.map(({ arm }) => arm))).toContain("auto");
  });

  it("says the same again while nothing was heard, under the same version", () => {
    const again = tuned({ topology: TWO_BY_FOUR, evidence: evidence(policy, []), version: 2 });
    expect(again.policy.text).toBe(policy.text);
    expect(again.policy.version).toBe(1);
  });

  it("stands while its own schedule is gone through", () => {
    const some = play(policy, 2, () => 100);
    const next = tuned({ topology: TWO_BY_FOUR, evidence: evidence(policy, some), version: 2 });
    expect(next.policy.version).toBe(1);
  });

  it("gives way to one that holds an arm for a whole step once the calls of a step are known", () => {
    const next = tuned({ topology: TWO_BY_FOUR, evidence: evidence(policy, [], 24), version: 2 });
    expect(next.policy.version).toBe(2);
    expect(rowIn(next.policy).explore?.stride).toBe(24);
  });

  it("asks again for what its schedule should have brought and did not", () => {
    const all = play(policy, 20, () => 100).filter(({ arm }) => arm !== "ring/simple");
    const next = tuned({ topology: TWO_BY_FOUR, evidence: evidence(policy, all), version: 2 });
    expect(next.policy.version).toBe(2);
    expect(rowIn(next.policy).explore?.runs.map(({ arm }) => arm)).toContain("ring/simple");
  });
});

describe("a job that uses several rows", () => {
  it("explores them one after the other, that with most bytes first", () => {
    const used = (calls: number, minBytes: number) => ({
      collective: "allreduce",
      minBytes,
      maxBytes: minBytes * (minBytes === 2 ** 20 ? 16 : 8) - 1,
      calls,
      run: 1,
      samples: [],
    });
    const rows = [used(8, 2 ** 20), used(4, 2 ** 24)];
    const order = { topology: TWO_BY_FOUR, version: 1 };
    const { policy } = tuned({ ...order, evidence: { ...evidence(NO_POLICY, []), rows } });
    const exploring = (read(policy).sections[0]?.rows ?? []).filter(
      ({ collective, explore }) => collective === "allreduce" && explore !== undefined,
    );
    // What was never used may explore: it disturbs nobody.
    expect(exploring.map(({ minBytes }) => minBytes)).toEqual([2 ** 24, 2 ** 27]);
    expect(exploring[0]?.explore?.stride).toBe(4);
  });
});

describe("what is learned", () => {
  it("is the arm that is clearly the best, in at most 20 exploring steps", () => {
    const { policy, samples } = learn(TWO_BY_FOUR, (arm) => (arm === "tree/simple" ? 60 : 100));
    expect(rowIn(policy)).toEqual({ ...BAND, arm: "tree/simple" });
    expect(samples.length).toBeLessThanOrEqual(20);
  });

  it("is NCCL's own choice where nothing is better", () => {
    const { policy } = learn(TWO_BY_FOUR, (arm) => (arm === "auto" ? 100 : 103));
    expect(rowIn(policy).arm).toBe("auto");
  });

  it("is not taken elsewhere: what is best in one place is tried anew in the next, and not followed (§4.1)", () => {
    const elsewhere = { ...TWO_BY_FOUR, cluster: "eu-2" };
    const here = learn(TWO_BY_FOUR, (arm) => (arm === "tree/simple" ? 60 : 100));
    const there = learn(elsewhere, (arm) => (arm === "auto" ? 50 : 105));
    expect(rowIn(here.policy).arm).toBe("tree/simple");
    expect(rowIn(there.policy).arm).toBe("auto");
  });

  it("is forgotten where the ground has shifted: what came before does not count, and it explores again", () => {
    const before = learn(TWO_BY_FOUR, (arm) => (arm === "tree/simple" ? 60 : 100));
    const noisy = (step: number): number => 1 + (step % 7) / 100;
    const later = (count: number, micros: number): readonly RewardSample[] =>
      Array.from({ length: count }, (_, step) => ({
        arm: "tree/simple",
        micros: micros * noisy(step),
        version: before.policy.version,
        run: 1,
      }));
    const settled = [...before.samples, ...later(60, 60_000)];
    const version = before.policy.version + 1;
    const calm = tuned({
      topology: TWO_BY_FOUR,
      evidence: evidence(before.policy, settled),
      version,
    });
    expect(calm).toMatchObject({ policy: { version: before.policy.version }, stale: [] });
    const moved = [...settled, ...later(16, 130_000)];
    const after = tuned({
      topology: TWO_BY_FOUR,
      evidence: evidence(before.policy, moved),
      version,
    });
    expect(after.stale).toMatchObject([{ ...BAND }]);
    expect(after.stale[0]?.samples).toBeGreaterThan(50);
    expect(rowIn(after.policy).explore).toBeDefined();
  });

  it("is told with the typical time of every arm that was tried", () => {
    const { policy } = learn(TWO_BY_FOUR, (arm) => (arm === "tree/simple" ? 60 : 100));
    const reason = policy.reasons.find(
      ({ minBytes, collective }) => minBytes === BAND.minBytes && collective === "allreduce",
    );
    expect(reason?.arm).toBe("tree/simple");
    expect(reason?.arms.find(({ arm }) => arm === "tree/simple")?.typicalMicros).toBe(60_000);
  });
});
