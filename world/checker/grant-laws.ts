/**
 * @file What a new lease must keep to: the limits of its tenant, and GPUs that are in service.
 *
 * By the ledger before its last change and after it: a plan, and lower limits or a drain that came while it was made, may be of one task of the fleet. Cost: O(hosts)
 * for a ledger whose hosts have changed, O(hosts of the lease) for each new lease.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";

type Lease = Ledger["leases"] extends ReadonlyMap<unknown, infer Each> ? Each : never;

/** By host. */
type Drained = ReadonlyMap<HostId, number>;

const ALL = -1;

export interface GrantLaws {
  readonly changed: (ledger: Pick<Ledger, "shape" | "hosts">) => void;
  /** `has`: of all leases of its tenant by now. */
  readonly granted: (lease: Lease, has: number) => void;
}

export function createGrantLaws(violate: (law: string, message: string) => void): GrantLaws {
  let shapes: readonly Ledger["shape"][] = [];
  let hosts: Ledger["hosts"] | undefined;
  let before: Drained = new Map();
  let now: Drained = new Map();
  return {
    changed: (ledger) => {
      shapes = [shapes.at(-1) ?? ledger.shape, ledger.shape];
      before = now;
      if (ledger.hosts !== hosts) now = drainedIn(ledger.hosts);
      hosts = ledger.hosts;
    },
    granted: ({ id, tenant, gpus }, has) => {
      const quota = shapes
        .map((shape) => quotaProblem(shape, tenant, has))
        .reduce((former, present) => former && present);
      if (quota !== undefined) violate("quotas", quota);
      for (const { host, mask } of gpus) {
        const drained = mask & (before.get(host) ?? 0) & (now.get(host) ?? 0);
        if (drained !== 0)
          violate("drained GPUs rest", `${id} was granted ${host} mask ${drained}, drained before`);
      }
    },
  };
}

const drainedIn = (hosts: Ledger["hosts"]): Drained =>
  new Map([...hosts].map(([id, status]) => [id, status.isDrained ? ALL : drainedMask(status)]));

function quotaProblem(shape: Ledger["shape"], tenant: string, has: number): string | undefined {
  const rule = shape.tenants.find(({ id }) => id === tenant);
  const limits = Object.values(rule?.quota ?? {});
  const most = limits.reduce((sum, limit) => sum + limit, rule?.borrowingLimit ?? 0);
  return limits.length > 0 && has > most
    ? `${tenant} was granted GPUs and has ${has} of ${most}`
    : undefined;
}
