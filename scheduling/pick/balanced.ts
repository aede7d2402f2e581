/**
 * @file EHA of BandPilot: the best host that holds the gang, else the gang spread evenly over as few hosts as can hold it.
 *
 * Algorithm 1, §4.3.2. Where the paper is silent: each host gives the set with the highest intra-host bandwidth; a host with too few GPUs
 * for an even share gives all it has, and the others share the rest evenly; where the division leaves a rest, each way to give one more GPU
 * to some of the hosts that can is a candidate; combinations of hosts come in order of most free GPUs, then of index, and the search ends
 * with its budget of predictions. Ties: search.ts. Cost: one prediction a candidate.
 */

import { allOptions, type HostOptions } from "./host-options.ts";
import type { Candidate } from "./bandwidth-port.ts";
import {
  openContest,
  workOf,
  type PickBudget,
  type PickQuestion,
  type PickSearch,
} from "./search.ts";

const EHA_BUDGET: PickBudget = Object.freeze({ work: 20_000 });

export const eha: PickSearch = (question, { work } = EHA_BUDGET) => {
  const contest = openContest(question);
  contest.enter(balancedCandidates(question, work));
  return contest.result(false);
};

/** Candidates of algorithm 1 in order, as many as the work allows, and at least one where there is any. */
export function balancedCandidates(
  { predictor, freeMasks, gpus, isSameHost = false }: PickQuestion,
  work: number,
): readonly Candidate[] {
  const hosts = allOptions(predictor.domain, freeMasks);
  const single = hosts.filter(({ free }) => free >= gpus);
  if (single.length > 0) return single.map(({ host, masks }) => [{ host, mask: masks[gpus] ?? 0 }]);
  const most = [...hosts].sort((a, b) => b.free - a.free || a.host - b.host);
  const count = fewestHosts(most, gpus);
  if (isSameHost || count === undefined) return [];
  const found: Candidate[] = [];
  const limit = Math.max(1, Math.floor(work / workOf(count)));
  for (const set of combinations(most, { count, gpus })) {
    for (const counts of evenCounts(set, gpus)) {
      if (found.length >= limit) return found;
      found.push(candidateOf(set, counts));
    }
  }
  return found;
}

/** Hosts with most free GPUs come first. */
function fewestHosts(most: readonly HostOptions[], gpus: number): number | undefined {
  let open = gpus;
  for (const [at, { free }] of most.entries()) {
    open -= free;
    if (open <= 0) return at + 1;
  }
  return undefined;
}

/** Ascending by host. */
export function candidateOf(hosts: readonly HostOptions[], counts: readonly number[]): Candidate {
  return hosts
    .flatMap(({ host, masks }, at) => {
      const mask = masks[counts[at] ?? 0] ?? 0;
      return mask === 0 ? [] : [{ host, mask }];
    })
    .sort((a, b) => a.host - b.host);
}

/** In lexicographic order of places in the list, only those with enough GPUs. */
function* combinations(
  most: readonly HostOptions[],
  { count, gpus }: { readonly count: number; readonly gpus: number },
): Generator<readonly HostOptions[]> {
  const chosen: HostOptions[] = [];
  /** GPUs of the first hosts of the list: the most that hosts from a place on can give. */
  const sums = [0];
  for (const { free } of most) sums.push((sums.at(-1) ?? 0) + free);

  function* from(at: number, open: number): Generator<readonly HostOptions[]> {
    const missing = count - chosen.length;
    if (missing === 0) {
      if (open <= 0) yield [...chosen];
      return;
    }
    for (let next = at; next + missing <= most.length; next += 1) {
      // The next ones are the largest that are left.
      if ((sums[next + missing] ?? 0) - (sums[next] ?? 0) < open) return;
      const host = most[next];
      if (host === undefined) return;
      chosen.push(host);
      yield* from(next + 1, open - host.free);
      chosen.pop();
    }
  }
  yield* from(0, gpus);
}

/** Every way to give these hosts as equal counts as they can take; counts in the order of the hosts. */
export function* evenCounts(
  hosts: readonly HostOptions[],
  gpus: number,
): Generator<readonly number[]> {
  const level = evenLevel(hosts, gpus);
  const counts = hosts.map(({ free }) => Math.min(free, level));
  const rest = gpus - counts.reduce((sum, count) => sum + count, 0);
  const able = hosts.flatMap(({ free }, at) => (free > level ? [at] : []));
  for (const lucky of subsets(able, rest)) {
    const own = [...counts];
    for (const at of lucky) own[at] = (own[at] ?? 0) + 1;
    yield own;
  }
}

/** The highest level at which all hosts together still give no more than wanted. */
function evenLevel(hosts: readonly HostOptions[], gpus: number): number {
  const byFree: number[] = [];
  for (const { free } of hosts) byFree[free] = (byFree[free] ?? 0) + 1;
  let given = 0;
  let level = 0;
  let able = hosts.length;
  while (able > 0 && given + able <= gpus) {
    given += able;
    level += 1;
    able -= byFree[level] ?? 0;
  }
  return level;
}

/** In lexicographic order. */
function* subsets(items: readonly number[], size: number): Generator<readonly number[]> {
  const chosen: number[] = [];
  function* from(at: number): Generator<readonly number[]> {
    if (chosen.length === size) {
      yield [...chosen];
      return;
    }
    for (let next = at; next + size - chosen.length <= items.length; next += 1) {
      chosen.push(items[next] ?? 0);
      yield* from(next + 1);
      chosen.pop();
    }
  }
  yield* from(0);
}
