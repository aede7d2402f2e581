/**
 * @file The interface of every queue policy: which request is next.
 *
 * A queue is opened once and kept while requests come and go; each scheduling cycle takes one pass through it with a cursor. A cursor is
 * lazy, because a cycle often ends long before the queue does, and it changes nothing, so one queue serves any number of cycles. It counts
 * the grants of its own cycle, because they change which request is next.
 * For invariant 5 a policy must bring every request to the front in bounded time while arrivals are bounded, and may never move a request
 * back for having waited. Every pass returns every request once: a queue never leaves GPUs idle by withholding a request.
 */

import type { FleetPolicy, TenantRule } from "../../domain/fleet/fleet.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { RunNote } from "../ledger/ledger.ts";
import type { QueueFacts } from "../ledger/rules/service-account.ts";
import type { Kind } from "./kind.ts";
import type { LabelledWalk } from "./labels.ts";

export interface QueuePolicy {
  /** O(n log n) at most. The rules that the queue is opened with hold until it is opened again. */
  readonly open: (view: QueueView) => Queue;
}

/** The input of a queue: the waiting requests, and the weights of the tenants. */
export interface QueueView {
  readonly requests: Iterable<PendingRequest>;
  readonly tenants: readonly TenantRule[];
  /** `DEFAULT_POLICY` when absent. */
  readonly policy?: FleetPolicy;
  /** `kindOf` when absent. `none`: a pass dismisses nothing, which saves the sorting by kind. */
  readonly kindOf?: Kind | "none";
}

export interface Queue {
  readonly size: () => number;
  /** O(log n). Replaces the job's former request. */
  readonly add: (request: PendingRequest) => void;
  readonly remove: (job: JobId) => void;
  /** The job's request loses its label. Absent where the queue keeps none. */
  readonly forget?: (job: JobId) => void;
  /** One pass from the front. A change of the queue ends it. The same queue, time and facts give the same order. */
  readonly order: (nowMs: number, facts: OrderFacts) => QueueCursor;
}

export interface OrderFacts extends QueueFacts {
  /** The fleet's last runs; none when absent. */
  readonly runs?: readonly RunNote[];
}

export interface QueueCursor extends LabelledWalk {
  /** The cycle has just granted this number of GPUs to the request. */
  readonly noteGrant: (request: PendingRequest, gpuCount: number) => void;
  /**
   * No request of this kind can start in the present state: passes over all of them, except the later ones of `stays`. O(1) for any
   * number of requests.
   */
  readonly dismiss: (request: PendingRequest, stays?: readonly PendingRequest[]) => void;
  /** The state has changed: dismissed requests that are still to come are returned again. */
  readonly recall: () => void;
}
