/**
 * @file One line of waiting requests in a fixed order, kept by kind, so that a whole kind can be passed over at once.
 *
 * A heap for each kind, and a heap of the kinds by their first request. A walk merges them from the front. The order of two
 * requests never changes while both wait: that is what keeps the heaps valid without any upkeep. A kind that is passed over leaves the
 * walk's heap; those of it that stay stand there instead, and when it is called back it goes on behind the last one that was given.
 * Cost: O(log n) a change and a step.
 */

import type { PendingRequest } from "../../domain/plan.ts";
import { heap, type Heap, type IsBefore, type Walk } from "../../lib/heap.ts";
import type { Kind } from "./kind.ts";
import { sortedLine } from "./sorted-line.ts";

export interface Line {
  readonly isEmpty: () => boolean;
  readonly first: () => PendingRequest | undefined;
  readonly add: (request: PendingRequest) => void;
  readonly remove: (request: PendingRequest) => void;
  readonly walk: () => LineWalk;
}

export interface LineWalk extends Walk<PendingRequest> {
  /** The rest of its kind is passed over, but for these. */
  readonly dismiss: (request: PendingRequest, stays?: readonly PendingRequest[]) => void;
  /** Nobody is passed over any more who comes after the last one. */
  readonly recall: () => void;
}

interface Alike {
  readonly kind: string;
  readonly requests: Heap<PendingRequest>;
}

export const line = (isBefore: IsBefore<PendingRequest>, kindOf: Kind | "none"): Line =>
  kindOf === "none" ? sortedLine(isBefore) : lineByKind(isBefore, kindOf);

function lineByKind(isBefore: IsBefore<PendingRequest>, kindOf: Kind): Line {
  const byKind = new Map<string, Alike>();
  const kindOfWaiting = new Map<PendingRequest, Alike>();
  const kinds = heap<Alike>((a, b) => isFirst(a.requests.peek(), b.requests.peek()));
  const isFirst = (a: PendingRequest | undefined, b: PendingRequest | undefined): boolean =>
    a !== undefined && b !== undefined && isBefore(a, b);
  return {
    isEmpty: () => kinds.size() === 0,
    first: () => kinds.peek()?.requests.peek(),
    add,
    remove,
    walk,
  };

  function add(request: PendingRequest): void {
    const kind = kindOf(request);
    const known = byKind.get(kind);
    const alike = known ?? { kind, requests: heap(isBefore) };
    alike.requests.push(request);
    kindOfWaiting.set(request, alike);
    if (known !== undefined) {
      if (alike.requests.peek() === request) kinds.moved(alike);
      return;
    }
    byKind.set(kind, alike);
    kinds.push(alike);
  }

  function remove(request: PendingRequest): void {
    const alike = kindOfWaiting.get(request);
    if (alike === undefined) return;
    kindOfWaiting.delete(request);
    const wasFirst = alike.requests.peek() === request;
    alike.requests.remove(request);
    if (alike.requests.size() === 0) {
      byKind.delete(alike.kind);
      kinds.remove(alike);
    } else if (wasFirst) kinds.moved(alike);
  }

  /** Kinds that nothing was taken of yet stay in their heap; of each that was opened, the next request stands in `heads`. */
  function walk(): LineWalk {
    const unopened = kinds.walk();
    const opened = new Map<Alike, Opened>();
    /** Each with what stands in the line for it meanwhile. */
    const dismissed = new Map<Alike, Opened | undefined>();
    const heads = heap<Opened>((a, b) => isBefore(a.head, b.head));
    let last: PendingRequest | undefined;
    return { peek: () => front()?.head, next, dismiss, recall };

    function front(): Opened | undefined {
      for (;;) {
        const known = heads.peek();
        const fresh = unopened.peek();
        const head = fresh?.requests.peek();
        if (fresh === undefined || head === undefined) return known;
        if (known !== undefined && isBefore(known.head, head)) return known;
        unopened.next();
        const added = { head, rest: fresh.requests.walk() };
        added.rest.next();
        opened.set(fresh, added);
        if (!dismissed.has(fresh)) heads.push(added);
      }
    }

    function next(): PendingRequest | undefined {
      const kind = front();
      if (kind === undefined) return undefined;
      last = kind.head;
      const after = kind.rest.next();
      if (after === undefined) heads.remove(kind);
      else {
        kind.head = after;
        heads.moved(kind);
      }
      return last;
    }

    function dismiss(request: PendingRequest, stays: readonly PendingRequest[] = []): void {
      const alike = kindOfWaiting.get(request);
      if (alike === undefined || dismissed.has(alike)) return;
      const known = opened.get(alike);
      // Nobody of its kind is left.
      if (known !== undefined && !heads.remove(known)) return;
      const inOrder = stays
        .filter((each) => kindOfWaiting.get(each) === alike && isToCome(each))
        .sort((a, b) => (isBefore(a, b) ? -1 : 1));
      const rest = listWalk(inOrder);
      const head = rest.next();
      const standIn = head && { head, rest };
      if (standIn !== undefined) heads.push(standIn);
      dismissed.set(alike, standIn);
    }

    function recall(): void {
      for (const [alike, standIn] of dismissed) {
        if (standIn !== undefined) heads.remove(standIn);
        const known = opened.get(alike);
        if (known !== undefined && isAhead(known)) heads.push(known);
      }
      dismissed.clear();
    }

    /** Goes on to what comes after the last one; whether there is anything. */
    function isAhead(kind: Opened): boolean {
      while (!isToCome(kind.head)) {
        const after = kind.rest.next();
        if (after === undefined) return false;
        kind.head = after;
      }
      return true;
    }

    function isToCome(request: PendingRequest): boolean {
      return last === undefined || isBefore(last, request);
    }
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

interface Opened {
  head: PendingRequest;
  /** What comes after the head. */
  readonly rest: Walk<PendingRequest>;
}
