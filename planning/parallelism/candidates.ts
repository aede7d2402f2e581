/**
 * @file The plain ways to split a model over GPUs: every choice of degrees, with the best of the plain arrangements and micro-batches of each.
 *
 * All degrees whose product is the GPU count are tried (tensor parallel inside one NVLink domain only), of a mixture of experts with every number of replicas that may share
 * the experts out, and with every micro-batch that divides a replica's samples; where a split does not fit into memory with sharded optimiser state, then with recomputed
 * activations, then with both. Behind each of these come the same with several runs of layers a stage, where that could be the best. With the user's consent GPUs may stay
 * idle: then the degrees use at least `fewestGpus`, of clusters and hosts with most GPUs first. Cost: one prediction for each candidate, O(GPUs) each.
 */

import { divisorsOf } from "../../lib/divisors.ts";
import { byGroup, byStage, type Grid } from "./arrange.ts";
import { boundsOnce } from "./bounds-once.ts";
import { isReplicasAlone, type Framework } from "./framework.ts";
import type { PlanModel } from "./models.ts";
import { unitsOf, type PlanSite, type Unit } from "./site.ts";
import type { LayerSums, Split } from "./split.ts";
import { isHeldEverywhere, stageBounds, type OpenSplit } from "./stage-bounds.ts";
import { memoryModes } from "./stage-memory.ts";
import { stepTime, type StepTime } from "./step-time.ts";

export interface CandidateRequest {
  readonly model: PlanModel;
  readonly site: PlanSite;
  /** Samples of one step over all replicas. */
  readonly batch: number;
  /** Told of each split and its predicted time, as the search goes. */
  readonly onCandidate?: (split: Split, time: StepTime) => void;
  /** Only plans with these degrees. */
  readonly fixed?: Partial<
    Pick<Split, "replicas" | "stages" | "width" | "experts" | "contexts" | "runs">
  >;
  /** Plans that use fewer than all GPUs are welcome, down to this many; absent: none. */
  readonly fewestGpus?: number;
  /** No larger micro-batches are tried; absent: any. */
  readonly mostMicroBatch?: number;
  /** Absent: any work. */
  readonly budget?: SearchBudget;
}

/** Told of work before it is done, whether or not the splits fit. In cells: of a prediction those of its split and `PREDICTION_CELLS`. */
export interface SearchBudget {
  readonly spend: (cells: number) => void;
  /** The search ends with what it has. */
  readonly isSpent: () => boolean;
}

export interface Search {
  readonly request: CandidateRequest;
  readonly sums: LayerSums;
  tried: number;
}

export interface Candidate {
  readonly split: Split;
  readonly time: StepTime;
  readonly arrangement: string;
  /** Its time is that of its played step; else a bound. */
  readonly isPlayed?: boolean;
}

export interface Degrees {
  readonly width: number;
  readonly stages: number;
  readonly replicas: number;
  /** Absent where nobody shares out experts. */
  readonly experts?: number;
  /** Of replicas that share out each sequence, those worth a try; 1: none do. */
  readonly contexts: readonly number[];
}

export const degreesKey = ({
  width,
  stages,
  replicas,
  experts = 1,
}: Omit<Degrees, "contexts">): string => `${width}/${stages}/${replicas}/${experts}`;

/** Choices of degrees of one tensor parallel degree, and the units on which they lie. */
export interface DegreesOfWidth {
  readonly units: readonly Unit[];
  readonly degrees: readonly Degrees[];
}

export const PREDICTION_CELLS = 16;
/** Units and experts that are only listed, for one cell. */
const LISTED = 64;

/** Of a unit that shares out sequences: with fewer its products are small beside what it sends. Llama 3 was trained on 8,192 a GPU. */
const FEWEST_TOKENS = 4_096;

/** Of a step that would be saved at most: less is not looked for. */
const WORTH_SHARING = 0.02;

/** Of one number of replicas with GPUs to spare, as many numbers of stages are tried, from the most down. */
const SPARED_STAGES = 3;

