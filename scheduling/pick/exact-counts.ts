/**
 * @file Exact over per-host counts: every way to split the gang over the hosts, each host with its best set of that size.
 *
 * Oracle of the other searches where it is affordable (4 hosts of 8: at most 489 ways). Where the predictor is clamped, ways whose
 * slowest host is slower than the best answer so far are left out: they come in order of their slowest host, so the first such way
 * ends the search. Where the predictor says which shares are alike, hosts that are alike in all they could give take counts that do
 * not rise, for the other orders have the same bandwidths and break as many whole hosts. Ties: search.ts.
 * Cost: one prediction a way.
 */

import { allOptions, type HostOptions } from "./host-options.ts";
import type { BandwidthPredictor, Candidate, PickShare } from "./bandwidth-port.ts";
import { openContest, workOf, type Contest, type PickQuestion, type PickSearch } from "./search.ts";

/** A way to split the gang, and the intra-host GB/s of its slowest host. */
export interface Way {
  readonly pick: Candidate;
  readonly slowestGbs: number;
}

export const exactCounts: PickSearch = (question) => {
  const { predictor, freeMasks, also = [] } = question;
  const contest = openContest(question);
  contest.enter(also);
  enterWays(contest, allOptions(predictor.domain, freeMasks), question);
  return contest.result(true);
};

/** Ways between two looks at what the best so far rules out. */
const STEP = 32;

const bySlowest = (a: Way, b: Way): number =>
  a.slowestGbs === b.slowestGbs ? 0 : b.slowestGbs - a.slowestGbs;

export function enterWays(
  contest: Contest,
  hosts: readonly HostOptions[],
  question: PickQuestion,
): void {
  const ways = [...waysOf(hosts, question)].sort(bySlowest);
  for (let from = 0; from < ways.length; from += STEP) {
    const next = ways
      .slice(from, from + STEP)
      .filter(({ slowestGbs }) => !contest.isBeaten(slowestGbs));
    if (next.length === 0) return;
    contest.enter(next.map(({ pick }) => pick));
  }
}

/** With more hosts there are too many ways, whatever the gang. */
const MOST_HOSTS = 24;

/** Work of predicting every way, without making them; an upper bound where hosts are alike. Cost: O(hosts² · gpus · 8). */
export function workOfAll(hosts: readonly HostOptions[], gpus: number, most: number): number {
  if (hosts.length > MOST_HOSTS) return Infinity;
  // ways[used][taken]: how many ways take so many GPUs from so many hosts.
  let ways: number[][] = [[1]];
  for (const { free } of hosts) {
    const next: number[][] = ways.map((row) => [...row]);
    next.push([]);
    for (const [used, row] of ways.entries()) {
      const target = next[used + 1] ?? [];
      for (const [taken, count] of row.entries()) {
        if (!count) continue;
        for (let more = 1; more <= Math.min(free, gpus - taken); more += 1)
          target[taken + more] = (target[taken + more] ?? 0) + count;
      }
    }
    ways = next;
    // A lower bound of the end: what was found already only grows with further hosts.
    if (workIn(ways, gpus) > most) return Infinity;
  }
  return workIn(ways, gpus);
}

const workIn = (ways: readonly (readonly number[])[], gpus: number): number =>
  ways.reduce((sum, row, used) => sum + (row[gpus] ?? 0) * workOf(used), 0);

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
  { kindOf }: BandwidthPredictor,
): readonly (number | undefined)[] {
  if (kindOf === undefined) return hosts.map(() => undefined);
  const last = new Map<string, number>();
  return hosts.map(({ host, masks, gbs, gpuCount }, at) => {
    const kinds = masks.slice(1).map((mask) => kindOf({ host, mask }));
    const key = JSON.stringify([gpuCount, kinds, gbs.map(String)]);
    const twin = last.get(key);
    last.set(key, at);
    return twin;
  });
}
