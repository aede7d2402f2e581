/**
 * @file Corrects the terms of a predicted step by what runs of the same model on the same GPU type have measured.
 *
 * A run with terms A (compute), B (communication) and C measured m = (c A + k B + C) × e^noise. The factors c and k are those that maximise the
 * posterior of ln c and ln k: normal around 0 with `PRIOR_LOG` before anything is measured, residuals of a Cauchy-like loss with `NOISE_LOG` and
 * `OUTLIER_LOG`, found by iteratively reweighted Gauss–Newton steps. Runs whose plans communicate in different shares tell c and k apart; where all are alike the prior
 * shares the error out by what either term can explain. With n runs no factor is beyond `MOST_OF_A_RUN`^n, and never beyond `MOST`: a report that is
 * wrong moves plans by little, and a second and third one have to agree with it. Runs of another tenant than the one that is planned for count
 * together as one run, so that nobody moves the plans of others further than by one report, nor outvotes what they measured themselves.
 * What is left over of a run is half noise and half its plan's own (degrees and micro-batch), which is shrunk by as much (empirical Bayes) and counts for that plan beside c and k.
 * Planning with corrections means planning on `correctedSite`: slower or faster GPUs and links, the same search. Pure. Cost: O(runs).
 */

import type { KeptStep, StepTerms } from "../../domain/model/step-record.ts";
import { median } from "../../lib/median.ts";
import { textHash } from "../../lib/text-hash.ts";
import type { PlanModel } from "./models.ts";
import type { PlanSite, Way } from "./site.ts";
import { planName, type Split } from "./split.ts";
import { scaledParts, type StepParts } from "./step-time.ts";

/** How many times longer than by data sheets and stated links. */
export interface StepCorrections {
  readonly compute: number;
  readonly communication: number;
  /** Runs behind them; without any both are 1. */
  readonly runs: number;
  /** Beside these, of each plan that ran, by its name. */
  readonly plans: readonly PlanFactor[];
}

export interface PlanFactor {
  readonly plan: string;
  readonly factor: number;
}

export const NO_CORRECTIONS: StepCorrections = Object.freeze({
  compute: 1,
  communication: 1,
  runs: 0,
  plans: Object.freeze([]),
});

const PRIOR_LOG = 0.5;
const NOISE_LOG = 0.15;
const OUTLIER_LOG = 0.25;
const MOST_OF_A_RUN = 1.5;
const MOST = 4;
const ROUNDS = 40;
const NAME_CHARS = 120;
const HASH_DIGITS = 12;
/** A step of the search. */
const MOST_STEP_LOG = 0.5;

export function stepCorrections(kept: readonly KeptStep[], tenant: string): StepCorrections {
  if (kept.length === 0) return NO_CORRECTIONS;
  const shareOf = sharesFor(kept, tenant);
  const start = startFor(kept, tenant);
  let [u, v] = [start, start];
  const prior = PRIOR_LOG ** -2;
  for (let round = 0; round < ROUNDS; round += 1) {
    let [uu, uv, vv, gu, gv] = [prior, 0, prior, -prior * u, -prior * v];
    for (const { measuredMs, computeMs, communicationMs, otherMs, ...of } of kept) {
      const [compute, sent] = [Math.exp(u) * computeMs, Math.exp(v) * communicationMs];
      const allMs = compute + sent + otherMs;
      const off = Math.log(measuredMs / allMs);
      const weight = (shareOf(of.tenant) * NOISE_LOG ** -2) / (1 + (off / OUTLIER_LOG) ** 2);
      const [a, b] = [compute / allMs, sent / allMs];
      uu += weight * a * a;
      uv += weight * a * b;
      vv += weight * b * b;
      gu += weight * a * off;
      gv += weight * b * off;
    }
    const det = uu * vv - uv * uv;
    u += clamped((vv * gu - uv * gv) / det, MOST_STEP_LOG);
    v += clamped((uu * gv - uv * gu) / det, MOST_STEP_LOG);
  }
  const votes = kept.reduce((sum, of) => sum + shareOf(of.tenant), 0);
  const most = Math.min(Math.log(MOST), votes * Math.log(MOST_OF_A_RUN));
  const [compute, communication] = [Math.exp(clamped(u, most)), Math.exp(clamped(v, most))];
  const plans = planFactors(kept, { compute, communication, shareOf });
  return { compute, communication, runs: kept.length, plans };
}

/** A plan's own error is taken to be as large as a run's noise, so that of what one run says half is believed, of two that agree two thirds. */
function planFactors(
  kept: readonly KeptStep[],
  {
    compute,
    communication,
    shareOf,
  }: Pick<StepCorrections, "compute" | "communication"> & {
    readonly shareOf: (tenant: string) => number;
  },
): readonly PlanFactor[] {
  const ofPlans = new Map<string, { weights: number; offs: number }>();
  for (const { plan, tenant, measuredMs, computeMs, communicationMs, otherMs } of kept) {
    const predictedMs = compute * computeMs + communication * communicationMs + otherMs;
    const off = Math.log(measuredMs / predictedMs);
    const weight = shareOf(tenant) / (1 + (off / OUTLIER_LOG) ** 2);
    const { weights, offs } = ofPlans.get(plan) ?? { weights: 0, offs: 0 };
    ofPlans.set(plan, { weights: weights + weight, offs: offs + weight * off });
  }
  // What all plans have in common is the model's, of which the two factors have believed less: a single plan says nothing of itself.
  const all = [...ofPlans.values()];
  const believed = all.reduce((sum, { weights }) => sum + weights / (1 + weights), 0);
  const common = all.reduce((sum, { weights, offs }) => sum + offs / (1 + weights), 0) / believed;
  return [...ofPlans].map(([plan, { weights, offs }]) => ({
    plan,
    factor: Math.exp(clamped((offs - weights * common) / (1 + weights), OUTLIER_LOG)),
  }));
}

