/** @file Who is next: the interface of every queue policy. */

import type { TenantRule } from "../../domain/fleet.ts";
import type { Lease } from "../../domain/lease.ts";
import type { PendingRequest } from "../../domain/plan.ts";

/** What a policy may look at: who waits, who shares the fleet by which weight, and who is being served since when. */
export interface QueueView {
  readonly requests: Iterable<PendingRequest>;
  readonly tenants: readonly TenantRule[];
  readonly leases: Iterable<Lease>;
}

/**
 * All waiting requests, next one first; the same view and time give the same order. For invariant 5 a policy must let every
 * request move to the front in bounded time while arrivals are bounded, and may never move one back for having waited.
 */
export type QueuePolicy = (view: QueueView, nowMs: number) => readonly PendingRequest[];
