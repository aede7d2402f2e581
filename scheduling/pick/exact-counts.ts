/**
 * @file Exact over per-host counts: every way to split the gang over the hosts, each host with its best set of that size.
 *
 * The oracle of the other searches where it is affordable (4 hosts of 8: at most 489 ways); elsewhere the order that spends a budget best.
 * Ways with the same counts on other hosts have one shape: of each shape the way whose slowest host is fastest goes first, the shape with
 * the best first way before the others; then the rest, shape by shape, by slowest host. Where the predictor is clamped, ways whose slowest
 * host is slower than the best answer so far are left out. Where the predictor says which shares are alike, hosts that are alike in all they
 * could give take non-increasing counts, because other orders have the same bandwidths and break as many whole hosts.
 * Ties: search.ts. Cost: one prediction a way.
 */

import { popCount } from "../../domain/lease/lease.ts";
import { allOptions, type HostOptions } from "./host-options.ts";
import type { BandwidthPredictor, Candidate, PickShare } from "./bandwidth-port.ts";
import { openContest, type Contest, type PickQuestion, type PickSearch } from "./search.ts";

/** A way to split the gang, and the intra-host GB/s of its slowest host. */
export interface Way {
  readonly pick: Candidate;
  readonly slowestGbs: number;
}

export const exactCounts: PickSearch = (question) => {
  const { predictor, freeMasks, also = [] } = question;
  const contest = openContest(question);
  contest.enter(also);
  enterWays(contest, allOptions(predictor.domain, freeMasks), { ...question, until: Infinity });
  return contest.result(true);
};

/** Ways between two looks at what the best so far rules out. */
const STEP = 16;

interface WaysDemand extends PickQuestion {
  /** Work at which to stop. */
  readonly until: number;
}

/** True when every way was looked at or cannot be better. */
export function enterWays(
  contest: Contest,
  hosts: readonly HostOptions[],
  question: WaysDemand,
): boolean {
  const shapes = new Map<string, Way[]>();
  for (const way of waysOf(hosts, question)) {
    const key = shapeOf(way);
    const kin = shapes.get(key);
    if (kin === undefined) shapes.set(key, [way]);
    else kin.push(way);
  }
  const kinds = [...shapes.values()].map((ways) => ways.sort(bySlowest));
  const firsts = kinds.flatMap(([first]) => first ?? []).sort(bySlowest);
  if (!enterSome(contest, firsts, question.until)) return false;
  const score = contest.scoreOf;
  const order = kinds
    .map(([first, ...others]) => ({ others, score: (first && score(first.pick)) ?? -Infinity }))
    .sort((a, b) => byHigher(a.score, b.score));
  return order.every(({ others }) => enterSome(contest, others, question.until));
}

/** Those that can still win; false when the work is used up before. */
function enterSome(contest: Contest, ways: readonly Way[], until: number): boolean {
  for (let from = 0; from < ways.length; from += STEP) {
    const next: Candidate[] = [];
    let ahead = contest.work();
    for (const { pick, slowestGbs } of ways.slice(from, from + STEP)) {
      if (contest.isBeaten(slowestGbs)) continue;
      ahead += contest.workFor(pick);
      if (ahead > until) break;
      next.push(pick);
    }
    contest.enter(next);
    if (ahead > until) return false;
  }
  return true;
}

const shapeOf = ({ pick }: Way): string =>
  pick
    .map(({ mask }) => popCount(mask))
    .sort((a, b) => b - a)
    .join();

/** Infinity less Infinity is no number. */
const byHigher = (a: number, b: number): number => (a === b ? 0 : b - a);
const bySlowest = (a: Way, b: Way): number => byHigher(a.slowestGbs, b.slowestGbs);

/** With more hosts there are too many ways, whatever the gang. */
const MOST_HOSTS = 24;

/** How many ways there are, without making them; an upper bound where hosts are alike. Cost: O(hosts · gpus · 8). */
export function countWays(hosts: readonly HostOptions[], gpus: number): number {
  if (hosts.length > MOST_HOSTS) return Infinity;
  let ways = [1];
  for (const { free } of hosts) {
    const next = new Array<number>(gpus + 1).fill(0);
    for (const [taken, count] of ways.entries())
      for (let more = 0; more <= Math.min(free, gpus - taken); more += 1)
        next[taken + more] = (next[taken + more] ?? 0) + count;
    ways = next;
  }
  return ways[gpus] ?? 0;
}

/** Every way, each once. Hosts must be in the domain's order. */
export function* waysOf(
  hosts: readonly HostOptions[],
  { gpus, isSameHost = false, predictor }: Pick<PickQuestion, "gpus" | "isSameHost" | "predictor">,
): Generator<Way> {
  const twins = earlierTwins(hosts, predictor);
  /** GPUs that the hosts from here on have. */
  const rest = hosts.map(() => 0);
  for (let at = hosts.length - 1, sum = 0; at >= 0; at -= 1) rest[at] = sum += hosts[at]?.free ?? 0;
  const counts = hosts.map(() => 0);
  const shares: PickShare[] = [];

  function* from(at: number, open: number, slowestGbs: number): Generator<Way> {
    if (open === 0) {
      yield { pick: [...shares], slowestGbs };
      return;
    }
    const host = hosts[at];
    if (host === undefined || (rest[at] ?? 0) < open) return;
    const twin = twins[at];
    const most = Math.min(host.free, open, twin === undefined ? Infinity : (counts[twin] ?? 0));
    const least = isSameHost ? open : 1;
    for (let count = most; count >= least; count -= 1) {
      counts[at] = count;
      shares.push({ host: host.host, mask: host.masks[count] ?? 0 });
      yield* from(at + 1, open - count, Math.min(slowestGbs, host.gbs[count] ?? Infinity));
      shares.pop();
    }
    counts[at] = 0;
    yield* from(at + 1, open, slowestGbs);
  }
  yield* from(0, gpus, Infinity);
}

/** Of each host the last one before it that is alike in everything. */
function earlierTwins(
  hosts: readonly HostOptions[],
  { kindOf, strengthOf }: BandwidthPredictor,
): readonly (number | undefined)[] {
  if (kindOf === undefined || strengthOf !== undefined) return hosts.map(() => undefined);
  const last = new Map<string, number>();
  return hosts.map(({ host, masks, gbs, gpuCount }, at) => {
    const kinds = masks.slice(1).map((mask) => kindOf({ host, mask }));
    const key = JSON.stringify([gpuCount, kinds, gbs.map(String)]);
    const twin = last.get(key);
    last.set(key, at);
    return twin;
  });
}
