/** @file What hosts and racks of a large cluster take from bandwidths. */

import { describe, expect, it } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { randomFrom } from "../../../lib/random.ts";
import {
  fabricFactors,
  factorLog,
  mostLog,
  racksOf,
  strengthLog,
} from "../../../models/bandwidth/fabric-factors.ts";
import { rackSets } from "../../../models/measuring/rack-sets.ts";
import { measuringSets } from "../../../models/measuring/measuring-sets.ts";

const PER_RACK = 8;

const domainOf = (hosts: number, perRack = PER_RACK): BandwidthDomain => ({
  hosts: Array.from({ length: hosts }, (_, at) => ({
    id: hostId("c", `h${String(at).padStart(3, "0")}`),
    gpuCount: 8,
    gpuType: "H100",
    rack: `r${String(Math.floor(at / perRack)).padStart(2, "0")}`,
  })),
  intraGbs: (_, mask) => (popCount(mask) === 1 ? Infinity : 400),
});

const domain = domainOf(64);
const SLOW = new Map([
  [3, 0.4],
  [4, 0.5],
  [40, 0.3],
]);

/** 300 GB/s, as slow as the slowest host, a fifth slower with each doubling of racks. */
const gbsOf = (shares: Candidate, of = domain): number =>
  300 *
  Math.min(...shares.map(({ host }) => SLOW.get(host) ?? 1)) *
  0.8 ** Math.ceil(Math.log2(racksOf(of, shares)));

const planOf = (count: number, of = domain): readonly Candidate[] =>
  rackSets(of, {
    count,
    random: randomFrom(5, "sets"),
    measured: [],
    hosts: [...of.hosts.keys()],
  });

describe("factors of a large cluster", () => {
  const sets = planOf(320);
  const factors = fabricFactors(
    domain,
    sets.map((shares) => ({ shares, gbs: gbsOf(shares) })),
  );
  if (factors === undefined) throw new Error("the cluster is large");

  it("find the slow hosts, and blame none that was measured beside them", () => {
    for (const host of domain.hosts.keys())
      expect(Math.exp(strengthLog(domain, factors, host))).toBeCloseTo(SLOW.get(host) ?? 1, 6);
  });

  it("find them in racks of four hosts, too: each is left out of a group once", () => {
    const small = domainOf(60, 4);
    const found = fabricFactors(
      small,
      planOf(320, small).map((shares) => ({ shares, gbs: gbsOf(shares, small) })),
    );
    if (found === undefined) throw new Error("the cluster is large");
    for (const host of small.hosts.keys())
      expect(Math.exp(strengthLog(small, found, host))).toBeCloseTo(SLOW.get(host) ?? 1, 6);
  });

  it("find what leaving a rack costs", () => {
    for (const shares of sets)
      expect(Math.exp(factorLog(domain, factors, shares))).toBeCloseTo(gbsOf(shares) / 300, 6);
  });

  it("take a host that was not measured for a usual one, and know nothing of small clusters", () => {
    const few = fabricFactors(domain, [{ shares: sets[0] ?? [], gbs: 300 }]);
    expect(few === undefined ? NaN : strengthLog(domain, few, 60)).toBe(few?.unmeasured);
    const small = domainOf(8);
    expect(fabricFactors(small, [{ shares: sets[0] ?? [], gbs: 300 }])).toBeUndefined();
  });
});

