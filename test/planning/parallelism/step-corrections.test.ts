/** @file Corrections by measured steps: what runs tell of compute and of links, how little one of them may say alone, and sites that are corrected. */

import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import type { KeptStep } from "../../../domain/model/step-record.ts";
import { frameworkOn } from "../../../planning/parallelism/framework.ts";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import { layerSums, planName } from "../../../planning/parallelism/split.ts";
import {
  correctedSite,
  learnedSite,
  learnedSites,
  NO_CORRECTIONS,
  stepCorrections,
  stepSubject,
  stepTerms,
} from "../../../planning/parallelism/step-corrections.ts";
import { playedStep } from "../../../planning/parallelism/step-time.ts";
import { randomFrom } from "../../../lib/random.ts";
import { host, preset, siteOf } from "./sites.ts";

const OWN = "team-a";
const kept = (computeMs: number, communicationMs: number, measuredMs: number): KeptStep => ({
  ...{ model: "m", gpuType: "A100", plan: "DP 1", run: "r", predictedMs: 1, atMs: 0, otherMs: 0 },
  ...{ tenant: OWN, computeMs, communicationMs, measuredMs },
});
const corrections = (steps: readonly KeptStep[]) => stepCorrections(steps, OWN);
/** Of a world with these factors. */
const measured = (shares: readonly number[], c: number, k: number): readonly KeptStep[] =>
  shares.map((share) => {
    const [compute, sent] = [1000 * (1 - share), 1000 * share];
    return kept(compute, sent, c * compute + k * sent);
  });

describe("factors", () => {
  it("are 1 before anything is measured", () => {
    expect(corrections([])).toBe(NO_CORRECTIONS);
  });

  it("tell compute and links apart where plans communicate in different shares", () => {
    const shares = Array.from({ length: 12 }, (_, at) => (at % 6) / 6);
    const { compute, communication, runs } = corrections(measured(shares, 1.8, 0.7));
    expect(compute).toBeCloseTo(1.8, 1);
    expect(communication).toBeCloseTo(0.7, 1);
    expect(runs).toBe(12);
  });

  it("leave links alone where nothing was sent", () => {
    const { compute, communication } = corrections(measured([0, 0, 0, 0, 0, 0], 1.5, 1));
    expect(compute).toBeCloseTo(1.5, 1);
    expect(communication).toBe(1);
  });

  it("come nearer to what was measured the more runs say so", () => {
    const of = (count: number): number =>
      corrections(measured(Array<number>(count).fill(0), 1.4, 1)).compute;
    expect(of(1)).toBeGreaterThan(1.2);
    expect(of(2)).toBeGreaterThan(of(1));
    expect(of(8)).toBeGreaterThan(of(2));
    expect(of(8)).toBeLessThan(1.4);
  });

  it("are the same in whatever order the runs came", () => {
    const runs = measured([0.1, 0.4, 0.7], 1.3, 0.8);
    const [there, back] = [corrections(runs), corrections([...runs].reverse())];
    expect(back.compute).toBeCloseTo(there.compute, 9);
    expect(back.communication).toBeCloseTo(there.communication, 9);
  });

  it("move by at most a half for one run, and hardly for one among ten that agree", () => {
    const absurd = kept(900, 100, 7_900);
    const alone = corrections([absurd]);
    expect(Math.max(alone.compute, alone.communication)).toBeLessThanOrEqual(1.5 + 1e-9);
    const shares = Array.from({ length: 10 }, (_, at) => at / 12);
    const among = corrections([...measured(shares, 1.2, 1.1), absurd]);
    const without = corrections(measured(shares, 1.2, 1.1));
    expect(among.compute / without.compute).toBeCloseTo(1, 1);
    expect(among.communication / without.communication).toBeCloseTo(1, 1);
  });

  it("follow other tenants' runs by one vote each, and not against what the tenant measured", () => {
    const lies = Array.from({ length: 8 }, () => ({ ...kept(1000, 0, 7_900), tenant: "team-b" }));
    const believed = corrections(lies).compute;
    expect(believed).toBeGreaterThan(1);
    expect(believed).toBeLessThanOrEqual(1.5 + 1e-9);
    expect(corrections(lies.map((each) => ({ ...each, tenant: OWN }))).compute).toBeGreaterThan(3);
    const own = measured([0, 0, 0], 1.2, 1);
    expect(corrections([...lies, ...own]).compute).toBeCloseTo(corrections(own).compute, 1);
    const agreeing = measured([0, 0, 0], 1.4, 1).map((each, at) => ({
      ...each,
      tenant: `team-${String(at)}`,
    }));
    expect(corrections(agreeing).compute).toBeCloseTo(
      corrections(measured([0, 0, 0], 1.4, 1)).compute,
      9,
    );
  });

  test("stay within their bounds whatever is kept", () => {
    const ms = fc.double({ min: 0.01, max: 1e8, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.tuple(ms, fc.oneof(fc.constant(0), ms), ms)), (rows) => {
        const { compute, communication } = corrections(rows.map((row) => kept(...row)));
        for (const factor of [compute, communication]) {
          expect(factor).toBeGreaterThanOrEqual(1 / 4 - 1e-9);
          expect(factor).toBeLessThanOrEqual(4 + 1e-9);
        }
      }),
    );
  });
});

