import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readTruthData } from "../../../bench/pick/truth-data.ts";
import { countsKey, h100Truth, hetTruth, type Truth } from "../../../bench/pick/truth.ts";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { randomFrom, shuffled } from "../../../lib/random.ts";
import { measuringCost, setsWithin } from "../../../models/measuring/measuring-cost.ts";
import {
  candidatePool,
  features,
  kernel,
  keyOf,
  MAX_POOL,
  planBetween,
} from "../../../models/measuring/measuring-plan.ts";
import { caseCount } from "../../support/case-count.ts";

const data = readTruthData();
const h100 = h100Truth(data);
const mixed = hetTruth("Het-4Mix", data);
if (mixed === undefined) throw new Error("the project's own data makes no Het-4Mix");

const domains = fc
  .array(fc.record({ gpuCount: fc.integer({ min: 1, max: 3 }), type: fc.constantFrom("A", "B") }), {
    minLength: 2,
    maxLength: 3,
  })
  .map((hosts): BandwidthDomain => ({
    hosts: hosts.map(({ gpuCount, type }, index) => ({
      id: hostId("c", `h${String(index)}`),
      gpuCount,
      gpuType: type,
    })),
    intraGbs: (host, mask) => ((mask & (mask - 1)) === 0 ? Infinity : 10 + host + (mask % 7)),
  }));

describe("the plan of sets over several hosts", () => {
  test("is made of different sets over two hosts or more, within the hosts' GPUs", () => {
    fc.assert(
      fc.property(domains, fc.integer({ min: 0, max: 30 }), fc.nat(), (domain, count, seed) => {
        const { picks } = planBetween(domain, { count, measured: [], random: randomFrom(seed) });
        expect(new Set(picks.map(keyOf)).size).toBe(picks.length);
        expect(picks.length).toBeLessThanOrEqual(count);
        for (const shares of picks) {
          expect(shares.length).toBeGreaterThan(1);
          const hosts = shares.map(({ host }) => host);
          expect(hosts).toEqual([...new Set(hosts)].sort((a, b) => a - b));
          for (const { host, mask } of shares) {
            expect(mask).toBeGreaterThan(0);
            expect(mask).toBeLessThan(2 ** (domain.hosts[host]?.gpuCount ?? 0));
          }
        }
      }),
      { numRuns: caseCount(40) },
    );
  });

  test("every pick lowers what is unknown, and the same seed gives the same plan", () => {
    fc.assert(
      fc.property(domains, fc.nat(), (domain, seed) => {
        const need = { count: 8, measured: [] };
        const plan = planBetween(domain, { ...need, random: randomFrom(seed) });
        for (const [at, rest] of plan.restVariance.entries()) {
          if (at > 0) expect(rest).toBeLessThan(plan.restVariance[at - 1] ?? 0);
        }
        expect(planBetween(domain, { ...need, random: randomFrom(seed) })).toEqual(plan);
      }),
      { numRuns: caseCount(20) },
    );
  });

  test("what was measured is not measured again, and what comes next is the rest of the plan", () => {
    const whole = planBetween(h100.domain, { count: 12, measured: [], random: randomFrom(5) });
    const rest = planBetween(h100.domain, {
      count: 8,
      measured: whole.picks.slice(0, 4),
      random: randomFrom(5),
    });
    expect(rest.picks).toEqual(whole.picks.slice(4));
  });

  test("keeps to the hosts that may take part", () => {
    const { picks } = planBetween(h100.domain, {
      count: 20,
      measured: [],
      random: randomFrom(1),
      hosts: [1, 3],
    });
    expect(new Set(picks.flatMap((shares) => shares.map(({ host }) => host)))).toEqual(
      new Set([1, 3]),
    );
    expect(candidatePool(h100.domain, { random: randomFrom(1), hosts: [2] })).toEqual([]);
  });

  test("of four hosts of one type the pool has every multiset of counts", () => {
    const pool = candidatePool(h100.domain, { random: randomFrom(1) });
    expect(new Set(pool.map(countsKey)).size).toBe(486);
  });

  test("of many hosts it stays small and leaves out none", () => {
    const hosts = Array.from({ length: 40 }, (_, index) => ({
      id: hostId("c", `h${String(index)}`),
      gpuCount: 8,
      gpuType: "H100",
    }));
    const pool = candidatePool({ hosts, intraGbs: () => undefined }, { random: randomFrom(1) });
    expect(pool.length).toBeLessThanOrEqual(MAX_POOL);
    expect(new Set(pool.flatMap((shares) => shares.map(({ host }) => host))).size).toBe(40);
  });
});

