/**
 * @file The prices of places: the step that a model would take on GPUs that its job might get, so that plan and place are chosen together.
 *
 * Places of one kind (GPU types, and the widest tensor parallel degree that their hosts allow) are compared by the same splits: the first one is
 * searched through with the smallest micro-batch, the best `KEPT` choices of degrees with every micro-batch, and the splits that this leaves are
 * laid on the others. A price is a bound of step-time.ts: never shorter than what links allow, and mostly a little longer than the plan that the
 * job gets in the end, which is searched for further. Places of equal hosts have equal prices. Where the work is used up, the remaining places
 * have none. What is tried counts before it is done, whether or not it fits. Cost: `work` at most, and one split more.
 */

import type { FrameworkChoice } from "../../domain/model/framework-names.ts";
import {
  byTime,
  degreesOf,
  plainArrangements,
  plainCandidates,
  PREDICTION_CELLS,
  timed,
  type Candidate,
  type CandidateRequest,
  type DegreesOfWidth,
  type SearchBudget,
  type Search,
} from "./candidates.ts";
import { frameworkOn } from "./framework.ts";
import type { PlanModel } from "./models.ts";
import { unitsOf, type PlanSite } from "./site.ts";
import { layerSums, type LayerSums, type Split } from "./split.ts";
import { isHeldEverywhere } from "./stage-bounds.ts";

export interface PriceRequest {
  readonly model: PlanModel;
  /** Samples of one step over all replicas. */
  readonly batch: number;
  readonly framework?: FrameworkChoice;
  readonly sites: readonly PlanSite[];
  /** In cells (candidates.ts): of places, kinds and splits that are tried, each with the layers that are looked at. */
  readonly work: number;
}

export interface PlacePrices {
  /** By site; undefined where no split fits, or nothing was left to find one. */
  readonly stepMs: readonly (number | undefined)[];
  readonly work: number;
}

const KEPT = 6;
/** Of the work that is left, at most, for the search of one place. */
const SEARCH_SHARE = 1 / 2;
/** Hosts of a site that are read, for one cell. */
const HOSTS_READ = 4;

/** The splits that are laid on places of one kind, and the sums of the layers for it. */
interface Kind {
  readonly sums: LayerSums;
  readonly splits: readonly Split[];
}

export function placePrices({ model, batch, framework, sites, work }: PriceRequest): PlacePrices {
  const kinds = new Map<string, Kind>();
  const layers = model.layers.length;
  const hosts = sites.reduce((sum, site) => sum + site.hosts.length, 0);
  // The model and the sites have been made for this.
  let spent = layers + hosts / HOSTS_READ;
  const until = (most: number): SearchBudget => ({
    spend: (cells) => {
      spent += cells;
    },
    isSpent: () => spent >= most,
  });
  const stepMs = sites.map((site): number | undefined => {
    if (spent >= work) return undefined;
    const request = { model, site, batch, budget: until(work) };
    const key = kindOf(site);
    const known = kinds.get(key);
    if (known !== undefined) return laidOn({ request, sums: known.sums, tried: 0 }, known.splits);
    spent += layers;
    const sums = layerSums(model, frameworkOn(site, framework));
    const share = until(spent + (work - spent) * SEARCH_SHARE);
    const found = searched({ ...request, budget: share }, sums);
    kinds.set(key, { sums, splits: found.map(({ split }) => split) });
    return found[0]?.time.totalMs;
  });
  return { stepMs, work: spent };
}

function kindOf({ hosts }: PlanSite): string {
  const types = [...new Set(hosts.map(({ gpuType }) => gpuType))].sort();
  const widest = hosts
    .flatMap(({ gpuCount, nvlinkGpus }) => [gpuCount, nvlinkGpus])
    .reduce(commonDivisor, 0);
  return `${String(widest)} ${types.join(" ")}`;
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));

/** The best splits of different degrees, shortest step first. */
function searched(request: CandidateRequest, sums: LayerSums): readonly Candidate[] {
  const best = (
    bare: CandidateRequest,
    choices: readonly DegreesOfWidth[],
  ): readonly Candidate[] => {
    const search: Search = { request: bare, sums, tried: 0 };
    return choices
      .flatMap(({ units, degrees }) =>
        degrees.flatMap((each) =>
          bare.budget?.isSpent() === true ? [] : plainCandidates(search, each, units).slice(0, 1),
        ),
      )
      .sort(byTime)
      .slice(0, KEPT);
  };
  // Wide splits have few cells: they come first where the work does not suffice for all.
  const choices = [...degreesOf(request, sums)].reverse();
  const first = best({ ...request, mostMicroBatch: 1 }, choices);
  const kept = choices.map(({ units, degrees }) => ({
    units,
    degrees: degrees.filter((each) => first.some(({ split }) => isOfDegrees(split, each))),
  }));
  const again = best(request, kept);
  return [...first, ...again].sort(byTime).filter(isFirstOfDegrees);
}

const isOfDegrees = (
  split: Split,
  { width, stages, replicas, experts }: Pick<Split, "width" | "stages" | "replicas" | "experts">,
): boolean =>
  split.width === width &&
  split.stages === stages &&
  split.replicas === replicas &&
  split.experts === experts;

const isFirstOfDegrees = ({ split }: Candidate, at: number, all: readonly Candidate[]): boolean =>
  all.findIndex((other) => isOfDegrees(other.split, split)) === at;

/** The shortest step of these splits on another place. */
function laidOn(search: Search, splits: readonly Split[]): number | undefined {
  const { site, budget } = search.request;
  let least: number | undefined;
  for (const split of splits) {
    const units = unitsOf(site, split.width);
    if (units === undefined || units.length !== split.cells.length) continue;
    for (const [arrangement, cells] of plainArrangements(site, split, units)) {
      if (budget?.isSpent() === true) return least;
      budget?.spend(cells.length + PREDICTION_CELLS);
      const laid = { ...split, cells };
      if (!isHeldEverywhere(laid, site, search.sums)) continue;
      const { time } = timed(search, laid, arrangement);
      least = Math.min(least ?? Infinity, time.totalMs);
    }
  }
  return least;
}
