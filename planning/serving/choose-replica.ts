/**
 * @file Chooses the replica that answers a request: one that has room, knows the beginning of the prompt, and is not much busier than others.
 *
 * A replica with `slots` requests in service gets none more, so that the time per token that was planned for so many holds, and none while the prompts that
 * have come keep it busy for longer than `backlogMs`; what comes meanwhile waits in one line for all, which is never worse than a line at each.
 * Among those with room the longest known beginning wins, as long as its load is at most `MOST_UNEVEN` above the least; else, and among equals, the
 * least load; then the id. Cost: O(replicas × blocks). The baseline is `leastLoaded`.
 */

import type { ReplicaTerms } from "./replica-terms.ts";

export interface RoutedReplica extends ReplicaTerms {
  readonly id: string;
  readonly inService: number;
  /** When the prompts that have come are done. */
  readonly busyUntilMs: number;
  /** How many of these blocks, from the first on, it has seen lately (`prompt-blocks.ts`). */
  readonly known: (blocks: readonly string[]) => number;
}

/** By so much of its slots a replica may be busier than the least busy one, for a beginning that it knows. */
const MOST_UNEVEN = 0.25;

export interface Coming {
  /** The beginning of its prompt. */
  readonly blocks: readonly string[];
  readonly nowMs: number;
}

/** Undefined when none has room. */
export function chooseReplica<R extends RoutedReplica>(
  replicas: readonly R[],
  { blocks, nowMs }: Coming,
): R | undefined {
  const able = replicas.filter((each) => hasRoom(each, nowMs));
  const least = leastLoaded(able);
  if (least === undefined || blocks.length === 0) return least;
  const [best] = able
    .filter((each) => loadOf(each) <= loadOf(least) + MOST_UNEVEN)
    .map((replica) => ({ replica, known: replica.known(blocks) }))
    .sort((a, b) => b.known - a.known || byLoad(a.replica, b.replica));
  return best?.replica;
}

/** Without a look at the prompt. */
export function leastLoaded<R extends RoutedReplica>(replicas: readonly R[]): R | undefined {
  return replicas.reduce<R | undefined>(
    (best, each) => (best === undefined || byLoad(each, best) < 0 ? each : best),
    undefined,
  );
}

/** When one has room again though none is done with a request; undefined when that takes an answer's end. */
export function roomAtMs(replicas: readonly RoutedReplica[]): number | undefined {
  const times = replicas
    .filter(({ inService, slots }) => inService < slots)
    .map(({ busyUntilMs, backlogMs, promptMs }) => busyUntilMs + promptMs - backlogMs);
  return times.length === 0 ? undefined : Math.min(...times);
}

export const busyAfter = (
  { busyUntilMs, promptMs }: Pick<RoutedReplica, "busyUntilMs" | "promptMs">,
  nowMs: number,
): number => Math.max(busyUntilMs, nowMs) + promptMs;

const hasRoom = (replica: RoutedReplica, nowMs: number): boolean =>
  replica.inService < replica.slots &&
  (replica.promptMs === 0 || busyAfter(replica, nowMs) - nowMs <= replica.backlogMs);
const loadOf = ({ inService, slots }: RoutedReplica): number => inService / slots;
const byLoad = (a: RoutedReplica, b: RoutedReplica): number =>
  loadOf(a) - loadOf(b) || (a.id < b.id ? -1 : 1);