export function degreesOf(
  { site, model, batch, fixed = {}, fewestGpus, budget }: CandidateRequest,
  { framework }: LayerSums,
): readonly DegreesOfWidth[] {
  const gpus = site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const found: DegreesOfWidth[] = [];
  for (let width = 1; width <= gpus; width += 1) {
    if (model.splitOf % width !== 0 || (fixed.width ?? width) !== width) continue;
    if (width > 1 && isReplicasAlone(framework)) break;
    const units = unitsOf(site, width, fewestGpus !== undefined);
    if (units === undefined || units.length === 0) continue;
    const fewest = fewestGpus === undefined ? units.length : Math.ceil(fewestGpus / width);
    const degrees: Degrees[] = [];
    budget?.spend(units.length / LISTED);
    const shared = contextDegrees(model, framework, width);
    const most = Math.min(units.length, batch * Math.max(...shared));
    for (let replicas = 1; replicas <= most; replicas += 1) {
      if ((fixed.replicas ?? replicas) !== replicas) continue;
      const contexts = shared.filter(
        (degree) =>
          replicas % degree === 0 &&
          batch % (replicas / degree) === 0 &&
          (fixed.contexts ?? degree) === degree,
      );
      if (contexts.length === 0) continue;
      if (budget?.isSpent() === true) break;
      for (const stages of stageCounts(units.length, { fewest, replicas })) {
        const isAllowed =
          (!isReplicasAlone(framework) || stages === 1) &&
          stages <= model.layers.length &&
          (fixed.stages ?? stages) === stages;
        if (!isAllowed) continue;
        if ((fixed.experts ?? 1) === 1) degrees.push({ width, stages, replicas, contexts });
        if (framework.name !== "megatron-core") continue;
        budget?.spend(Math.min(model.shape?.experts?.count ?? 1, replicas) / LISTED);
        for (const experts of expertDegrees(model, replicas))
          if ((fixed.experts ?? experts) === experts)
            degrees.push({ width, stages, replicas, experts, contexts });
      }
    }
    found.push({ units, degrees });
  }
  return found;
}

/**
 * One, and those that leave each unit two equal parts of at least so many tokens together, as Megatron-Core's balanced halves of a causal mask want
 * them. Attention must be fused: its scores are never there as a whole.
 */
export function contextDegrees(
  { shape }: PlanModel,
  { name, hasFusedAttention }: Framework,
  width: number,
): readonly number[] {
  const found = [1];
  const isPossible = (name === "megatron-core" && hasFusedAttention) || name === "fsdp2";
  if (shape === undefined || shape.image !== undefined || !isPossible) return found;
  for (let degree = 2; shape.sequence >= degree * FEWEST_TOKENS; degree *= 2)
    if (shape.sequence % (2 * degree * width) === 0) found.push(degree);
  return found;
}

function stageCounts(
  units: number,
  { fewest, replicas }: { readonly fewest: number; readonly replicas: number },
): readonly number[] {
  const most = Math.floor(units / replicas);
  return Array.from({ length: Math.min(SPARED_STAGES, most) }, (_, fewer) => most - fewer).filter(
    (stages) => stages * replicas >= fewest,
  );
}

/** Above one: replicas in whole groups, with whole experts each. */
function expertDegrees({ shape }: PlanModel, replicas: number): readonly number[] {
  const count = shape?.experts?.count ?? 1;
  return Array.from({ length: Math.min(count, replicas) }, (_, at) => at + 1).filter(
    (degree) => degree > 1 && replicas % degree === 0 && count % degree === 0,
  );
}

/** The best plain arrangement with the best micro-batch, for each way to share out sequences that could be shorter than those before it; shortest first. */
export function plainCandidates(
  search: Search,
  degrees: Degrees,
  units: readonly Unit[],
): readonly Candidate[] {
  const found: Candidate[] = [];
  for (const contexts of degrees.contexts) {
    if (search.request.budget?.isSpent() === true) break;
    if (found[0] !== undefined && !canShorten(found[0])) break;
    const next = bestOfContexts(search, { degrees, contexts, units });
    if (next !== undefined) found.push(next);
    found.sort(byTime);
  }
  return found;
}

/**
 * Whether the same GPUs could gain by sharing out sequences further: their compute stays, and so do sums of gradients; more micro-batches wait less in the
 * pipeline, and what is kept may no longer have to be computed again.
 */
function canShorten({ split, time: { parts, totalMs } }: Candidate): boolean {
  const again = split.isRecomputing ? (parts.computeMs + parts.tensorMs) / 4 : 0;
  return parts.bubbleMs + again > WORTH_SHARING * totalMs;
}

