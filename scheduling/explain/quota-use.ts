/**
 * @file What tenants make of their quotas: what is theirs, what they hold of it, and what they have borrowed and lent.
 *
 * GPUs of a type that a quota does not name count against its `*`. Cost: O(hosts + leases + tenants · types).
 */

import type { TenantId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { takenGpus } from "../ledger/rules/usage.ts";

export interface QuotaUse {
  readonly tenant: TenantId;
  /** `*`: all types that the quota does not name. */
  readonly gpuType: string;
  readonly nominalGpus: number;
  readonly usedGpus: number;
  /** Of those used: above the nominal ones. */
  readonly borrowedGpus: number;
  /** The most that may be borrowed, over all types. */
  readonly borrowingLimit: number;
  /** Of the nominal ones: neither used nor free, so held by others. */
  readonly lentGpus: number;
}

/** By tenant, then by type, in the order of the fleet file; nothing of tenants without a quota. */
export function quotaUse({ shape, leases }: Pick<Ledger, "shape" | "leases">): readonly QuotaUse[] {
  const free = new Map<string, number>();
  const typeOf = new Map<string, string>();
  for (const { hosts } of shape.clusters)
    for (const { id, gpuType, gpuCount } of hosts) {
      typeOf.set(id, gpuType);
      add(free, gpuType, gpuCount);
    }
  const held = new Map<TenantId, Map<string, number>>();
  for (const lease of leases.values()) {
    const byType = held.get(lease.tenant) ?? new Map<string, number>();
    held.set(lease.tenant, byType);
    for (const { host, mask } of takenGpus(lease)) {
      const gpuType = typeOf.get(host) ?? "?";
      add(byType, gpuType, popCount(mask));
      add(free, gpuType, -popCount(mask));
    }
  }
  return shape.tenants.flatMap(({ id: tenant, quota, borrowingLimit }) =>
    Object.entries(quota).map(([gpuType, nominalGpus]) => {
      const of = (counts: ReadonlyMap<string, number> = new Map()): number =>
        gpuType !== "*"
          ? (counts.get(gpuType) ?? 0)
          : [...counts].reduce((sum, [type, n]) => (Object.hasOwn(quota, type) ? sum : sum + n), 0);
      const usedGpus = of(held.get(tenant));
      return {
        ...{ tenant, gpuType, nominalGpus, usedGpus, borrowingLimit },
        borrowedGpus: Math.max(0, usedGpus - nominalGpus),
        lentGpus: Math.max(0, nominalGpus - usedGpus - Math.max(0, of(free))),
      };
    }),
  );
}

function add(counts: Map<string, number>, key: string, gpus: number): void {
  counts.set(key, (counts.get(key) ?? 0) + gpus);
}
