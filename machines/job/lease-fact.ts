/** @file The part of a lease that its job asserts to a fleet that has lost its ledger. */

import type { Lease, LeaseFact } from "../../domain/lease/lease.ts";

/** Leaves out how far the fleet's ledger has got with the lease. */
export function factOf(lease: Lease): LeaseFact {
  const {
    state: _state,
    vacatingHosts: _left,
    vacatedHosts: _early,
    isUnconfirmed: _is,
    terms: _terms,
    eviction: _order,
    checkpointedAtMs: _saved,
    causedLossGpuSeconds: _cost,
    opportunistic: _opportunistic,
    ...fact
  } = lease;
  return fact;
}