interface OfContexts {
  readonly degrees: Degrees;
  readonly contexts: number;
  readonly units: readonly Unit[];
}

function bestOfContexts(
  search: Search,
  { degrees: { contexts: _tried, ...degrees }, contexts, units }: OfContexts,
): Candidate | undefined {
  const { site, batch, mostMicroBatch = Infinity, budget, fixed } = search.request;
  let best: Candidate | undefined;
  const samples = batch / (degrees.replicas / contexts);
  const open = { ...degrees, ...(contexts > 1 && { contexts }) };
  const arrangements = plainArrangements(site, open, units);
  const { sums } = search;
  const boundsOf = boundsOnce(search.request, (laid) => stageBounds(laid, site, sums));
  for (const microBatch of divisorsOf(samples, mostMicroBatch)) {
    for (const [arrangement, cells] of arrangements) {
      const laid = { ...open, microBatch, microBatches: samples / microBatch, cells };
      for (const mode of memoryModes(search.sums.framework, degrees.replicas)) {
        if (budget?.isSpent() === true) return best;
        const bounds = boundsOf({ ...laid, ...mode });
        if (bounds === undefined) continue;
        budget?.spend(cells.length + PREDICTION_CELLS);
        const whole = { ...laid, ...mode, bounds };
        if (isHeldEverywhere(whole, site, search.sums)) {
          const found = timed(search, whole, arrangement);
          const isWanted = (fixed?.runs ?? 1) === 1;
          if (isWanted && (best === undefined || isBetter(found, best))) best = found;
          best = interleaved(search, found, best);
        }
        // Where replicas share out more than the optimiser's state, a thriftier mode may be the faster one.
        if (!isReplicasAlone(search.sums.framework)) break;
      }
    }
  }
  return best;
}

/** The best of what is known and of the same split with several runs of layers a stage, where these could be shorter. */
function interleaved(
  search: Search,
  found: Candidate,
  best: Candidate | undefined,
): Candidate | undefined {
  const { model, budget, fixed } = search.request;
  const { split, time, arrangement } = found;
  let leastSoFar = best;
  for (const runs of runCounts(model, split, search.sums.framework)) {
    if ((fixed?.runs ?? runs) !== runs) continue;
    // Only the wait in the pipeline becomes shorter, and not below one of so many parts.
    const saved = time.parts.bubbleMs * (1 - 1 / runs);
    const least = leastSoFar?.time.totalMs ?? Infinity;
    if (time.totalMs - saved >= least || budget?.isSpent() === true) continue;
    const whole = withRuns(search, split, runs);
    if (whole === undefined) continue;
    const again = timed(search, whole, arrangement);
    if (leastSoFar === undefined || isBetter(again, leastSoFar)) leastSoFar = again;
  }
  return leastSoFar;
}

/** The same split with every other number of runs that fits. */
export function otherRuns(search: Search, split: Split): readonly Split[] {
  const { model, fixed } = search.request;
  return runCounts(model, split, search.sums.framework)
    .filter((runs) => runs !== split.runs && (fixed?.runs ?? runs) === runs)
    .flatMap((runs) => withRuns(search, split, runs) ?? []);
}

/** More is in flight, so how memory is saved is chosen anew. */
function withRuns(search: Search, split: Split, runs: number): Split | undefined {
  const { site, model, budget } = search.request;
  const { isRecomputingScores: _chosen, ...open } = split;
  const bounds = equalBounds(model, split.stages * runs);
  const modes = memoryModes(search.sums.framework, split.replicas).filter(
    ({ isRecomputing }) => isRecomputing || !split.isRecomputing,
  );
  for (const mode of modes) {
    budget?.spend(split.cells.length * runs + PREDICTION_CELLS);
    const whole = { ...open, ...mode, runs, bounds };
    if (isHeldEverywhere(whole, site, search.sums)) return whole;
  }
  return undefined;
}

/** Above one: equal runs of blocks, and micro-batches in whole groups, as Megatron-LM's schedule wants them. */
function runCounts(
  { shape }: PlanModel,
  { stages, microBatches }: Split,
  { name }: Framework,
): readonly number[] {
  if (name !== "megatron-core" || shape === undefined || shape.image !== undefined) return [];
  if (stages === 1 || microBatches % stages !== 0) return [];
  return Array.from({ length: Math.floor(shape.layers / stages) }, (_, at) => at + 1).filter(
    (runs) => runs > 1 && shape.layers % (stages * runs) === 0,
  );
}

