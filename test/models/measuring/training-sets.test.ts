/** @file The sets over hosts that teach most: different, as many as asked, such as could win a pick. */
import { describe, expect, test } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { randomFrom } from "../../../lib/random.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { insideGbs } from "../../../models/bandwidth/inside.ts";
import { trainingSets } from "../../../models/measuring/training-sets.ts";

/** The last host is slow inside. */
const domainOf = (types: readonly string[]): BandwidthDomain => ({
  hosts: types.map((gpuType, at) => ({
    id: hostId("eu", `h${String(at)}`),
    gpuCount: 4,
    gpuType,
  })),
  intraGbs: (host, mask) =>
    popCount(mask) === 1 ? Infinity : host === types.length - 1 ? 40 : 200 - 10 * popCount(mask),
});

const shapeOf = (set: Candidate): string =>
  set
    .map(({ mask }) => popCount(mask))
    .sort((a, b) => b - a)
    .join("+");

const ONE_TYPE = domainOf(["X", "X", "X"]);
const MIXED = domainOf(["X", "X", "Y"]);

describe("training sets", () => {
  test.each([
    ["one type of host", ONE_TYPE],
    ["several types", MIXED],
    ["too many hosts to list all ways", domainOf(Array.from({ length: 40 }, () => "X"))],
  ])("of %s are different, over several hosts, as many as asked, and repeat", (_, domain) => {
    const sets = trainingSets(domain, { count: 30, random: randomFrom(8, "sets") });
    expect(new Set(sets.map((set) => JSON.stringify(set))).size).toBe(30);
    for (const set of sets) expect(set.length).toBeGreaterThan(1);
    expect(trainingSets(domain, { count: 30, random: randomFrom(8, "sets") })).toEqual(sets);
  });

  test("of one type of host are rather even splits", () => {
    const need = { count: 12, random: randomFrom(8, "sets"), nameOf: shapeOf };
    const gaps = trainingSets(ONE_TYPE, need).map((set) => {
      const counts = set.map(({ mask }) => popCount(mask));
      return Math.max(...counts) - Math.min(...counts);
    });
    expect(gaps.filter((gap) => gap <= 1).length).toBeGreaterThan(gaps.length / 2);
  });

  test("of several types are rather such as no slow host explains", () => {
    const sets = trainingSets(MIXED, { count: 12, random: randomFrom(8, "sets") });
    const open = sets.filter((set) => insideGbs(MIXED, set) > 40);
    expect(open.length).toBeGreaterThan(sets.length / 2);
  });

  test("leave out what was measured, hosts that take no part, and what cannot be measured", () => {
    const random = randomFrom(8, "sets");
    const measured = trainingSets(ONE_TYPE, { count: 10, random });
    const isOpen = (set: Candidate): boolean => shapeOf(set) !== "1+1";
    const need = { count: 20, random, measured, isOpen, hosts: [0, 1] };
    const old = new Set(measured.map((set) => JSON.stringify(set)));
    const sets = trainingSets(ONE_TYPE, need);
    expect(sets.length).toBeGreaterThan(5);
    for (const set of sets) {
      expect(old.has(JSON.stringify(set))).toBe(false);
      expect(shapeOf(set)).not.toBe("1+1");
      for (const { host } of set) expect(host).toBeLessThan(2);
    }
  });
});