describe("what sets say of a host", () => {
  const whole = (...hosts: number[]): Candidate => hosts.map((host) => ({ host, mask: 255 }));
  const without = (shares: Candidate, gone: number): Candidate =>
    shares.filter(({ host }) => host !== gone);
  const groups = planOf(320).map((shares) => ({ shares, gbs: gbsOf(shares) }));

  it("is not what two hosts say, nor hosts that give some of their GPUs: their cards carry less", () => {
    const lenient = [
      { shares: whole(3, 5), gbs: 400 },
      { shares: whole(0, 5), gbs: 400 },
      { shares: whole(1, 5), gbs: 400 },
      { shares: whole(2, 5), gbs: 400 },
      { shares: [3, 5, 6].map((host) => ({ host, mask: 15 })), gbs: 150 },
    ];
    const found = fabricFactors(domain, [...groups, ...lenient]);
    if (found === undefined) throw new Error("the cluster is large");
    expect(Math.exp(strengthLog(domain, found, 3))).toBeCloseTo(0.4, 6);
    expect(Math.exp(strengthLog(domain, found, 5))).toBeCloseTo(1, 6);
  });

  it("is the slowest set in which it alone is to blame: a tree spares the cards of some hosts", () => {
    // Host 40 is spared in every second of its sets.
    let own = 0;
    const spared = groups.map(({ shares, gbs }) => {
      if (shares.some(({ host }) => host === 40)) own += 1;
      return { shares, gbs: gbs < 100 && own % 2 === 1 ? 280 : gbs };
    });
    const found = fabricFactors(domain, spared);
    if (found === undefined) throw new Error("the cluster is large");
    expect(own).toBeGreaterThan(3);
    expect(Math.exp(strengthLog(domain, found, 40))).toBeCloseTo(0.3, 6);
  });

  it("is also what a fast set over several racks says, whenever that was measured", () => {
    const cleared = { shares: whole(40, 48, 56), gbs: 300 };
    for (const samples of [
      [cleared, ...groups],
      [...groups, cleared],
    ]) {
      const found = fabricFactors(domain, samples);
      if (found === undefined) throw new Error("the cluster is large");
      expect(Math.exp(strengthLog(domain, found, 40))).toBeCloseTo(1, 6);
      expect(Math.exp(strengthLog(domain, found, 3))).toBeCloseTo(0.4, 6);
    }
  });

  it("has a price of a lone host in a rack where that is measured, and none elsewhere", () => {
    const isLone = (shares: Candidate): boolean =>
      shares.some(({ host }) => racksOf(domain, shares) > racksOf(domain, without(shares, host)));
    const joined = groups.map(({ shares, gbs }) => ({
      shares,
      gbs: racksOf(domain, shares) > 1 && isLone(shares) ? gbs / 2 : gbs,
    }));
    const found = fabricFactors(domain, joined);
    if (found === undefined) throw new Error("the cluster is large");
    const uneven = factorLog(domain, found, whole(8, 9, 10, 16));
    const even = factorLog(domain, found, whole(8, 9, 16, 17));
    expect(Math.exp(uneven - even)).toBeCloseTo(0.5, 6);
    expect(fabricFactors(domain, groups)?.lone).toBeUndefined();
  });

  it("limits what the network may answer: by sound hosts, and by the part of its GPUs that a host gives", () => {
    const parts = [1, 3, 15].map((mask) => ({
      shares: [8, 9, 10].map((host) => ({ host, mask })),
      gbs: (300 * popCount(mask)) / 8,
    }));
    const found = fabricFactors(domain, [...groups, ...parts, ...parts]);
    if (found === undefined) throw new Error("the cluster is large");
    const most = (shares: Candidate): number => Math.exp(mostLog(domain, found, shares));
    expect(most(whole(8, 9, 10, 11))).toBeCloseTo(300, 6);
    expect(most([...whole(8, 9), { host: 10, mask: 63 }])).toBeCloseTo(225, 6);
    // Nothing was measured over two hosts.
    expect(most(whole(8, 9))).toBe(Infinity);
  });

  it("limits no kind of hosts by what slower ones reach, however few of it there are", () => {
    const many = domainOf(128);
    const isFast = (host: number): boolean => host < PER_RACK;
    const mixed: BandwidthDomain = {
      ...many,
      hosts: many.hosts.map((of, host) => ({ ...of, gpuType: isFast(host) ? "H100" : "V100" })),
    };
    const plan = rackSets(mixed, {
      count: 384,
      random: randomFrom(7, "sets"),
      measured: [],
      hosts: [...mixed.hosts.keys()],
    });
    const sets = plan.map((shares) => ({
      shares,
      gbs:
        (shares.every(({ host }) => isFast(host)) ? 400 : 100) *
        0.8 ** Math.ceil(Math.log2(racksOf(mixed, shares))),
    }));
    const parts = Array.from({ length: 6 }, () => ({
      shares: [8, 9, 10].map((host) => ({ host, mask: 15 })),
      gbs: 100 * Math.SQRT1_2,
    }));
    const found = fabricFactors(mixed, [...sets, ...parts]);
    if (found === undefined) throw new Error("the cluster is large");
    const most = (shares: Candidate): number => Math.exp(mostLog(mixed, found, shares));
    expect(most(whole(0, 1, 2, 3))).toBeCloseTo(400, 6);
    // Halves are held to whole hosts of their own kind.
    expect(most([...whole(0, 1), { host: 2, mask: 15 }])).toBeCloseTo(400 * Math.SQRT1_2, 6);
  });
});

describe("sets to measure on a large cluster", () => {
  it("have each rack in as many pairs of racks as any other, but for one, two whole hosts of each", () => {
    const pairs = planOf(320).filter((set) => racksOf(domain, set) === 2 && set.length === 4);
    const counts = new Map<string, number>();
    for (const pair of pairs)
      for (const { host, mask } of pair) {
        expect(mask).toBe(255);
        const rack = domain.hosts[host]?.rack ?? "";
        counts.set(rack, (counts.get(rack) ?? 0) + 1);
      }
    expect(pairs.length).toBeGreaterThanOrEqual(80);
    expect(counts.size).toBe(new Set(domain.hosts.map(({ rack }) => rack)).size);
    expect(Math.min(...counts.values())).toBeGreaterThanOrEqual(18);
  });

  it("have each host, whole, in several groups of four of its rack, beside many others", () => {
    const groups = planOf(320).filter((set) => racksOf(domain, set) === 1);
    const partners = new Map<number, Set<number>>();
    for (const group of groups) {
      expect(group.length).toBe(4);
      for (const { host, mask } of group) {
        expect(mask).toBe(255);
        const own = partners.get(host) ?? new Set();
        for (const other of group) if (other.host !== host) own.add(other.host);
        partners.set(host, own);
      }
    }
    expect(partners.size).toBe(64);
    for (const own of partners.values()) expect(own.size).toBeGreaterThanOrEqual(4);
  });

  it("are as many as asked, none twice, of which some lie over several racks and some on parts of hosts", () => {
    const need = { count: 60, random: randomFrom(1, "sets"), measured: [] };
    const sets = measuringSets(domain, need);
    expect(sets.length).toBe(60);
    expect(new Set(sets.map((set) => JSON.stringify(set))).size).toBe(60);
    expect(sets.some((set) => racksOf(domain, set) >= 4)).toBe(true);
    expect(sets.some((set) => set.some(({ mask }) => popCount(mask) < 8))).toBe(true);
    expect(measuringSets(domain, need)).toEqual(sets);
  });
});
