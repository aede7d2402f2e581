/**
 * @file One pass over a queue that is kept by kind: merges the kinds in order, and passes over a kind that is dismissed.
 *
 * Kinds from which nothing was taken stay in the queue's heap; of each opened kind the next request stands in the walk's own heap. A
 * dismissed kind leaves that heap, and the requests that stay stand there in its place. A recalled kind continues after the last request
 * that the walk returned. The walk changes nothing in the queue.
 * Cost: O(log kinds) a step; a dismissal O(1), and O(s log s) for s requests that stay.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { heap, type Heap, type IsBefore, type Walk } from "../../lib/heap.ts";
import type { QueueWalk } from "./ordered-queue.ts";

/** The waiting requests of one kind. */
export interface KindGroup {
  readonly kind: string;
  readonly requests: Heap<PendingRequest>;
}

/** A kind in the walk: the request that comes next, and those after it. */
interface Opened {
  first: PendingRequest;
  readonly rest: Walk<PendingRequest>;
}

export function walkKinds(
  kinds: Heap<KindGroup>,
  groupOf: ReadonlyMap<PendingRequest, KindGroup>,
  isBefore: IsBefore<PendingRequest>,
): QueueWalk {
  const unopened = kinds.walk();
  const opened = new Map<KindGroup, Opened>();
  /** Each dismissed kind, with its requests that stay. */
  const dismissed = new Map<KindGroup, Opened | undefined>();
  const firsts = heap<Opened>((a, b) => isBefore(a.first, b.first));
  let last: PendingRequest | undefined;
  return { peek: () => front()?.first, next, dismiss, recall };

  function front(): Opened | undefined {
    for (;;) {
      const known = firsts.peek();
      const fresh = unopened.peek();
      const first = fresh?.requests.peek();
      if (fresh === undefined || first === undefined) return known;
      if (known !== undefined && isBefore(known.first, first)) return known;
      unopened.next();
      const added = { first, rest: fresh.requests.walk() };
      added.rest.next();
      opened.set(fresh, added);
      if (!dismissed.has(fresh)) firsts.push(added);
    }
  }

  function next(): PendingRequest | undefined {
    const kind = front();
    if (kind === undefined) return undefined;
    last = kind.first;
    const after = kind.rest.next();
    if (after === undefined) firsts.remove(kind);
    else {
      kind.first = after;
      firsts.moved(kind);
    }
    return last;
  }

  function dismiss(request: PendingRequest, stays: readonly PendingRequest[] = []): void {
    const group = groupOf.get(request);
    if (group === undefined || dismissed.has(group)) return;
    const known = opened.get(group);
    // No request of the kind is left.
    if (known !== undefined && !firsts.remove(known)) return;
    const inOrder = stays
      .filter((each) => groupOf.get(each) === group && isToCome(each))
      .sort((a, b) => (isBefore(a, b) ? -1 : 1));
    const rest = listWalk(inOrder);
    const first = rest.next();
    const staying = first && { first, rest };
    if (staying !== undefined) firsts.push(staying);
    dismissed.set(group, staying);
  }

  function recall(): void {
    for (const [group, staying] of dismissed) {
      if (staying !== undefined) firsts.remove(staying);
      const known = opened.get(group);
      if (known !== undefined && skipPassed(known)) firsts.push(known);
    }
    dismissed.clear();
  }

  /** Skips the kind's requests up to the last one returned. Answers whether any is left. */
  function skipPassed(kind: Opened): boolean {
    while (!isToCome(kind.first)) {
      const after = kind.rest.next();
      if (after === undefined) return false;
      kind.first = after;
    }
    return true;
  }

  function isToCome(request: PendingRequest): boolean {
    return last === undefined || isBefore(last, request);
  }
}

function listWalk(requests: readonly PendingRequest[]): Walk<PendingRequest> {
  let at = 0;
  return {
    peek: () => requests[at],
    next: () => {
      at += 1;
      return requests[at - 1];
    },
  };
}
