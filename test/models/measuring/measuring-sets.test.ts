/** @file What is measured over hosts: some of what picks hesitate about, some of everything, each set once. */
import { describe, expect, test } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { randomFrom } from "../../../lib/random.ts";
import { insideGbs } from "../../../models/bandwidth/inside.ts";
import { decidingSets } from "../../../models/measuring/deciding-sets.ts";
import { keyOf, planBetween } from "../../../models/measuring/measuring-plan.ts";
import { measuringSets } from "../../../models/measuring/measuring-sets.ts";

const domainOf = (types: readonly string[]): BandwidthDomain => ({
  hosts: types.map((gpuType, at) => ({ id: hostId("eu", `h${String(at)}`), gpuCount: 4, gpuType })),
  intraGbs: (host, mask) => {
    if (popCount(mask) === 1) return Infinity;
    return types[host] === "slow" ? 20 : 200 - 10 * popCount(mask);
  },
});

const ONE_TYPE = domainOf(["X", "X", "X", "X"]);
const MIXED = domainOf(["X", "X", "slow", "slow"]);

const gapOf = (set: Candidate): number => {
  const counts = set.map(({ mask }) => popCount(mask));
  return Math.max(...counts) - Math.min(...counts);
};

describe("the sets that are measured over hosts", () => {
  test.each([
    ["one type", ONE_TYPE],
    ["several types", MIXED],
  ])("of %s: as many as asked, each once, the same for the same seed", (_, domain) => {
    const need = { count: 30, measured: [], random: randomFrom(3, "sets") };
    const sets = measuringSets(domain, need);
    expect(new Set(sets.map(keyOf)).size).toBe(30);
    for (const set of sets) expect(set.length).toBeGreaterThan(1);
    expect(measuringSets(domain, { ...need, random: randomFrom(3, "sets") })).toEqual(sets);
  });

  test("of one type have uneven splits, which no pick takes, among the even ones from the start", () => {
    const random = randomFrom(3, "sets");
    const gaps = measuringSets(ONE_TYPE, { count: 24, measured: [], random }).map(gapOf);
    for (const half of [gaps.slice(0, 12), gaps.slice(12)]) {
      expect(half.filter((gap) => gap <= 1).length).toBeGreaterThanOrEqual(3);
      expect(half.filter((gap) => gap >= 2).length).toBeGreaterThanOrEqual(2);
    }
  });

  test("of several types are explained by a slow host less often than those of the plan alone", () => {
    const need = { count: 40, measured: [], random: randomFrom(3, "sets") };
    const slow = (sets: readonly Candidate[]): number =>
      sets.filter((set) => insideGbs(MIXED, set) === 20).length;
    const { picks } = planBetween(MIXED, { ...need, random: randomFrom(3, "sets") });
    expect(slow(measuringSets(MIXED, need))).toBeLessThan(slow(picks));
  });

  test("leave out what was measured and the hosts that take no part", () => {
    const need = { count: 10, measured: [], random: randomFrom(3, "sets"), hosts: [0, 2] };
    const first = measuringSets(MIXED, need);
    const next = measuringSets(MIXED, { ...need, measured: first });
    const known = new Set(first.map(keyOf));
    expect(next.filter((set) => known.has(keyOf(set)))).toEqual([]);
    const hosts = [...first, ...next].flatMap((set) => set.map(({ host }) => host));
    expect(new Set(hosts)).toEqual(new Set([0, 2]));
  });
});

describe("small budgets over hosts of one type", () => {
  const sets = (count: number, measured: readonly Candidate[] = []): readonly Candidate[] =>
    measuringSets(domainOf(["X", "X", "X", "X"]), {
      count,
      measured,
      random: randomFrom(5, "sets"),
    });
  const deciding = (count: number): readonly string[] =>
    decidingSets(ONE_TYPE, {
      count,
      measured: [],
      hosts: [0, 1, 2, 3],
      random: randomFrom(5, "sets").stream("deciding"),
    }).map(keyOf);

  test("go to what picks are decided by alone", () => {
    expect(sets(12).map(keyOf)).toEqual(deciding(12));
  });

  test("in parts are divided as one: what is planned after the first fifty is planned then", () => {
    const first = sets(50);
    const next = sets(20, first);
    expect(new Set([...first, ...next].map(keyOf)).size).toBe(70);
  });
});
