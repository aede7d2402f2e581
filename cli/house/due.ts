/**
 * @file Which things of one kind are to go: first by age, then, where a quota is exceeded, those that ended first. Pure.
 *
 * What is held back (its job has not ended, or may go on from it) counts for the quotas and never goes, and neither does anything in its first day.
 * Of equal times the path by code units decides. Cost: O(n log n).
 */

import { GRACE_MS, type KeepRule } from "../../domain/fleet/keep.ts";
import { byCodeUnit, type TenantId } from "../../domain/values/ids.ts";

export interface Kept {
  readonly path: string;
  readonly bytes: number;
  readonly files: number;
  /** Absent: nobody knows any more. */
  readonly tenant?: TenantId;
  readonly job?: string;
  /** When it was over, or was last written; absent while it is held back. */
  readonly endedMs?: number;
  /** Nobody has said for certain that it is over, so no quota takes it. */
  readonly isUnproven?: true;
  /** Of a folder: the last change of its files. */
  readonly changedAtMs?: number;
  /** Why it is held back. */
  readonly held?: string;
}

export const bytesOf = (things: readonly Kept[]): number =>
  things.reduce((sum, { bytes }) => sum + bytes, 0);

export interface DueThing extends Kept {
  readonly why: string;
}

/** A quota that what is left exceeds. */
export interface Excess {
  /** Absent: the quota of all. */
  readonly tenant?: TenantId;
  readonly bytes: number;
  readonly mostBytes: number;
}

export interface Due {
  /** In the order in which they ended. */
  readonly due: readonly DueThing[];
  readonly over: readonly Excess[];
}

export function dueOf(things: readonly Kept[], rule: KeepRule, nowMs: number): Due {
  const order = [...things].sort(
    (a, b) => (a.endedMs ?? Infinity) - (b.endedMs ?? Infinity) || byCodeUnit(a.path, b.path),
  );
  const due = new Map<Kept, string>();
  for (const thing of order)
    if (isFree(thing, nowMs) && nowMs - thing.endedMs > (rule.forMs ?? Infinity))
      due.set(thing, `older than ${String(Math.round((rule.forMs ?? 0) / GRACE_MS))} days`);
  const over: Excess[] = [];

  /** Takes the oldest of the scope until the rest fits. */
  function fit(scope: readonly Kept[], mostBytes: number, tenant?: TenantId): void {
    const left = scope.filter((thing) => !due.has(thing));
    let bytes = bytesOf(left);
    for (const thing of left) {
      if (bytes <= mostBytes) break;
      if (!isFree(thing, nowMs) || thing.isUnproven || thing.bytes === 0) continue;
      due.set(
        thing,
        tenant === undefined ? "beyond the quota of all" : "beyond its tenant's quota",
      );
      bytes -= thing.bytes;
    }
    if (bytes > mostBytes) over.push({ ...(tenant !== undefined && { tenant }), bytes, mostBytes });
  }

  const tenants = new Set(order.flatMap(({ tenant }) => tenant ?? []));
  for (const tenant of [...tenants].sort(byCodeUnit)) {
    const mostBytes = rule.tenants?.get(tenant) ?? rule.tenantBytes;
    if (mostBytes !== undefined)
      fit(
        order.filter((thing) => thing.tenant === tenant),
        mostBytes,
        tenant,
      );
  }
  if (rule.mostBytes !== undefined) fit(order, rule.mostBytes);
  return {
    due: order.flatMap((thing) => {
      const why = due.get(thing);
      return why === undefined ? [] : [{ ...thing, why }];
    }),
    over,
  };
}

/** Whether a rule may take it. */
const isFree = (thing: Kept, nowMs: number): thing is Kept & { readonly endedMs: number } =>
  thing.held === undefined && thing.endedMs !== undefined && nowMs - thing.endedMs >= GRACE_MS;
