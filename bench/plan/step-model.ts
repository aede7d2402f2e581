/**
 * @file The step-time model that is fitted to profiles: its terms, what is assumed of each before anything is measured, and the step that they give.
 *
 * Step = (compute^γ + sync^γ)^(1/γ), γ ≥ 1 the overlap (Pollux, §3.2). Compute is constant for small loads and grows with large ones: s (1 + (load / knee)^p)^(1/p). Sync
 * = β (g − 1) within the fullest host of g GPUs + α (K − 1)/K / ways over K hosts, where a host has one way out, or two if each of them holds three GPUs or more
 * (a GPU's own socket first). A step takes a constant longer where hosts of a job hold odd numbers of GPUs. Where the batch varies compute is
 * × (1 + contention (g − 1) + waiting (1 − 1/G)): hosts that feed more GPUs, and the slowest of all G GPUs for which a step waits; and × a random walk
 * over loads. Execution plans of one model that are fitted together differ by a factor of the step, of α and of the constant for odd numbers.
 * Parameters are logarithms with stated normal priors. Cost: O(terms) for a step.
 */

export interface StepPlace {
  /** GPUs of each host. */
  readonly hosts: readonly number[];
  /** Samples a GPU, or 1 / GPUs at one global batch. */
  readonly load: number;
  /** Which of several execution plans, from 0; absent where there is one. */
  readonly plan?: number;
}

export interface StepRow extends StepPlace {
  readonly stepS: number;
}

interface StepTerm {
  readonly mean: number;
  readonly deviation: number;
}

/** Means and deviations of logarithms; α, β relative to the compute of a small load, the knee to the middle load. */
const SHARED: readonly StepTerm[] = [
  { mean: 0, deviation: 4 }, // scale
  { mean: 0, deviation: 1.5 }, // knee
  { mean: Math.log(1.5), deviation: 0.4 }, // sharpness
  { mean: Math.log(0.3), deviation: 1.2 }, // alpha
  { mean: Math.log(0.02), deviation: 1.2 }, // beta
  { mean: Math.log(1.3), deviation: 0.5 }, // overlap
  { mean: Math.log(0.03), deviation: 2 }, // uneven
];

/** Only where the batch varies: at one global batch they cannot be separated from compute. */
const VARIED: readonly StepTerm[] = [
  { mean: Math.log(0.02), deviation: 1.5 }, // contention
  { mean: Math.log(0.1), deviation: 1.5 }, // waiting
];

/** Deviations of a plan's own factors: of the step, of α, and of the constant for odd numbers. */
const PLAN_DEVIATIONS = [0.2, 0.2, 0.3];

/** Deviation of the walk over a factor e of loads. */
const WALK = 0.2;

/** What is known of a profile before any time is. */
export interface StepScope {
  /** The geometric mean of all rows' loads. */
  readonly middle: number;
  /** Distinct, from the least; empty at one global batch. */
  readonly loads: readonly number[];
  readonly planCount: number;
  /** The shared ones, those where the batch varies with a step of the walk for each load but the least, then each plan's. */
  readonly terms: readonly StepTerm[];
}

export function stepScope(rows: readonly StepPlace[]): StepScope {
  const distinct = [...new Set(rows.map(({ load }) => load))].sort((a, b) => a - b);
  const logs = rows.reduce((sum, { load }) => sum + Math.log(load), 0);
  const isOneBatch = rows.every(({ hosts, load }) => Math.abs(load * gpusOf(hosts) - 1) < 1e-9);
  const loads = isOneBatch ? [] : distinct;
  const planCount = rows.reduce((most, { plan }) => Math.max(most, (plan ?? -1) + 1), 0);
  const walk = loads.slice(1).map((load, at) => ({
    mean: 0,
    deviation: WALK * Math.sqrt(Math.log(load / (loads[at] ?? 1))),
  }));
  const plans = Array.from({ length: planCount }, () =>
    PLAN_DEVIATIONS.map((deviation) => ({ mean: 0, deviation })),
  ).flat();
  return {
    middle: Math.exp(logs / rows.length),
    loads,
    planCount,
    terms: [...SHARED, ...(isOneBatch ? [] : [...VARIED, ...walk]), ...plans],
  };
}

/** ln step in seconds, with loads in middle loads. */
export function logStep(
  logs: ArrayLike<number>,
  { hosts, load, plan }: StepPlace,
  { middle, loads, planCount, terms }: StepScope,
): number {
  const at = (term: number): number => Math.exp(logs[term] ?? 0);
  let first = terms.length - PLAN_DEVIATIONS.length * (planCount - (plan ?? 0));
  if (plan === undefined) first = terms.length;
  const own = (factor: number): number => logs[first + factor] ?? 0;
  let crowd = 1;
  const fullest = Math.max(...hosts);
  if (loads.length > 0) {
    const waiting = at(SHARED.length + 1) * (1 - 1 / gpusOf(hosts));
    crowd += at(SHARED.length) * (fullest - 1) + waiting;
    const begin = SHARED.length + VARIED.length;
    let walk = 0;
    for (let rank = 1; rank < loads.length && (loads[rank] ?? 0) <= load; rank += 1)
      walk += logs[begin + rank - 1] ?? 0;
    crowd *= Math.exp(walk);
  }
  const sharpness = at(2);
  const compute = crowd * (1 + (load / middle / at(1)) ** sharpness) ** (1 / sharpness);
  const hostCount = hosts.length;
  const ways = hostCount > 1 && Math.min(...hosts) > 2 ? 2 : 1;
  const over = (at(3) * Math.exp(own(1)) * (hostCount - 1)) / hostCount / ways;
  const sync = at(4) * (fullest - 1) + over;
  const overlap = Math.max(1, at(5));
  const isUneven = hostCount > 1 && hosts.some((gpus) => gpus % 2 === 1);
  const uneven = isUneven ? at(6) * Math.exp(own(2)) : 0;
  const step = (compute ** overlap + sync ** overlap) ** (1 / overlap) + uneven;
  return (logs[0] ?? 0) + own(0) + Math.log(step);
}

/** α, β in seconds and γ, for people. */
export const constantsOf = (
  logs: ArrayLike<number>,
): { readonly alphaS: number; readonly betaS: number; readonly overlap: number } => ({
  alphaS: Math.exp((logs[0] ?? 0) + (logs[3] ?? 0)),
  betaS: Math.exp((logs[0] ?? 0) + (logs[4] ?? 0)),
  overlap: Math.max(1, Math.exp(logs[5] ?? 0)),
});

/** Derivatives of ln step by each term, at step 1e-4. */
export function slopesOf(logs: Float64Array, place: StepPlace, scope: StepScope): Float64Array {
  const here = logStep(logs, place, scope);
  const moved = logs.slice();
  return logs.map((value, term) => {
    moved[term] = value + 1e-4;
    const slope = (logStep(moved, place, scope) - here) / 1e-4;
    moved[term] = value;
    return slope;
  });
}

export const gpusOf = (hosts: readonly number[]): number =>
  hosts.reduce((sum, gpus) => sum + gpus, 0);
