/**
 * @file Remembers the rows that requests and leases were unpacked from: those that are still the same need not be packed again.
 *
 * A row is a function of its request or lease and of the tables that it refers to. Here the values are put into the new tables in the same
 * order as by packing, and a row whose indices stay is taken as it is; one whose indices have moved gets the new ones. So the packed form is the
 * same to the byte, whether anything was remembered or not. Rows that refer to more (hosts
 * that are avoided, evictions) are packed again.
 * Cost: O(1) a row. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Interner } from "../../lib/interner.ts";
import {
  packCompactRequest,
  isAvoiding,
  termsOf,
  withTerms,
  type CompactRequestRow,
  type CompactShared,
  type GangTerms,
  type Owner,
} from "./codec-compact-rows.ts";
import { leaseRefs, packLease, withRefs, type LeaseRow } from "./codec-lease-rows.ts";
import type { Profile, Shared } from "./codec-rows.ts";
import { entry } from "./codec-values.ts";
import type { Ledger } from "./ledger.ts";

/** Requests and leases in the order of their rows, and the tables that those refer to. */
interface KeptRows {
  readonly requests: readonly PendingRequest[];
  readonly requestRows: readonly CompactRequestRow[];
  readonly owners: readonly Owner[];
  readonly gangs: readonly GangTerms[];
  readonly leases: readonly Lease[];
  readonly leaseRows: readonly LeaseRow[];
  readonly texts: readonly string[];
  readonly profiles: readonly Profile[];
}

/** A ledger keeps its description from event to event, and a description that was unpacked is that of one ledger. */
const KEPT = new WeakMap<FleetShape, KeptRows>();

export function keepRows(shape: FleetShape, rows: KeptRows): void {
  KEPT.set(shape, rows);
}

/** Packs the requests of a ledger, one after the other in their order. */
export function requestPacker(
  ledger: Pick<Ledger, "shape" | "requests">,
  shared: CompactShared,
): (request: PendingRequest) => CompactRequestRow {
  const kept = KEPT.get(ledger.shape);
  if (kept === undefined) return (request) => packCompactRequest(request, shared);
  const { requestRows } = kept;
  const placeOf = walk(kept.requests, ({ jobId }) => ledger.requests.get(jobId));
  const ownerOf = moved(kept.owners, shared.owners);
  const gangOf = moved(kept.gangs, shared.gangs);
  const textOf = moved(kept.texts, shared.texts);
  return (request) => {
    const place = placeOf(request);
    const row = place === undefined ? undefined : entry(requestRows, place);
    if (row === undefined || isAvoiding(row)) return packCompactRequest(request, shared);
    const terms = termsOf(row);
    const owner = ownerOf(terms.owner);
    const gang = gangOf(terms.gang);
    const [, former] = row;
    const name = former !== undefined && former >= 0 ? textOf(former) : former;
    const isSame = owner === terms.owner && gang === terms.gang && name === former;
    return isSame ? row : withTerms(row, { owner, gang, name });
  };
}

/** Packs the leases of a ledger, one after the other in their order. `knownHosts`: so many hosts have the same index in any packed form. */
export function leasePacker(
  ledger: Pick<Ledger, "shape" | "leases">,
  shared: Shared,
  knownHosts: number,
): (lease: Lease) => LeaseRow {
  const kept = KEPT.get(ledger.shape);
  if (kept === undefined) return (lease) => packLease(lease, undefined, shared);
  const { leaseRows } = kept;
  const placeOf = walk(kept.leases, ({ id }) => ledger.leases.get(id));
  const textOf = moved(kept.texts, shared.texts);
  const profileOf = moved(kept.profiles, shared.profiles);
  return (lease) => {
    const place = placeOf(lease);
    const row = place === undefined ? undefined : entry(leaseRows, place);
    const refs = row && leaseRefs(row, knownHosts);
    if (row === undefined || refs === undefined) return packLease(lease, undefined, shared);
    const tenant = textOf(refs.tenant);
    const profile = profileOf(refs.profile);
    const isSame = tenant === refs.tenant && profile === refs.profile;
    return isSame ? row : withRefs(row, { tenant, profile });
  };
}

/** The place of a value among the former ones, for values that come in their present order; undefined where it is none of them. */
function walk<T>(
  former: readonly T[],
  nowOf: (former: T) => T | undefined,
): (value: T) => number | undefined {
  let at = 0;
  return (value) => {
    for (let each = former[at]; each !== undefined; each = former[at]) {
      if (each === value) {
        at += 1;
        return at - 1;
      }
      // It comes later.
      if (nowOf(each) === each) return undefined;
      at += 1;
    }
    return undefined;
  };
}

/** The index in a new table of the value that had an index in a former one. */
function moved<T>(former: readonly T[], { indexOf }: Interner<T>): (index: number) => number {
  const known: (number | undefined)[] = former.map(() => undefined);
  return (index) => (known[index] ??= indexOf(entry(former, index)));
}
