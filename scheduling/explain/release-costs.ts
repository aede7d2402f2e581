/** @file The leases whose end could make room for a request, the cheapest first: the price is the work since the last checkpoint. Cost: O(leases log leases). */

import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { isSuitable } from "../ledger/rules/grant-check.ts";
import { indexFleet } from "../ledger/rules/fleet-index.ts";
import type { Ledger } from "../ledger/ledger.ts";

export interface ReleaseCost {
  readonly lease: Lease;
  readonly lostGpuSeconds: number;
}

/** Leases on hosts that suit the request and are not being evicted, the cheapest first; ties go to the lower token. */
export function releasable(
  ledger: Ledger,
  request: PendingRequest,
  nowMs: number,
): readonly ReleaseCost[] {
  const { places } = indexFleet(ledger.shape);
  return [...ledger.leases.values()]
    .filter(
      ({ jobId, gpus, eviction }) =>
        jobId !== request.jobId &&
        eviction === undefined &&
        gpus.some(({ host }) => {
          const place = places.get(host);
          return place !== undefined && isSuitable(request, place);
        }),
    )
    .map((lease) => ({ lease, lostGpuSeconds: lostBy(lease, nowMs) }))
    .sort((a, b) => a.lostGpuSeconds - b.lostGpuSeconds || a.lease.token - b.lease.token);
}

/** GPU-seconds since the last checkpoint; 0 for a lease whose job is gone already. */
function lostBy({ gpus, grantedAtMs, checkpointedAtMs, state }: Lease, nowMs: number): number {
  if (state === "vacating") return 0;
  const sinceMs = Math.max(grantedAtMs, checkpointedAtMs ?? 0);
  return (gpuCountOf(gpus) * Math.max(0, nowMs - sinceMs)) / 1_000;
}
