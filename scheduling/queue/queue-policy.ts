/**
 * @file Who is next: the interface of every queue policy.
 *
 * A queue is opened once and kept: requests come and go, and each scheduling cycle takes a turn through it. A turn is lazy,
 * because a cycle often ends long before the queue does, and it changes nothing, so that one queue serves any number of cycles. It knows
 * what was granted in it, because grants of one cycle change who is next.
 * For invariant 5 a policy must let every request come to the front in bounded time while arrivals are bounded, and may never
 * move one back for having waited. Every turn gives every request once: a queue never idles GPUs by keeping silent.
 */

import type { FleetPolicy, TenantRule } from "../../domain/fleet.ts";
import type { JobId } from "../../domain/ids.ts";
import type { PendingRequest } from "../../domain/plan.ts";
import type { Kind } from "./kind.ts";

export interface QueuePolicy {
  /** O(n log n) at most; the rules that it is opened with hold until it is opened again. */
  readonly open: (view: QueueView) => Queue;
}

/** What a queue is made of: who waits, and who shares the fleet by which weights. */
export interface QueueView {
  readonly requests: Iterable<PendingRequest>;
  readonly tenants: readonly TenantRule[];
  /** `DEFAULT_POLICY` when absent. */
  readonly policy?: FleetPolicy;
  /** `kindOf` when absent. `none`: a turn dismisses nobody, which saves the sorting by kind. */
  readonly kindOf?: Kind | "none";
}

export interface Queue {
  readonly size: () => number;
  /** O(log n); takes the place of the job's former request. */
  readonly add: (request: PendingRequest) => void;
  readonly remove: (job: JobId) => void;
  /** One pass from the front. It is over as soon as the queue changes; the same queue, time and facts give the same order. */
  readonly order: (nowMs: number, facts: QueueFacts) => Turn;
}

/** Who was served how much; a flow that is not named was served nothing. Flows are named by flow.ts. */
export interface QueueFacts {
  /** Virtual service up to `atMs`; what runs has been served on since. */
  readonly service?: {
    readonly atMs: number;
    readonly flows: ReadonlyMap<string, { readonly virtualSeconds: number }>;
  };
  /** GPUs that jobs of the flow hold now. */
  readonly runningGpus: ReadonlyMap<string, number>;
}

export interface Turn {
  /** O(log n); every request once, but for those that were dismissed. */
  readonly next: () => PendingRequest | undefined;
  /** The request got so many GPUs just now. */
  readonly noteGrant: (request: PendingRequest, gpuCount: number) => void;
  /**
   * Nothing of this request's kind can start as things stand: they are passed over, but for those of `stays` that come later. O(1) for
   * however many there are.
   */
  readonly dismiss: (request: PendingRequest, stays?: readonly PendingRequest[]) => void;
  /** Things stand otherwise: whoever was dismissed and would come later comes in turn again. */
  readonly recall: () => void;
}
