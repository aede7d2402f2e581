/**
 * @file A queue in a fixed order that keeps its requests by kind, so that a walk can pass over a whole kind at once.
 *
 * Each kind has a heap of its requests; one more heap holds the kinds by their first request. A walk merges the heaps (kind-walk.ts).
 * The order of two requests never changes while both wait, so the heaps need no upkeep.
 * Cost: O(log n) for a change and for a step of a walk.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { heap, type Heap, type IsBefore } from "../../lib/heap.ts";
import type { Kind } from "./kind.ts";
import { walkKinds, type KindGroup } from "./kind-walk.ts";
import type { OrderedQueue } from "./ordered-queue.ts";
import { sortedQueue } from "./sorted-queue.ts";

/** With `none` the queue has no kinds, and its walks dismiss nothing. */
export const orderedQueue = (
  isBefore: IsBefore<PendingRequest>,
  kindOf: Kind | "none",
): OrderedQueue => (kindOf === "none" ? sortedQueue(isBefore) : kindQueue(isBefore, kindOf));

function kindQueue(isBefore: IsBefore<PendingRequest>, kindOf: Kind): OrderedQueue {
  const byKind = new Map<string, KindGroup>();
  const groupOf = new Map<PendingRequest, KindGroup>();
  const kinds: Heap<KindGroup> = heap((a, b) => isFirst(a.requests.peek(), b.requests.peek()));
  const isFirst = (a: PendingRequest | undefined, b: PendingRequest | undefined): boolean =>
    a !== undefined && b !== undefined && isBefore(a, b);
  return {
    isEmpty: () => kinds.size() === 0,
    first: () => kinds.peek()?.requests.peek(),
    add,
    remove,
    walk: () => walkKinds(kinds, groupOf, isBefore),
  };

  function add(request: PendingRequest): void {
    const kind = kindOf(request);
    const known = byKind.get(kind);
    const group = known ?? { kind, requests: heap(isBefore) };
    group.requests.push(request);
    groupOf.set(request, group);
    if (known !== undefined) {
      if (group.requests.peek() === request) kinds.moved(group);
      return;
    }
    byKind.set(kind, group);
    kinds.push(group);
  }

  function remove(request: PendingRequest): void {
    const group = groupOf.get(request);
    if (group === undefined) return;
    groupOf.delete(request);
    const wasFirst = group.requests.peek() === request;
    group.requests.remove(request);
    if (group.requests.size() === 0) {
      byKind.delete(group.kind);
      kinds.remove(group);
    } else if (wasFirst) kinds.moved(group);
  }
}
