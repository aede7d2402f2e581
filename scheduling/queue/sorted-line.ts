/**
 * @file One line of waiting requests in a fixed order, for turns that dismiss nobody: a list that is sorted when it is asked for.
 *
 * What it is for are queues that are opened, walked once or twice and thrown away, which a heap for each kind makes dear.
 * Cost: O(n log n) for the first walk, O(1) a step; after a change O(n) for the next walk, because the rest is in order already.
 */

import type { PendingRequest } from "../../domain/plan.ts";
import type { IsBefore } from "../../lib/heap.ts";
import type { Line } from "./line.ts";

export function sortedLine(isBefore: IsBefore<PendingRequest>): Line {
  const requests: PendingRequest[] = [];
  let isSorted = true;
  return {
    isEmpty: () => requests.length === 0,
    first: () => inOrder()[0],
    add(request) {
      requests.push(request);
      isSorted = false;
    },
    remove(request) {
      const at = requests.indexOf(request);
      if (at >= 0) requests.splice(at, 1);
    },
    walk() {
      const order = inOrder();
      let at = 0;
      const next = (): PendingRequest | undefined => {
        at += 1;
        return order[at - 1];
      };
      const nothing = (): void => undefined;
      return { peek: () => order[at], next, dismiss: nothing, recall: nothing };
    },
  };

  function inOrder(): readonly PendingRequest[] {
    if (!isSorted) requests.sort((a, b) => (isBefore(a, b) ? -1 : 1));
    isSorted = true;
    return requests;
  }
}
