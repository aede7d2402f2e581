/** @file What hosts and racks of a large cluster take from bandwidths. */

import { describe, expect, it } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { randomFrom } from "../../../lib/random.ts";
import {
  fabricFactors,
  factorLog,
  racksOf,
  strengthLog,
} from "../../../models/bandwidth/fabric-factors.ts";
import { rackSets } from "../../../models/measuring/rack-sets.ts";
import { measuringSets } from "../../../models/measuring/measuring-sets.ts";

const PER_RACK = 8;

const domainOf = (hosts: number): BandwidthDomain => ({
  hosts: Array.from({ length: hosts }, (_, at) => ({
    id: hostId("c", `h${String(at).padStart(3, "0")}`),
    gpuCount: 8,
    gpuType: "H100",
    rack: `r${String(Math.floor(at / PER_RACK)).padStart(2, "0")}`,
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
const gbsOf = (shares: Candidate): number =>
  300 *
  Math.min(...shares.map(({ host }) => SLOW.get(host) ?? 1)) *
  0.8 ** Math.ceil(Math.log2(racksOf(domain, shares)));

const planOf = (count: number): readonly Candidate[] =>
  rackSets(domain, {
    count,
    random: randomFrom(5, "sets"),
    measured: [],
    hosts: [...domain.hosts.keys()],
  });

describe("factors of a large cluster", () => {
  const sets = planOf(240);
  const factors = fabricFactors(
    domain,
    sets.map((shares) => ({ shares, gbs: gbsOf(shares) })),
  );
  if (factors === undefined) throw new Error("the cluster is large");

  it("find the slow hosts, and blame none that was measured beside them", () => {
    for (const host of domain.hosts.keys())
      expect(Math.exp(strengthLog(domain, factors, host))).toBeCloseTo(SLOW.get(host) ?? 1, 6);
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

describe("sets to measure on a large cluster", () => {
  it("have each host beside two others, whole, before any pair comes twice", () => {
    const pairs = planOf(240).filter(({ length }) => length === 2);
    const partners = new Map<number, Set<number>>();
    for (const pair of pairs)
      for (const { host, mask } of pair) {
        expect(mask).toBe(255);
        const own = partners.get(host) ?? new Set();
        for (const other of pair) if (other.host !== host) own.add(other.host);
        partners.set(host, own);
      }
    expect(partners.size).toBe(64);
    for (const own of partners.values()) expect(own.size).toBeGreaterThanOrEqual(2);
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
