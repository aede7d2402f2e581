/**
 * @file Remembers the packed form that a ledger was unpacked from until its size is asked for: the rows need not be packed again to be counted.
 *
 * Cost: O(1). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { CompactRequestRow, CompactTables, GangTerms, Owner } from "./codec-compact-rows.ts";
import type { LeaseRow } from "./codec-lease-rows.ts";
import type { Profile, ReasonRow } from "./codec-rows.ts";
import type { Ledger } from "./ledger.ts";

export interface Origin {
  readonly packed: {
    readonly shape: FleetShape;
    readonly requests: readonly CompactRequestRow[];
    /** Pairs: index of the request, index of the reason. */
    readonly reasons: readonly number[];
    readonly leases: readonly LeaseRow[];
    readonly tables: Pick<CompactTables, "texts" | "lists"> & {
      readonly reasons: readonly ReasonRow[];
    };
  };
  /** The tables of the packed form, unpacked. */
  readonly owners: readonly Owner[];
  readonly gangs: readonly GangTerms[];
  readonly profiles: readonly Profile[];
  /** In the order of their rows. */
  readonly leases: readonly Lease[];
}

const ORIGINS = new WeakMap<Ledger, Origin>();

export function noteOrigin(ledger: Ledger, origin: Origin): Ledger {
  ORIGINS.set(ledger, origin);
  return ledger;
}

/** Only once, so that the packed form does not stay for as long as the ledger. */
export function takeOrigin(ledger: Ledger): Origin | undefined {
  const origin = ORIGINS.get(ledger);
  ORIGINS.delete(ledger);
  return origin;
}