describe("what runs say of their own plan", () => {
  /** Of the plan that took so many times longer than predicted, where forty runs of five others took what was. */
  const factorOf = (offs: readonly number[], other = "team-b"): number => {
    const rest = Array.from({ length: 40 }, (_, at) => ({
      ...kept(1_000, 0, 1_000),
      plan: `DP ${String(2 + (at % 5))}`,
    }));
    const own = offs.map((off) => ({ ...kept(1_000, 0, 1_000 * off), tenant: other }));
    return corrections([...rest, ...own]).plans.find(({ plan }) => plan === "DP 1")?.factor ?? 1;
  };

  it("is nothing where one plan alone ran: the model may be slower as well", () => {
    const { plans } = corrections([1.5, 2, 3].map((off) => kept(1_000, 0, 1_000 * off)));
    expect(plans.map(({ factor }) => factor)).toEqual([expect.closeTo(1, 12)]);
  });

  it("is believed by nearly half where one says it, and more the more runs do", () => {
    const believed = Math.log(factorOf([1.05], OWN)) / Math.log(1.05);
    expect(believed).toBeGreaterThan(0.4);
    expect(believed).toBeLessThan(0.5);
    const [two, many] = [factorOf([1.05, 1.05], OWN), factorOf(Array<number>(8).fill(1.05), OWN)];
    expect(two).toBeGreaterThan(factorOf([1.05], OWN));
    expect(many).toBeGreaterThan(two);
    expect(many).toBeLessThan(1.05);
  });

  it("moves a plan by an eighth at most for any one report, and any tenant", () => {
    for (const off of [1.3, 2, 7.9, 1 / 7.9])
      for (const count of [1, 8]) {
        const factor = factorOf(Array<number>(count).fill(off));
        expect(Math.abs(Math.log(factor))).toBeLessThanOrEqual(0.125);
      }
  });

  it("has the search leave a plan that ran long for one that is as good, and predicts what ran", async () => {
    const site = siteOf(host("a", 4), host("b", 4));
    const planOn = async (measured: ReadonlyMap<string, number>) => {
      const answer = await planTraining({
        ...{ model: preset("gpt2-1.3b"), site: { ...site, measured }, batch: 32 },
        random: randomFrom(1, "plan"),
      });
      if (answer.kind === "blocked") throw new Error(answer.message);
      return answer.plan;
    };
    const first = await planOn(new Map());
    const long = await planOn(new Map([[planName(first.split), 1.5]]));
    expect(planName(long.split)).not.toBe(planName(first.split));
    expect(long.stepMs).toBeGreaterThan(first.stepMs);
    expect(long.stepMs).toBeLessThan(1.5 * first.stepMs);
    const short = await planOn(new Map([[planName(long.split), 0.5]]));
    expect(planName(short.split)).toBe(planName(long.split));
    expect(short.stepMs).toBeCloseTo(0.5 * long.stepMs, 3);
    const sum = Object.values(short.parts).reduce((all: number, part: number) => all + part, 0);
    expect(sum).toBeCloseTo(short.stepMs, 6);
  });
});

