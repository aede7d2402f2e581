/** @file Splits on the hosts that are named first: the step stays what it is, and ranks begin on the first host of those that are alike. */

import fc from "fast-check";
import { expect, it, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { onFirstHosts } from "../../../planning/parallelism/first-hosts.ts";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import { unitsOf, type PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { playedStep, stepTime } from "../../../planning/parallelism/step-time.ts";
import { caseCount } from "../../support/case-count.ts";
import { host, preset, siteOf } from "./sites.ts";

const SUMS = layerSums(preset("gpt2-350m"));
const LAYERS = SUMS.flops.length - 1;

const drawn = fc.record({
  /** By host: its cluster, GPUs and whether it is a slower one. */
  hosts: fc.array(fc.tuple(fc.nat(2), fc.constantFrom(1, 2, 2), fc.boolean()), {
    minLength: 2,
    maxLength: 6,
  }),
  isFarApart: fc.boolean(),
  stages: fc.integer({ min: 1, max: 6 }),
  seed: fc.nat(),
});

function drawnSplit({
  hosts,
  isFarApart,
  stages: wanted,
  seed,
}: typeof drawn extends fc.Arbitrary<infer Of> ? Of : never): {
  readonly site: PlanSite;
  readonly split: Split;
} {
  const site: PlanSite = {
    ...siteOf(
      ...hosts.map(([cluster, gpus, isSlow], at) =>
        host(`h${String(at)}`, gpus, {
          cluster: `c${String(cluster)}`,
          ...(isSlow && { gpuType: "A40", teraflops: 150 }),
        }),
      ),
    ),
    between: (from, to) => ({ gbs: isFarApart && from + to === "c0c1" ? 0.2 : 2, latencyMs: 1 }),
  };
  const cells = [...(unitsOf(site, 1) ?? [])];
  const random = randomFrom(seed, "cells");
  for (let at = cells.length - 1; at > 0; at -= 1) {
    const other = random.below(at + 1);
    const [a, b] = [cells[at], cells[other]];
    if (a !== undefined && b !== undefined) [cells[at], cells[other]] = [b, a];
  }
  const stages = cells.length % wanted === 0 ? wanted : 1;
  const bounds = Array.from({ length: stages + 1 }, (_, at) => Math.round((at * LAYERS) / stages));
  const split = {
    ...{ width: 1, stages, replicas: cells.length / stages, microBatch: 1, microBatches: 4 },
    ...{ isRecomputing: false, isSharded: true, bounds, cells },
  };
  return { site, split };
}

const kindOf = ({ hosts }: PlanSite, at: number): string => {
  const { cluster, gpuType, gpuCount } = hosts[at] ?? host("none", 0);
  return [cluster, gpuType, gpuCount].join();
};

test("the step stays what it is, each GPU is used once, and no host of a kind comes before an earlier one", () => {
  fc.assert(
    fc.property(drawn, (of) => {
      const { site, split } = drawnSplit(of);
      const found = onFirstHosts(split, site);
      const setting = { site, sums: SUMS };
      const msOf = (one: Split): readonly number[] => [
        stepTime(one, setting).totalMs,
        playedStep(one, setting).totalMs,
      ];
      for (const [at, ms] of msOf(found).entries())
        expect(Math.abs(ms / (msOf(split)[at] ?? 0) - 1)).toBeLessThan(1e-9);
      const ranks = (one: Split) =>
        one.cells.map(({ firstRank }) => firstRank).sort((a, b) => a - b);
      expect(ranks(found)).toEqual(ranks(split));
      for (const { host: at, firstRank } of found.cells) {
        const before = site.hosts.slice(0, at).reduce((sum, { gpuCount }) => sum + gpuCount, 0);
        expect(firstRank - before).toBeLessThan(site.hosts[at]?.gpuCount ?? 0);
      }
      const order = [...new Set(found.cells.map((unit) => unit.host))];
      for (const kind of new Set(order.map((at) => kindOf(site, at)))) {
        const own = order.filter((at) => kindOf(site, at) === kind);
        expect(own).toEqual([...own].sort((a, b) => a - b));
      }
      expect(onFirstHosts(found, site)).toBe(found);
    }),
    { numRuns: caseCount(200) },
  );
});

it.each([
  { what: "alike clusters with equal links change places", between: 1, gpuType: "A100", want: 0 },
  { what: "clusters of unlike GPUs stay", between: 1, gpuType: "H100", want: 1 },
  { what: "clusters with unlike links stay", between: 2, gpuType: "A100", want: 1 },
])("$what", ({ between, gpuType, want }) => {
  const site: PlanSite = {
    ...siteOf(host("a/h", 1), host("b/h", 1, { cluster: "b", gpuType })),
    between: (from) => ({ gbs: from === "a" ? 1 : between, latencyMs: 1 }),
  };
  const [first, second] = unitsOf(site, 1) ?? [];
  const split: Split = {
    ...{ width: 1, stages: 2, replicas: 1, microBatch: 1, microBatches: 4 },
    ...{ isRecomputing: false, isSharded: false, bounds: [0, 12, LAYERS] },
    cells: [second, first].flatMap((unit) => unit ?? []),
  };
  expect(onFirstHosts(split, site).cells[0]?.host).toBe(want);
});

test("plans of alike hosts begin on the first", async () => {
  for (const [gpus, clusters] of [
    [
      [4, 4],
      ["a", "b"],
    ],
    [
      [2, 2, 2, 2],
      ["a", "a", "b", "b"],
    ],
  ] as const) {
    const hosts = gpus.map((count, at) =>
      host(`h${String(at)}`, count, { cluster: clusters[at] ?? "a" }),
    );
    for (const name of ["gpt2-1.3b", "gpt2-350m", "llama-7b"]) {
      const of = { model: preset(name), site: siteOf(...hosts), batch: 16 };
      const answer = await planTraining({ ...of, random: randomFrom(1, "plan") });
      if (answer.kind !== "planned") throw new Error(answer.message);
      expect(answer.plan.split.cells[0]?.host).toBe(0);
    }
  }
});