/** R², over what is asked, of a Gaussian process over the logarithms that has seen `known`. */
function explained(truth: Truth, known: readonly Candidate[], asked: readonly Candidate[]): number {
  const points = features(truth.domain, [...known, ...asked]);
  const pointAt = (at: number): Float64Array => points[at] ?? new Float64Array(0);
  const logs = known.map((candidate) => Math.log(truth.gbs(candidate) ?? NaN));
  const mean = logs.reduce((sum, each) => sum + each, 0) / logs.length;
  const weights = solved(
    known.map((_, row) =>
      known.map(
        (__, column) => kernel(pointAt(row), pointAt(column)) + (row === column ? 3e-3 : 0),
      ),
    ),
    logs.map((each) => each - mean),
  );
  const truths = asked.map((candidate) => truth.gbs(candidate) ?? NaN);
  const usual = truths.reduce((sum, gbs) => sum + gbs, 0) / truths.length;
  let missed = 0;
  let spread = 0;
  for (const [at, gbs] of truths.entries()) {
    const point = pointAt(known.length + at);
    const log = weights.reduce((sum, weight, k) => sum + weight * kernel(point, pointAt(k)), mean);
    missed += (Math.exp(log) - gbs) ** 2;
    spread += (gbs - usual) ** 2;
  }
  return 1 - missed / spread;
}

/** Gauss, without pivots: the matrix is positive definite. */
function solved(matrix: readonly (readonly number[])[], right: readonly number[]): number[] {
  const rows = matrix.map((row, at) => Float64Array.from([...row, right[at] ?? 0]));
  const size = rows.length;
  const cell = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let pivot = 0; pivot < size; pivot += 1) {
    for (let row = pivot + 1; row < size; row += 1) {
      const share = cell(row, pivot) / cell(pivot, pivot);
      const target = rows[row];
      if (target === undefined || share === 0) continue;
      for (let at = pivot; at <= size; at += 1)
        target[at] = cell(row, at) - share * cell(pivot, at);
    }
  }
  const weights = Array.from({ length: size }, () => 0);
  for (let row = size - 1; row >= 0; row -= 1) {
    let sum = cell(row, size);
    for (let at = row + 1; at < size; at += 1) sum -= cell(row, at) * (weights[at] ?? 0);
    weights[row] = sum / cell(row, row);
  }
  return weights;
}

describe("measured as planned, the rest is known better than after as many at random", () => {
  test.each([
    { truth: h100, count: 25, wantPlanned: 0.787, wantRandom: 0.596, wantWorst: 0.504 },
    { truth: h100, count: 50, wantPlanned: 0.88, wantRandom: 0.726, wantWorst: 0.526 },
    { truth: mixed, count: 50, wantPlanned: 0.748, wantRandom: 0.691, wantWorst: 0.597 },
  ])("$truth.name, $count sets: R² $wantPlanned, and $wantRandom at random", (row) => {
    const { truth, count, wantPlanned, wantRandom, wantWorst } = row;
    const pool = candidatePool(truth.domain, { random: randomFrom(1, "asked") });
    const nameOf = truth === h100 ? countsKey : keyOf;
    const fit = (known: readonly Candidate[]): number => {
      const names = new Set(known.map(nameOf));
      return explained(
        truth,
        known,
        pool.filter((each) => !names.has(nameOf(each))),
      );
    };
    const { picks } = planBetween(truth.domain, { count, measured: [], random: randomFrom(1) });
    const random = [1, 2, 3, 4, 5].map((seed) =>
      fit(shuffled(pool, randomFrom(seed, "drawn")).slice(0, count)),
    );
    const mean = random.reduce((sum, each) => sum + each, 0) / random.length;
    expect(fit(picks)).toBeCloseTo(wantPlanned, 2);
    expect(mean).toBeCloseTo(wantRandom, 2);
    expect(Math.min(...random)).toBeCloseTo(wantWorst, 2);
  });
});

describe("the cost of measuring", () => {
  const host = (gpuType: string, sets = 247): Parameters<typeof measuringCost>[0][number] => ({
    host: `c/${gpuType}`,
    gpuType,
    gpuCount: 8,
    sets,
  });

  test("hosts at the same time, at the paper's speed of their type", () => {
    const cost = measuringCost([host("H100"), host("RTX4090"), host("L40S")], []);
    expect(cost.hosts.map(({ basis, paperSeconds }) => [basis, paperSeconds])).toEqual([
      ["paper", 1_288],
      ["paper", 503],
      ["median of the paper", undefined],
    ]);
    expect(cost.wallSeconds).toBeCloseTo((247 * 1_288) / 256, 6);
    expect(cost.gpuHours).toBeCloseTo((8 * 247 * (1_288 + 503 + 866)) / 256 / 3_600, 6);
  });

  test("what was timed here goes before the paper, and groups come after the hosts", () => {
    const timed = { ...host("H100", 10), timedSeconds: 2 };
    const group = { hosts: [timed, timed], sets: 5 };
    const cost = measuringCost([timed], [group]);
    expect(cost.wallSeconds).toBeCloseTo(10 * 2 + 5 * 2 * 2, 6);
    expect(cost.gpuHours).toBeCloseTo((20 * 8 + 20 * 16) / 3_600, 6);
    expect(setsWithin(60, group)).toBe(15);
    expect(setsWithin(60, { ...group, timedSeconds: 7 })).toBe(8);
  });

  test("nothing to measure costs nothing", () => {
    expect(measuringCost([host("H100", 0)], [])).toMatchObject({ wallSeconds: 0, gpuHours: 0 });
  });
});
