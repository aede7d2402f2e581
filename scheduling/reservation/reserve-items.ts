/**
 * @file What a plan says of backfill reservations, and of kept GPUs that others take: the changes of the cycle, as items that `apply` can follow.
 *
 * `apply` enters reservations before grants. So GPUs that the same plan grants to others are left out, but for those that are used within the
 * shadow time; the next cycle completes the reservation. Cost: O(reservations · grants · hosts).
 */

import type { HostGpus } from "../../domain/lease/lease.ts";
import type { ReserveItem } from "../../domain/lease/plan.ts";
import type { FreshGrant } from "../capacity/capacity-changes.ts";
import { sharedGpus, withoutGpus } from "../ledger/rules/reservation-index.ts";
import type { ReservationSet } from "./reservation-set.ts";

export function reserveItems(
  { former: all, kept, backfill, capacity }: ReservationSet,
  grants: readonly FreshGrant[],
): readonly ReserveItem[] {
  const items: ReserveItem[] = [];
  for (const [jobId, before] of kept) {
    const now = capacity.reserved.byJob.get(jobId);
    if (now !== before && (now ?? before).kind === "replace")
      items.push({ jobId, gpus: now?.gpus ?? [], kind: "replace" });
  }
  for (const jobId of all.keys()) {
    const kind = capacity.reserved.byJob.get(jobId)?.kind ?? "backfill";
    if (!backfill.has(jobId) && kind === "backfill")
      items.push({ jobId, gpus: [], kind: "backfill" });
  }
  for (const [jobId, { gpus: reserved, usableUntilMs }] of backfill) {
    let gpus = reserved;
    const former = all.get(jobId);
    for (const grant of grants) {
      // Others may use only what was reserved before. A new reservation must not name GPUs of a grant of the same plan: `apply` reads a
      // later clock, so the grant would end after the time that the reservation names.
      const isWithinShadow =
        former?.gpus === reserved && grant.endAtMs <= (usableUntilMs ?? -Infinity);
      const { opportunistic } = grant;
      if (!isWithinShadow)
        gpus = withoutShared(
          gpus,
          opportunistic === undefined ? grant.gpus : withoutGpus(grant.gpus, opportunistic),
        );
    }
    if (former === undefined && gpus.length === 0) continue;
    if (former?.gpus === gpus && former.usableUntilMs === usableUntilMs) continue;
    const terms = usableUntilMs === undefined ? {} : { usableUntilMs };
    items.push({ jobId, gpus, kind: "backfill", ...terms });
  }
  return items;
}

/** The very same list where they share nothing. */
const withoutShared = (a: readonly HostGpus[], b: readonly HostGpus[]): readonly HostGpus[] =>
  sharedGpus(a, b).length === 0 ? a : withoutGpus(a, b);
