/**
 * @file The longest wait of a request under tawfq.ts while arrivals are bounded: the bound behind "no queue starves".
 *
 * Let R wait from 0 to t in flow i. `busyGpus` = U GPUs are at work all that time, so the service given to all flows is U·t at least;
 * the proof counts what it can have been, level by level, from R's tenant up to the root.
 *
 * - R's own flow received S_i ≤ `ownGpuMs`: what it ran at 0 and what stood before R, and what may pass R by priority until age
 *   overtakes it; and what was granted past waiting requests (backfill), `passedGpus`·t at most. Nothing else of i is granted before R.
 * - A sibling j received at most what it asked for:  D_j(t) = `aheadGpuMs` + `burstGpuMs` + `rateGpus`·t.
 * - Nor more than its weight gives it. At its last grant s, key_j(s) ≤ key_i(s), as i waited:  v_j(s) ≤ v_i(s) + H·r_i/w_i.
 *   It began at v_j ≥ V = v_i − lag, by the lift of service-account.ts (V never falls), and v_i grew by S_i/w_i. After s, and before it
 *   first waited, it had only what it held: L·(GPUs held) each, `heldGpuMs` at most. So
 *       S_j(t) ≤ min( D_j(t),  w_j·(S_i/w_i + lag + H·r_i/w_i) + 2·heldGpuMs )
 * - What i's parent received is S_i + Σ_j S_j, which is S_i one level up. At the root it is everything: X(t).
 *
 * So U·t ≤ X(t) as long as R waits. X is concave and X(0) ≥ 0, so there is one t after which U·t > X(t): the bound. It is finite when
 * siblings ask for less than U in the long run, or nothing passes: then the weights alone bound X. In one pool of G GPUs without
 * constraints and backfill U = G − g + 1, g the largest gang: as long as the first in line does not fit, fewer than g are idle.
 * Cost: O(flows) for each of about a hundred steps.
 */

import { HORIZON_SECONDS } from "../scheduling/queue/tawfq.ts";

export interface StarvationFacts {
  /** The least number of GPUs at work at any moment at which a request waits. */
  readonly busyGpus: number;
  /** GPUs in leases that were granted past waiting requests of its flow, on average at most; 0 without backfill. */
  readonly passedGpus: number;
  readonly ownGpuMs: number;
  /** What one flow holds can still receive so much after a grant: GPUs held · longest run, at most. */
  readonly heldGpuMs: number;
  /** R's tenant among the tenants of its class, then its class among the classes. */
  readonly levels: readonly FlowFacts[];
}

export interface FlowFacts {
  readonly weight: number;
  /** By how much R's flow was ahead of the least served sibling that waited when R came, in virtual seconds. */
  readonly lagSeconds: number;
  /** GPUs that R's flow holds at most while R waits. */
  readonly mostGpus: number;
  readonly siblings: readonly SiblingFacts[];
}

/** Work that siblings ask for, as a leaky bucket. */
export interface SiblingFacts {
  readonly weight: number;
  /** What it ran and what waited in it when R came. */
  readonly aheadGpuMs: number;
  readonly burstGpuMs: number;
  readonly rateGpus: number;
}

/** Infinity when there is no bound. */
export function starvationBoundMs(facts: StarvationFacts): number {
  const isOver = (waitMs: number): boolean => facts.busyGpus * waitMs >= mostServed(facts, waitMs);
  let over = 1;
  while (!isOver(over)) {
    over *= 2;
    if (over > LONGEST_MS) return Infinity;
  }
  let within = over / 2;
  while (over - within > STEP_MS) {
    const middle = (within + over) / 2;
    if (isOver(middle)) over = middle;
    else within = middle;
  }
  return over;
}

/** A hundred thousand years; a longer bound counts as infinite. */
const LONGEST_MS = 3e15;
/** The bound is exact to this, on the long side. */
const STEP_MS = 1;

/** X(t): the most that all flows together can have received, in GPU-ms, while R waited for so long. */
function mostServed(
  { ownGpuMs, passedGpus, heldGpuMs, levels }: StarvationFacts,
  waitMs: number,
): number {
  let served = ownGpuMs + passedGpus * waitMs;
  for (const { weight, lagSeconds, mostGpus, siblings } of levels) {
    const virtualMs = (served + HORIZON_SECONDS * 1_000 * mostGpus) / weight + lagSeconds * 1_000;
    for (const sibling of siblings) {
      const asked = sibling.aheadGpuMs + sibling.burstGpuMs + sibling.rateGpus * waitMs;
      served += Math.min(asked, sibling.weight * virtualMs + 2 * heldGpuMs);
    }
  }
  return served;
}

/** The smallest burst with which arrivals keep to a rate: max over all spans of (work that came in it − rate · its length). Tests use it. */
export function burstGpuMs(
  arrivals: Iterable<{ readonly atMs: number; readonly gpuMs: number }>,
  rateGpus: number,
): number {
  let burst = 0;
  let bucket = 0;
  let lastMs = -Infinity;
  for (const { atMs, gpuMs } of arrivals) {
    const leaked = bucket === 0 ? 0 : rateGpus * (atMs - lastMs);
    bucket = Math.max(0, bucket - leaked) + gpuMs;
    burst = Math.max(burst, bucket);
    lastMs = atMs;
  }
  return burst;
}
