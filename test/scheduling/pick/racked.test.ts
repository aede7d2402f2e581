/** @file Candidates on strong hosts of few racks. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type {
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
} from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { rackedCandidates } from "../../../scheduling/pick/racked.ts";
import { searchPick } from "../../../scheduling/pick/search-pick.ts";

const HOSTS = 24;
const PER_RACK = 6;

const domain: BandwidthDomain = {
  hosts: Array.from({ length: HOSTS }, (_, at) => ({
    id: hostId("c", `h${String(at).padStart(2, "0")}`),
    gpuCount: 8,
    gpuType: "H100",
    rack: `r${String(Math.floor(at / PER_RACK))}`,
  })),
  intraGbs: (_, mask) => (popCount(mask) === 1 ? Infinity : 400),
};

const rackOf = (host: number): number => Math.floor(host / PER_RACK);
const racksOf = (pick: Candidate): number => new Set(pick.map(({ host }) => rackOf(host))).size;

/** As slow as the weakest host, and a tenth slower with each rack. */
function predictorOf(strengths: readonly number[]): BandwidthPredictor {
  const strengthOf = (host: number): number => strengths[host] ?? 1;
  const gbs = (pick: Candidate): number =>
    50 *
    Math.min(...pick.map(({ mask }) => popCount(mask))) *
    Math.min(...pick.map(({ host }) => strengthOf(host))) *
    0.9 ** racksOf(pick);
  return {
    version: "made up",
    domain,
    strengthOf,
    kindOf: ({ mask }) => popCount(mask),
    predict: (picks) => picks.map(gbs),
  };
}

const questionOf = (strengths: readonly number[], freeMasks: readonly number[], gpus: number) => ({
  predictor: predictorOf(strengths),
  freeMasks,
  gpus,
});

const whole = domain.hosts.map(() => 255);

describe("candidates on strong hosts of few racks", () => {
  it("leave out the slow hosts, and stay in one rack where one rack has room", () => {
    const strengths = domain.hosts.map((_, host) => (host < 3 || host === 12 ? 0.4 : 1));
    const found = searchPick(questionOf(strengths, whole, 48));
    expect(found?.pick.map(({ host }) => host)).toEqual([6, 7, 8, 9, 10, 11]);
  });

  it("take a slow host before they leave the last rack only where that is faster", () => {
    // One rack with a host at 0.95 against two racks at 0.9.
    const strengths = domain.hosts.map((_, host) => (host % PER_RACK === 0 ? 0.95 : 1));
    const found = searchPick(questionOf(strengths, whole, 48));
    expect(found === undefined ? 0 : racksOf(found.pick)).toBe(1);
  });

  it("leave no rack with a single host where a few racks can share the gang", () => {
    // Racks 0 and 1 have six whole hosts; racks 2 and 3 one each.
    const free = domain.hosts.map((_, host) =>
      rackOf(host) < 2 || host % PER_RACK === 0 ? 255 : 0,
    );
    const found = rackedCandidates(questionOf([], free, 56), allOptions(domain, free));
    const counts = found.map((pick) =>
      [0, 1, 2, 3].map((rack) => pick.filter(({ host }) => rackOf(host) === rack).length),
    );
    expect(counts).toContainEqual([6, 0, 1, 0]);
    expect(counts.some(([a = 0, b = 0]) => a >= 3 && b >= 3)).toBe(true);
  });

  it("try the racks first that others leave alone", () => {
    const busy = new Set([0, 1]);
    const question = {
      ...questionOf([], whole, 80),
      rackTrafficOf: (host: number) => (busy.has(rackOf(host)) ? 500 : 0),
    };
    const found = rackedCandidates(question, allOptions(domain, whole));
    expect(found.some((pick) => pick.every(({ host }) => !busy.has(rackOf(host))))).toBe(true);
  });

  it("try the fewest racks that let most out, then one more, and none of these where all let out as much", () => {
    const question = questionOf([], whole, 80);
    const predictor = {
      ...question.predictor,
      wayOutOf: (host: number) => [0.5, 0.9, 0.6, 0.8][rackOf(host)] ?? 1,
    };
    const racks = (of: typeof question): readonly string[] =>
      rackedCandidates(of, allOptions(domain, whole)).map((pick) =>
        [...new Set(pick.map(({ host }) => rackOf(host)))].sort().join(),
      );
    expect(racks({ ...question, predictor })).toContain("1,3");
    expect(racks({ ...question, predictor })).not.toEqual(racks(question));
    const alike = { ...question.predictor, wayOutOf: () => 0.7 };
    expect(racks({ ...question, predictor: alike })).toEqual(racks(question));
  });

  it("are none where strengths are not known", () => {
    const { strengthOf: _, ...unknown } = predictorOf([]);
    const question = { predictor: unknown, freeMasks: whole, gpus: 48 };
    expect(rackedCandidates(question, allOptions(domain, whole))).toEqual([]);
  });

  it("are of the wanted size, within what is free, each host once", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(255), { minLength: HOSTS, maxLength: HOSTS }),
        fc.array(fc.double({ min: 0.1, max: 1, noNaN: true }), {
          minLength: HOSTS,
          maxLength: HOSTS,
        }),
        fc.integer({ min: 2, max: 96 }),
        (freeMasks, strengths, gpus) => {
          const question = questionOf(strengths, freeMasks, gpus);
          const free = freeMasks.reduce((sum, mask) => sum + popCount(mask), 0);
          const found = rackedCandidates(question, allOptions(domain, freeMasks));
          expect(found.length > 0).toBe(free >= gpus);
          for (const pick of found) {
            expect(pick.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(gpus);
            expect(new Set(pick.map(({ host }) => host)).size).toBe(pick.length);
            for (const { host, mask } of pick) expect(mask & ~(freeMasks[host] ?? 0)).toBe(0);
          }
        },
      ),
      { numRuns: 50 },
    );
  });
});