/** Of runs with as many blocks each; the embedding goes with the first, the head with the last. */
function equalBounds({ layers }: PlanModel, count: number): readonly number[] {
  const blocks = (layers.length - 2) / count;
  return Array.from({ length: count + 1 }, (_, run) =>
    run === 0 ? 0 : run === count ? layers.length : 1 + run * blocks,
  );
}

/** Each with its words. */
export function plainArrangements(
  site: PlanSite,
  { stages, replicas, contexts = 1 }: Pick<Split, "stages" | "replicas" | "contexts">,
  units: readonly Unit[],
): readonly (readonly [string, readonly Unit[]])[] {
  const grid: Grid = { stages, replicas, sendBytes: [], reduceBytes: [] };
  const bySpeed = [...units].sort(
    (a, b) =>
      (site.hosts[b.host]?.teraflops ?? 0) - (site.hosts[a.host]?.teraflops ?? 0) ||
      (site.hosts[b.host]?.memoryGiB ?? 0) - (site.hosts[a.host]?.memoryGiB ?? 0) ||
      a.firstRank - b.firstRank,
  );
  const isMixed = bySpeed.some((unit, at) => unit !== units[at]);
  const isSparing = stages * replicas < units.length;
  const used = isSparing ? largestFirst(site, units).slice(0, stages * replicas) : units;
  return [
    ["pipelines kept together", byGroup(grid, contexts, used)],
    ["replicas kept together", byStage(grid, used)],
    ...(isMixed
      ? ([
          ["like GPUs in one stage", byStage(grid, bySpeed)],
          ["like GPUs in one stage, slowest first", byStage(grid, [...bySpeed].reverse())],
        ] as const)
      : []),
  ];
}

/** Clusters with most units first, in each the hosts with most: the rest is left idle. */
function largestFirst({ hosts }: PlanSite, units: readonly Unit[]): readonly Unit[] {
  const counts = new Map<string | number, number>();
  const clusterOf = ({ host }: Unit): string => hosts[host]?.cluster ?? "";
  for (const unit of units)
    for (const key of [clusterOf(unit), unit.host]) counts.set(key, (counts.get(key) ?? 0) + 1);
  const countOf = (key: string | number): number => counts.get(key) ?? 0;
  const firstHost = new Map<string, number>();
  for (const unit of units)
    if (!firstHost.has(clusterOf(unit))) firstHost.set(clusterOf(unit), unit.host);
  return [...units].sort(
    (a, b) =>
      countOf(clusterOf(b)) - countOf(clusterOf(a)) ||
      (firstHost.get(clusterOf(a)) ?? 0) - (firstHost.get(clusterOf(b)) ?? 0) ||
      countOf(b.host) - countOf(a.host) ||
      a.firstRank - b.firstRank,
  );
}

/** With its bounds chosen for these cells, by `boundsFor` where many cells are tried; undefined when it does not fit. */
export function evaluated(
  search: Search,
  split: Split,
  {
    arrangement,
    boundsFor = (open) => stageBounds(open, search.request.site, search.sums),
  }: {
    readonly arrangement: string;
    readonly boundsFor?: (open: OpenSplit) => readonly number[] | undefined;
  },
): Candidate | undefined {
  const { site } = search.request;
  const bounds = split.runs === undefined ? boundsFor(split) : split.bounds;
  if (bounds === undefined) return undefined;
  const whole = { ...split, bounds };
  return isHeldEverywhere(whole, site, search.sums) ? timed(search, whole, arrangement) : undefined;
}

export function timed(search: Search, split: Split, arrangement: string): Candidate {
  const { site, onCandidate } = search.request;
  search.tried += 1;
  const time = stepTime(split, { site, sums: search.sums });
  onCandidate?.(split, time);
  return { split, time, arrangement };
}

/** Ties: fewer stages, then fewer replicas. */
export const byTime = (a: Candidate, b: Candidate): number =>
  a.time.totalMs - b.time.totalMs ||
  a.split.stages - b.split.stages ||
  a.split.replicas - b.split.replicas;

export const isBetter = (a: Candidate, b: Candidate): boolean => byTime(a, b) < 0;
