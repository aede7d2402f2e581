/**
 * @file Flows: whose service is accounted together. A class at the root, a tenant inside a class; and by which weight each shares.
 *
 * Flows of one parent are siblings and compete with each other alone.
 */

import { DEFAULT_POLICY, type FleetPolicy, type TenantRule } from "../../domain/fleet.ts";
import type { TenantId } from "../../domain/ids.ts";
import type { JobClass } from "../../domain/job.ts";

interface OfFlow {
  readonly class: JobClass;
  readonly tenant: TenantId;
}

export const classFlow = ({ class: jobClass }: OfFlow): string => jobClass;

/** A class has no space in its name, so no two flows share a key. */
export const tenantFlow = ({ class: jobClass, tenant }: OfFlow): string => `${jobClass} ${tenant}`;

/** The weights of both levels; above 0. */
export interface FlowWeights {
  readonly ofClass: (jobClass: JobClass) => number;
  readonly ofTenant: (tenant: TenantId) => number;
}

/** A tenant without a rule weighs 1. */
export function flowWeights(
  tenants: readonly TenantRule[],
  { classWeights }: FleetPolicy = DEFAULT_POLICY,
): FlowWeights {
  const weights = new Map(tenants.map(({ id, weight }) => [id, weight]));
  return {
    ofClass: (jobClass) => classWeights[jobClass],
    ofTenant: (tenant) => weights.get(tenant) ?? 1,
  };
}