/** The median error in logarithms: of the tenant's own runs, and of others the median of each tenant. */
function startFor(kept: readonly KeptStep[], own: string): number {
  const errors = new Map<string, number[]>();
  for (const { tenant, measuredMs, computeMs, communicationMs, otherMs } of kept) {
    const error = Math.log(measuredMs / (computeMs + communicationMs + otherMs));
    errors.set(tenant, [...(errors.get(tenant) ?? []), error]);
  }
  return median([...errors].flatMap(([of, all]) => (of === own ? all : [median(all)])));
}

/** How much a run of each tenant counts. */
function sharesFor(kept: readonly KeptStep[], own: string): (tenant: string) => number {
  const runs = new Map<string, number>();
  for (const { tenant } of kept) runs.set(tenant, (runs.get(tenant) ?? 0) + 1);
  return (tenant) => (tenant === own ? 1 : 1 / (runs.get(tenant) ?? 1));
}

const clamped = (value: number, most: number): number => Math.max(-most, Math.min(most, value));

/** Whose steps are compared: a model's on GPUs of these types. */
export type StepSubject = Pick<KeptStep, "model" | "gpuType">;

export const stepSubject = (model: PlanModel, site: PlanSite): StepSubject => ({
  model: modelKey(model),
  gpuType: typesOf(site),
});

/** Under which a model's steps are kept. */
export const modelKey = ({ name, layers }: PlanModel): string =>
  `${name.slice(0, NAME_CHARS)} ${textHash(JSON.stringify(layers)).slice(0, HASH_DIGITS)}`;

const typesOf = ({ hosts }: PlanSite): string =>
  [...new Set(hosts.map(({ gpuType }) => gpuType))].sort().join("+");

export interface LearnedSite {
  readonly site: PlanSite;
  readonly corrections: StepCorrections;
}

/** What runs of one model measured, for a tenant. */
export interface Learned {
  readonly kept: readonly KeptStep[];
  readonly tenant: string;
}

/** The site as runs of the model on the same GPU types have measured it; itself where none has. */
export function learnedSite(
  model: PlanModel,
  site: PlanSite,
  { kept, tenant }: Learned,
): LearnedSite {
  const { model: key, gpuType } = stepSubject(model, site);
  const own = kept.filter((step) => step.model === key && step.gpuType === gpuType);
  const corrections = stepCorrections(own, tenant);
  return {
    site: corrections.runs === 0 ? site : correctedSite(site, corrections),
    corrections,
  };
}

/**
 * The same for sites that are compared. GPU types on which nobody has measured the model are corrected by its runs on the others: what is off is
 * mostly the model's share of the peak, and a type without records would look faster than those with some.
 */
export function learnedSites(
  model: PlanModel,
  sites: readonly PlanSite[],
  { kept, tenant }: Learned,
): readonly PlanSite[] {
  if (kept.length === 0) return sites;
  const key = modelKey(model);
  const ofModel = kept.filter((step) => step.model === key);
  if (ofModel.length === 0) return sites;
  const known = new Map<string, StepCorrections>();
  return sites.map((site) => {
    const gpuType = typesOf(site);
    const own = ofModel.filter((step) => step.gpuType === gpuType);
    const corrections =
      known.get(gpuType) ??
      (own.length > 0 ? stepCorrections(own, tenant) : ofOtherTypes(ofModel, tenant));
    known.set(gpuType, corrections);
    return correctedSite(site, corrections);
  });
}

/** Of the model's share of a peak they tell; what a plan itself took there is that of other machines. */
const ofOtherTypes = (steps: readonly KeptStep[], tenant: string): StepCorrections => ({
  ...stepCorrections(steps, tenant),
  plans: [],
});

/** In words; none where nothing was measured. */
export function correctedText({ compute, communication, runs }: StepCorrections): string {
  if (runs === 0) return "";
  const measured = `${String(runs)} measured ${runs === 1 ? "run" : "runs"}`;
  return `corrected by ${measured}: compute × ${compute.toFixed(2)}, communication × ${communication.toFixed(2)}`;
}

/** The site on which the same predictions are the corrected ones. */
export function correctedSite(
  { hosts, fabric, between }: PlanSite,
  { compute, communication, plans }: StepCorrections,
): PlanSite {
  const slowed = (way: Way): Way => ({
    ...way,
    gbs: way.gbs / communication,
    latencyMs: way.latencyMs * communication,
  });
  return {
    hosts: hosts.map((host) => ({
      ...host,
      teraflops: host.teraflops / compute,
      inside: slowed(host.inside),
    })),
    fabric: (cluster) => slowed(fabric(cluster)),
    between: (from, to) => slowed(between(from, to)),
    ...(plans.length > 0 && {
      measured: new Map(plans.map(({ plan, factor }) => [plan, factor])),
    }),
  };
}

/** The terms of a step that was predicted on a corrected site, without its corrections. Waits are shared out by what the busiest GPUs do. */
export function stepTerms(
  { split, parts }: { readonly split: Split; readonly parts: StepParts },
  { compute, communication, plans }: StepCorrections,
): StepTerms {
  const name = planName(split);
  const factor = plans.find(({ plan }) => plan === name)?.factor ?? 1;
  const { computeMs, bubbleMs, tensorMs, exchangeMs, sendMs, reduceMs, updateMs } = scaledParts(
    parts,
    1 / factor,
  );
  const sent = tensorMs + exchangeMs + sendMs;
  const waits = 1 + bubbleMs / (computeMs + sent);
  return {
    computeMs: (computeMs * waits) / compute,
    communicationMs: (sent * waits + reduceMs) / communication,
    otherMs: updateMs,
  };
}
