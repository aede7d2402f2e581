/**
 * @file Chooses which sets of GPUs over several hosts to measure next, so that each measurement is most informative.
 *
 * Criterion: the expected squared error over everything that could be asked. A Gaussian process over the shape of a candidate (how
 * many hosts and GPUs, how evenly, how fast inside, which types) says how strongly the bandwidths of two candidates are correlated;
 * next is the candidate whose measurement lowers the variance summed over the whole pool most (Cohn's active learning, greedy:
 * for a fixed kernel the variance does not depend on the values, so the plan is known before the first measurement). Ties go to
 * the earlier in the pool. Nothing measured is guessed by this process; it orders, and the surrogate learns from what was measured.
 * Cost: O(count × pool²) multiplications; the pool has at most `MAX_POOL` candidates.
 */

import type {
  BandwidthDomain,
  Candidate,
  PickShare,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { sampled, type Random } from "../../lib/random.ts";
import { popCount } from "../../domain/lease/lease.ts";

interface BetweenPlan {
  readonly picks: readonly Candidate[];
  /** Variance summed over the pool, before the first and after each pick, as a share of the first. */
  readonly restVariance: readonly number[];
}

interface BetweenNeed {
  readonly count: number;
  /** What was measured already: it teaches without being measured again. */
  readonly measured: readonly Candidate[];
  readonly random: Random;
  /** Indices of the hosts that may take part; all of the domain when absent. */
  readonly hosts?: readonly number[];
  /** The identity of a set: sets of one name are measured once. Hosts and GPUs when absent. */
  readonly nameOf?: (candidate: Candidate) => string;
}

/** Shapes beyond so many are drawn, not enumerated. */
export const MAX_POOL = 600;

/** The distance, in the unit cube of features, at which a measurement is still informative; chosen on the H100 data, see docs/measuring.md. */
const REACH = 0.4;
/** Variance of one reading against that of the whole: repeats of one set differ by a few per cent. */
const NOISE = 0.01;

export function planBetween(domain: BandwidthDomain, need: BetweenNeed): BetweenPlan {
  const { nameOf = keyOf } = need;
  const pool = candidatePool(domain, need);
  const all = [...pool, ...need.measured];
  const points = features(domain, all);
  const variance = covariances(points);
  const known = new Set(need.measured.map(nameOf));
  const open = new Set(
    [...pool.entries()].flatMap(([at, candidate]) => (known.has(nameOf(candidate)) ? [] : [at])),
  );
  for (const at of need.measured.keys()) observe(variance, pool.length + at);
  const picks: Candidate[] = [];
  const first = trace(variance, pool.length);
  const restVariance = [1];
  while (picks.length < need.count && open.size > 0) {
    const best = mostTelling(variance, open, pool.length);
    const pick = pool[best];
    if (pick === undefined) break;
    open.delete(best);
    picks.push(pick);
    observe(variance, best);
    restVariance.push(first === 0 ? 0 : trace(variance, pool.length) / first);
  }
  return { picks, restVariance };
}

/**
 * What could be asked. Hosts of one type: candidates of every shape (GPU counts), hosts and masks drawn, so that no host or GPU is
 * left out of all of them; of many shapes a sample. Hosts of several types, where the mask decides more than the shape: requests as
 * they come, a number of GPUs and then any of them. Both were compared on the paper's data, see docs/measuring.md.
 */
export function candidatePool(
  domain: BandwidthDomain,
  { random, hosts = [...domain.hosts.keys()] }: Pick<BetweenNeed, "random" | "hosts">,
): readonly Candidate[] {
  const types = new Set(hosts.map((host) => domain.hosts[host]?.gpuType));
  const counts = hosts.map((host) => domain.hosts[host]?.gpuCount ?? 0);
  if (hosts.length < 2) return [];
  if (types.size > 1) return requests(hosts, counts, random);
  const shapes = counts.reduce((product, count) => product * (count + 1), 1);
  const seen = new Map<string, Candidate>();
  const add = (shape: readonly number[]): void => {
    const used = shape.filter((count) => count > 0).sort((a, b) => b - a);
    if (used.length < 2 || seen.has(used.join("+"))) return;
    // Counts move to other hosts only where each host could have any of them.
    const order = new Set(counts).size === 1 ? sampled(hosts, hosts.length, random) : hosts;
    const fitting = new Map(order.map((host, at) => [host, shape[at] ?? 0]));
    seen.set(used.join("+"), drawn(domain, fitting, random));
  };
  if (shapes <= MAX_ENUMERATED) {
    for (let code = 0; code < shapes; code += 1) add(digits(code, counts));
    return sampled([...seen.values()], MAX_POOL, random);
  }
  for (let tries = 0; tries < MAX_POOL * 4 && seen.size < MAX_POOL; tries += 1) {
    const share = 2 + random.below(Math.min(hosts.length, MOST_HOSTS) - 1);
    const chosen = new Set(sampled([...hosts.keys()], share, random));
    add(counts.map((count, at) => (chosen.has(at) ? 1 + random.below(count) : 0)));
  }
  return [...seen.values()];
}

function requests(
  hosts: readonly number[],
  counts: readonly number[],
  random: Random,
): Candidate[] {
  const gpus = hosts.flatMap((host, at) =>
    Array.from({ length: counts[at] ?? 0 }, (_, gpu) => ({ host, bit: 1 << gpu })),
  );
  const seen = new Map<string, Candidate>();
  for (let tries = 0; tries < MAX_POOL * 2 && seen.size < MAX_POOL; tries += 1) {
    const size = 2 + random.below(Math.min(gpus.length, MOST_HOSTS * 8) - 1);
    const masks = new Map<number, number>();
    for (const { host, bit } of sampled(gpus, size, random)) {
      masks.set(host, (masks.get(host) ?? 0) | bit);
    }
    const candidate = [...masks].map(([host, mask]) => ({ host, mask })).sort(byHost);
    if (candidate.length > 1) seen.set(keyOf(candidate), candidate);
  }
  return [...seen.values()];
}

const byHost = (a: PickShare, b: PickShare): number => a.host - b.host;

/** 9^4 shapes of four 8-GPU hosts, most of them the same but for the order. */
const MAX_ENUMERATED = 10_000;
/** A drawn candidate is over at most so many hosts. */
const MOST_HOSTS = 8;

/** Digits of a number in mixed radix: one count for each host. */
function digits(code: number, counts: readonly number[]): number[] {
  let rest = code;
  return counts.map((count) => {
    const digit = rest % (count + 1);
    rest = (rest - digit) / (count + 1);
    return digit;
  });
}

/** Any masks of these counts. */
function drawn(
  domain: BandwidthDomain,
  counts: ReadonlyMap<number, number>,
  random: Random,
): Candidate {
  return [...counts]
    .flatMap(([host, count]) => {
      const gpus = [...Array(domain.hosts[host]?.gpuCount ?? 0).keys()];
      const mask = sampled(gpus, count, random).reduce((bits, gpu) => bits | (1 << gpu), 0);
      return mask === 0 ? [] : [{ host, mask }];
    })
    .sort(byHost);
}

export function keyOf(candidate: Candidate): string {
  return candidate.map(({ host, mask }) => `${String(host)}:${String(mask)}`).join(" ");
}

/** Each in 0 to 1 over the candidates; the share of each GPU type counts as one feature each. */
export function features(
  domain: BandwidthDomain,
  candidates: readonly Candidate[],
): readonly Float64Array[] {
  const types = [...new Set(domain.hosts.map(({ gpuType }) => gpuType))].sort();
  const rows = candidates.map((candidate) => {
    const counts = candidate.map(({ mask }) => popCount(mask));
    const sum = counts.reduce((total, count) => total + count, 0);
    const inside = candidate.map(({ host, mask }) => domain.intraGbs(host, mask) ?? Infinity);
    const slowest = Math.min(...inside);
    return [
      candidate.length,
      sum,
      Math.max(...counts),
      Math.min(...counts),
      Math.sqrt(counts.reduce((s, count) => s + (count - sum / counts.length) ** 2, 0)),
      Number.isFinite(slowest) ? Math.log(slowest) : NaN,
      ...(types.length < 2
        ? []
        : types.map(
            (type) =>
              candidate.reduce(
                (s, { host }, at) =>
                  s + (domain.hosts[host]?.gpuType === type ? (counts[at] ?? 0) : 0),
                0,
              ) / sum,
          )),
    ];
  });
  const width = rows[0]?.length ?? 0;
  const ranges = Array.from({ length: width }, (_, column) => {
    const values = rows.map((row) => row[column] ?? NaN).filter(Number.isFinite);
    return [Math.min(...values), Math.max(...values)] as const;
  });
  return rows.map((row) =>
    Float64Array.from(row, (value, column) => {
      const [low = 0, high = 0] = ranges[column] ?? [];
      // Unknown, or no limit at all: as fast as the fastest.
      const known = Number.isFinite(value) ? value : high;
      return high > low ? (known - low) / (high - low) : 0;
    }),
  );
}

/** Covariance of each two points, row by row in one array. */
interface Covariances {
  readonly size: number;
  readonly of: Float64Array;
}

function covariances(points: readonly Float64Array[]): Covariances {
  const size = points.length;
  const of = new Float64Array(size * size);
  for (const [row, a] of points.entries()) {
    for (const [column, b] of points.entries()) of[row * size + column] = kernel(a, b);
  }
  return { size, of };
}

/** Squared-exponential. */
export function kernel(a: Float64Array, b: Float64Array): number {
  let squared = 0;
  for (let at = 0; at < a.length; at += 1) squared += ((a[at] ?? 0) - (b[at] ?? 0)) ** 2;
  return Math.exp(-squared / (2 * REACH * REACH));
}

/** What is left of all covariances once one candidate was measured: a rank-one step. */
function observe({ size, of }: Covariances, at: number): void {
  const column = of.slice(at * size, (at + 1) * size);
  const own = (column[at] ?? 0) + NOISE;
  for (let row = 0; row < size; row += 1) {
    const share = (column[row] ?? 0) / own;
    const start = row * size;
    for (let other = 0; other < size; other += 1) {
      of[start + other] = (of[start + other] ?? 0) - share * (column[other] ?? 0);
    }
  }
}

function mostTelling(
  { size, of }: Covariances,
  open: ReadonlySet<number>,
  poolSize: number,
): number {
  let best = -1;
  let most = -Infinity;
  for (const at of open) {
    let sum = 0;
    for (let other = 0; other < poolSize; other += 1) sum += (of[at * size + other] ?? 0) ** 2;
    const gain = sum / ((of[at * size + at] ?? 0) + NOISE);
    if (gain <= most + GAIN_EPSILON) continue;
    best = at;
    most = gain;
  }
  return best;
}

/** Gains that differ by less are a tie. */
const GAIN_EPSILON = 1e-12;

function trace({ size, of }: Covariances, poolSize: number): number {
  let sum = 0;
  for (let at = 0; at < poolSize; at += 1) sum += of[at * size + at] ?? 0;
  return sum;
}
