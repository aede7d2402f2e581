/**
 * @file A queue in a fixed order for walks that dismiss nothing: a list that is sorted when a walk asks for it.
 *
 * It serves queues that are opened, walked once or twice and thrown away, where a heap for each kind would cost more than it saves, and those
 * of live deciders, which look at each request anew. Beside the list stand the labels of its requests, so that a walk passes over thousands of
 * them without a look at one: a request is some hundred bytes far from the next.
 * Cost: O(n log n) for the first walk, O(1) a step; after a change O(log n) comparisons and a shift of O(n) for the next walk.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { IsBefore } from "../../lib/heap.ts";
import { NO_LABEL, type PassingOver } from "./labels.ts";
import type { OrderedQueue } from "./ordered-queue.ts";

/** So small a part of the queue is put into its places one by one. */
const FEW = 64;

export function sortedQueue(isBefore: IsBefore<PendingRequest>): OrderedQueue {
  const requests: PendingRequest[] = [];
  /** By place in the list. */
  const labels: number[] = [];
  /** Those at the end that have come since the last walk. */
  let added = 0;
  return {
    isEmpty: () => requests.length === 0,
    first: () => inOrder()[0],
    add(request) {
      requests.push(request);
      labels.push(NO_LABEL);
      added += 1;
    },
    remove(request) {
      const at = requests.indexOf(request);
      if (at < 0) return;
      if (at >= requests.length - added) added -= 1;
      requests.splice(at, 1);
      labels.splice(at, 1);
    },
    forget(request) {
      const at = requests.indexOf(request);
      if (at >= 0) labels[at] = NO_LABEL;
    },
    walk() {
      const order = inOrder();
      let at = 0;
      const nothing = (): void => undefined;
      return {
        peek: () => order[at],
        next(over) {
          if (over !== undefined) passOver(over);
          at += 1;
          return order[at - 1];
        },
        label: () => labels[at - 1] ?? NO_LABEL,
        setLabel(label) {
          if (at > 0 && at <= order.length) labels[at - 1] = label;
        },
        dismiss: nothing,
        recall: nothing,
      };

      function passOver(over: PassingOver): void {
        const from = at;
        while (over.labels.has(labels[at] ?? NO_LABEL)) at += 1;
        over.count += at - from;
      }
    },
  };

  function inOrder(): readonly PendingRequest[] {
    if (added * FEW > requests.length) {
      requests.sort((a, b) => (isBefore(a, b) ? -1 : 1));
      labels.fill(NO_LABEL);
    } else {
      const late = requests.splice(requests.length - added);
      labels.length = requests.length;
      for (const each of late) {
        const at = placeOf(each);
        requests.splice(at, 0, each);
        labels.splice(at, 0, NO_LABEL);
      }
    }
    added = 0;
    return requests;
  }

  /** Behind all that are not after it. */
  function placeOf(request: PendingRequest): number {
    let [from, to] = [0, requests.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      const each = requests[middle];
      if (each !== undefined && isBefore(request, each)) to = middle;
      else from = middle + 1;
    }
    return from;
  }
}