describe("a corrected site", () => {
  const site = siteOf(host("a", 4), host("b", 4));
  const model = preset("gpt2-1.3b");

  test("makes a step longer by the factors of its terms", async () => {
    const request = { model, site, batch: 32, random: randomFrom(1, "plan") };
    const answer = await planTraining(request);
    if (answer.kind === "blocked") throw new Error(answer.message);
    const { split, parts, stepMs } = answer.plan;
    const terms = stepTerms({ split, parts }, NO_CORRECTIONS);
    expect(terms.computeMs + terms.communicationMs + terms.otherMs).toBeCloseTo(stepMs, 6);
    const sums = layerSums(model, frameworkOn(site));
    for (const factor of [1, 1.1, 0.9]) {
      const plans = [{ plan: planName(split), factor }];
      const twice = { compute: 2, communication: 2, runs: 1, plans };
      const played = playedStep(split, { site: correctedSite(site, twice), sums });
      const doubledMs = 2 * (stepMs - terms.otherMs) + terms.otherMs;
      expect(played.totalMs).toBeCloseTo(factor * doubledMs, 3);
      // The record of a corrected prediction is that of the plain one.
      const again = stepTerms({ split, parts: played.parts }, twice);
      expect(again.computeMs).toBeCloseTo(terms.computeMs, 3);
      expect(again.communicationMs).toBeCloseTo(terms.communicationMs, 3);
      expect(again.otherMs).toBeCloseTo(terms.otherMs, 6);
    }
  });

  test("is another subject for other layers and for other GPUs", () => {
    const own = stepSubject(model, site);
    expect(stepSubject(model, siteOf(host("c", 2)))).toEqual(own);
    expect(stepSubject(preset("gpt2-350m"), site).model).not.toBe(own.model);
    const longer = { ...model, layers: model.layers.slice(1) };
    expect(stepSubject(longer, site).model).not.toBe(own.model);
    const mixed = siteOf(host("a", 4), host("h", 4, { gpuType: "H100" }));
    expect(stepSubject(model, mixed).gpuType).toBe("A100+H100");
  });
});

describe("a site as runs have measured it", () => {
  const model = preset("gpt2-1.3b");
  const site = siteOf(host("c", 2));
  const ran = (gpuType: string, model: string): KeptStep => ({
    ...kept(1_000, 100, 2_200),
    model,
    gpuType,
  });
  const { model: key, gpuType } = stepSubject(model, site);
  const runs = (type: string, of = key) => Array.from({ length: 5 }, () => ran(type, of));

  it("is itself without records of the model on its GPU types", () => {
    for (const records of [[], runs(gpuType, "other"), runs("T4")])
      expect(learnedSite(model, site, { kept: records, tenant: OWN })).toEqual({
        site,
        corrections: NO_CORRECTIONS,
      });
  });

  it("has GPUs as slow as the runs say", () => {
    const { site: learned, corrections } = learnedSite(model, site, {
      kept: [...runs(gpuType), ...runs("T4")],
      tenant: OWN,
    });
    expect(corrections.runs).toBe(5);
    const [before = 0, after = 0] = [site, learned].map(({ hosts }) => hosts[0]?.teraflops);
    expect(before / after).toBeCloseTo(corrections.compute, 9);
    expect(corrections.compute).toBeGreaterThan(1.5);
  });

  it("is compared with others by what is known of the model anywhere", () => {
    const other = siteOf({ ...host("d", 2), gpuType: "T4" });
    const [a, b] = learnedSites(model, [site, other], { kept: runs(gpuType), tenant: OWN });
    const slower = (before: typeof site, after: typeof site | undefined): number =>
      (before.hosts[0]?.teraflops ?? NaN) / (after?.hosts[0]?.teraflops ?? NaN);
    expect(slower(other, b)).toBeCloseTo(slower(site, a), 9);
    expect(slower(site, a)).toBeGreaterThan(1.5);
    expect(learnedSites(model, [site], { kept: runs(gpuType, "other"), tenant: OWN })).toEqual([
      site,
    ]);
  });
});
