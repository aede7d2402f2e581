/**
 * @file Flows, the units of the service account: a class at the root, a tenant inside a class; and the weight of each.
 *
 * Flows of one parent are siblings and compete with each other alone. A flow's key is `class` or `class tenant`; no class name contains a
 * space, so no two flows share a key. Keys of tenants are made once and kept, because a cycle needs them a thousand times.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { DEFAULT_POLICY, type FleetPolicy, type TenantRule } from "../../../domain/fleet/fleet.ts";
import type { TenantId } from "../../../domain/values/ids.ts";
import type { JobClass } from "../../../domain/job/job.ts";

interface OfFlow {
  readonly class: JobClass;
  readonly tenant: TenantId;
}

export const classFlow = ({ class: jobClass }: OfFlow): string => jobClass;

export function tenantFlow({ class: jobClass, tenant }: OfFlow): string {
  const known = KNOWN_FLOWS.get(jobClass)?.get(tenant);
  if (known !== undefined) return known;
  const flow = `${jobClass} ${tenant}`;
  const ofClass = KNOWN_FLOWS.get(jobClass) ?? new Map<TenantId, string>();
  if (ofClass.size >= MAX_KNOWN_TENANTS) ofClass.clear();
  KNOWN_FLOWS.set(jobClass, ofClass.set(tenant, flow));
  return flow;
}

const KNOWN_FLOWS = new Map<JobClass, Map<TenantId, string>>();
const MAX_KNOWN_TENANTS = 10_000;

/** Empty for a class: the root. */
export const parentFlow = (flow: string): string => flow.slice(0, Math.max(0, flow.indexOf(" ")));

/** The weight of a flow among its siblings, above 0; a tenant without a rule weighs 1. */
export type FlowWeights = (flow: string) => number;

export function flowWeights(
  tenants: readonly TenantRule[],
  { classWeights }: FleetPolicy = DEFAULT_POLICY,
): FlowWeights {
  const ofClass = new Map<string, number>(Object.entries(classWeights));
  const ofTenant = new Map<string, number>(tenants.map(({ id, weight }) => [id, weight]));
  const known = new Map<string, number>();
  return (flow) => {
    const found = known.get(flow);
    if (found !== undefined) return found;
    const weight = weigh(flow);
    known.set(flow, weight);
    return weight;
  };

  function weigh(flow: string): number {
    const space = flow.indexOf(" ");
    return (space < 0 ? ofClass.get(flow) : ofTenant.get(flow.slice(space + 1))) ?? 1;
  }
}
