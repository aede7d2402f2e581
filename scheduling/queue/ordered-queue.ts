/** @file The interface of a queue whose order never changes while its requests wait: kept by kind (kind-queue.ts) or as a list (sorted-queue.ts). */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { LabelledWalk } from "./labels.ts";

export interface OrderedQueue {
  readonly isEmpty: () => boolean;
  readonly first: () => PendingRequest | undefined;
  readonly add: (request: PendingRequest) => void;
  readonly remove: (request: PendingRequest) => void;
  /** The request loses its label. */
  readonly forget?: (request: PendingRequest) => void;
  /** One pass from the front. A change of the queue ends it. */
  readonly walk: () => QueueWalk;
}

export interface QueueWalk extends LabelledWalk {
  readonly peek: () => PendingRequest | undefined;
  /** Passes over the remaining requests of this request's kind, except those of `stays`. */
  readonly dismiss: (request: PendingRequest, stays?: readonly PendingRequest[]) => void;
  /** Takes back all dismissals for the requests that come after the last one returned. */
  readonly recall: () => void;
}
