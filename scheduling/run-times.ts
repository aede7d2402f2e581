/**
 * @file How long a job will hold its GPUs, or hold them on, drawn at random from how long others did.
 *
 * A draw is one of the noted runs of the same class and size (within a factor of two) that lasted longer than the job has run
 * already: so its quantiles are the conditional quantiles of what was observed. With fewer than `MIN_RUNS` of them the size is
 * left out of account, then the class. Where nobody has ever run so long, it is taken to go on as long again as it did, in the
 * median (P(longer than x | longer than e) = e / x). The time limit bounds every draw.
 * Runs that ended are not biased by those that have not: in a steady state each kind of job ends as often as it begins.
 * Cost: O(log runs) a draw after O(runs · log runs) to open.
 */

import type { JobClass } from "../domain/job.ts";
import type { Random } from "../lib/random.ts";
import type { RunNote } from "./ledger.ts";

/** With fewer runs than this a quantile says nothing. */
export const MIN_RUNS = 8;
/** What a first job of a fleet is taken to last, in the median. */
const GUESS_MS = 600_000;

export interface RunKind {
  readonly class: JobClass;
  readonly gpus: number;
  readonly timeLimitMs?: number;
}

export interface RunTimes {
  /** Runs that were noted. */
  readonly count: number;
  /** How much longer a job runs that has run for `ranMs`; above 0. */
  readonly remainingMs: (kind: RunKind, ranMs: number, random: Random) => number;
}

export function runTimesOf(notes: readonly RunNote[]): RunTimes {
  const pools = new Map<string, number[]>();
  for (const note of notes) {
    for (const key of keysOf(note)) {
      const pool = pools.get(key) ?? [];
      pools.set(key, pool);
      pool.push(note.endedAtMs - note.grantedAtMs);
    }
  }
  for (const pool of pools.values()) pool.sort((a, b) => a - b);
  return {
    count: notes.length,
    remainingMs(kind, ranMs, random) {
      const drawnMs = drawOf(pools, kind, { ranMs, unit: random.unit() });
      const leftMs = (kind.timeLimitMs ?? Infinity) - ranMs;
      return Math.max(1, Math.min(drawnMs - ranMs, leftMs));
    },
  };
}

function drawOf(
  pools: ReadonlyMap<string, readonly number[]>,
  kind: RunKind,
  { ranMs, unit }: { readonly ranMs: number; readonly unit: number },
): number {
  for (const key of keysOf(kind)) {
    const pool = pools.get(key) ?? [];
    const from = firstAbove(pool, ranMs);
    const longer = pool.length - from;
    if (longer >= MIN_RUNS) return pool[from + Math.floor(unit * longer)] ?? ranMs;
  }
  return ranMs > 0 ? ranMs / (1 - unit) : GUESS_MS * Math.exp(4 * (unit - 0.5));
}

/** Sizes of one power of two are alike. Narrowest first. */
const keysOf = ({ class: jobClass, gpus }: RunKind): readonly string[] => [
  `${jobClass} ${String(Math.floor(Math.log2(Math.max(1, gpus))))}`,
  jobClass,
  "any",
];

/** Index of the first value above the bound, of values in ascending order. */
function firstAbove(values: readonly number[], bound: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) > bound) high = middle;
    else low = middle + 1;
  }
  return low;
}
