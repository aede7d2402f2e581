/**
 * @file A placement policy with a memo of its last answers, because a waiting request asks again in every cycle, mostly about the same GPUs.
 *
 * Memo of a pure function: an answer is reused where the demand, the hosts and the free GPUs of each are the same. Demands with watt
 * budgets or links are computed afresh, because the remaining watts and link shares cannot be compared. A fleet keeps the last `MOST`
 * different questions. Cost: O(hosts) beside the policy's own.
 */

import type { HostLayout } from "./layout.ts";
import type { Placed, PlaceDemand, PlaceHost, PlacePolicy } from "./place-policy.ts";
import type { FleetSpread } from "./spread.ts";

const MOST = 64;

interface Question {
  readonly demand: PlaceDemand;
  readonly layouts: readonly HostLayout[];
  readonly freeMasks: Uint32Array;
  readonly answer: Placed;
}

export function remembered(place: PlacePolicy): PlacePolicy {
  /** By digest, the longest unused first. */
  const fleets = new WeakMap<FleetSpread, Map<number, Question>>();
  return (demand, hosts, fleet) => {
    const isOverLinks = fleet.links !== undefined && demand.maxClusters > 1;
    if (demand.wattsLeft !== undefined || isOverLinks) return place(demand, hosts, fleet);
    const questions = fleets.get(fleet.spread) ?? new Map<number, Question>();
    fleets.set(fleet.spread, questions);
    const digest = digestOf(demand, hosts);
    const known = questions.get(digest);
    questions.delete(digest);
    const question =
      known !== undefined && isSame(known, demand, hosts)
        ? known
        : {
            demand,
            layouts: hosts.map(({ at }) => at),
            freeMasks: Uint32Array.from(hosts, ({ freeMask }) => freeMask),
            answer: place(demand, hosts, fleet),
          };
    questions.set(digest, question);
    const [oldest] = questions.keys();
    if (questions.size > MOST && oldest !== undefined) questions.delete(oldest);
    return fresh(question.answer);
  };
}

/** Returns a new list each time, because reservations are compared by the identity of their lists. */
const fresh = ({ gpus, candidates }: Placed): Placed =>
  gpus === undefined ? { candidates } : { gpus: [...gpus], candidates };

function digestOf({ gpus }: PlaceDemand, hosts: readonly PlaceHost[]): number {
  let digest = gpus;
  for (const { at, freeMask } of hosts)
    digest = Math.imul(Math.imul(digest ^ at.order, 0x01000193) ^ freeMask, 0x01000193);
  return digest;
}

function isSame(
  { demand: a, layouts, freeMasks }: Question,
  b: PlaceDemand,
  hosts: readonly PlaceHost[],
): boolean {
  return (
    a.gpus === b.gpus &&
    a.isSameHost === b.isSameHost &&
    a.isSameFabric === b.isSameFabric &&
    a.maxClusters === b.maxClusters &&
    layouts.length === hosts.length &&
    hosts.every(({ at, freeMask }, index) => at === layouts[index] && freeMask === freeMasks[index])
  );
}
