/**
 * @file The service of every flow of the queue and its deficit: the service due less the service received.
 *
 * Among the active siblings of one parent (flows that wait or run):
 *   deficit_i = w_i · (V̄ − v_i),  V̄ = Σ w·v / Σ w,  in GPU-seconds; so the deficits of siblings sum to zero.
 * A flow that runs and does not wait is owed nothing from the past: it counts at the value to which service-account.ts would raise it. While
 * no flow waits, all deficits are zero. The queue (queue/tawfq.ts) serves the smallest v first, the largest deficit per weight.
 * Cost: O(ledger).
 */

import { byCodeUnit, type TenantId } from "../../domain/values/ids.ts";
import { JOB_CLASSES, type JobClass } from "../../domain/job/job.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import { openBook, settle, type ServiceBook } from "../ledger/rules/service-account.ts";

export interface FlowDeficit {
  /** Among its siblings. */
  readonly weight: number;
  /** Requests. */
  readonly waiting: number;
  readonly runningGpus: number;
  /** Ever, as far as it is remembered. */
  readonly receivedGpuSeconds: number;
  readonly virtualSeconds: number;
  /** Above 0: it is owed service; below 0: it has received more than was due. */
  readonly deficitGpuSeconds: number;
}

export interface ClassDeficit extends FlowDeficit {
  readonly class: JobClass;
  /** By id. */
  readonly tenants: readonly TenantDeficit[];
}

export interface TenantDeficit extends FlowDeficit {
  readonly tenant: TenantId;
}

/** Those that wait or run. */
export function deficitsOf(
  ledger: Pick<Ledger, "service" | "shape" | "leases" | "requests">,
  nowMs: number,
): readonly ClassDeficit[] {
  const book = openBook(ledger);
  settle(book, nowMs);
  const active = activeTenants(ledger);
  const classes = JOB_CLASSES.filter((jobClass) => active.has(jobClass));
  const ofClass = deficitsAmong(book, "", classes);
  return classes.flatMap((jobClass) => {
    const deficit = ofClass.get(jobClass);
    const tenants = [...(active.get(jobClass) ?? [])].sort(byCodeUnit);
    const flowOf = (tenant: TenantId): string => tenantFlow({ class: jobClass, tenant });
    const ofTenant = deficitsAmong(book, jobClass, tenants.map(flowOf));
    const deficits = tenants.flatMap((tenant) => {
      const own = ofTenant.get(flowOf(tenant));
      return own === undefined ? [] : [{ tenant, ...own }];
    });
    return deficit === undefined ? [] : [{ class: jobClass, ...deficit, tenants: deficits }];
  });
}

function activeTenants({
  requests,
  leases,
}: Pick<Ledger, "leases" | "requests">): ReadonlyMap<JobClass, ReadonlySet<TenantId>> {
  const active = new Map<JobClass, Set<TenantId>>();
  const running = [...leases.values()].filter(({ state }) => state !== "vacating");
  for (const { class: jobClass, tenant } of [...requests.values(), ...running]) {
    const tenants = active.get(jobClass);
    if (tenants === undefined) active.set(jobClass, new Set([tenant]));
    else tenants.add(tenant);
  }
  return active;
}

/** `flows`: the active siblings of one parent. */
function deficitsAmong(
  { flows: account, waiting, runningGpus, weightOf }: ServiceBook,
  parent: string,
  flows: readonly string[],
): ReadonlyMap<string, FlowDeficit> {
  const counts = waiting.get(parent);
  const virtualOf = (flow: string): number => account.get(flow)?.virtualSeconds ?? 0;
  const waits = flows.filter((flow) => counts?.has(flow) === true);
  const floor =
    waits.length > 0
      ? waits.reduce((least, flow) => Math.min(least, virtualOf(flow)), Infinity)
      : flows.reduce((greatest, flow) => Math.max(greatest, virtualOf(flow)), 0);
  const siblings = flows.map((flow) => ({
    flow,
    weight: weightOf(flow),
    virtualSeconds: Math.max(virtualOf(flow), floor),
  }));
  const weights = siblings.reduce((sum, { weight }) => sum + weight, 0);
  // From the floor, so that small differences are not lost in what was received in years.
  const mean =
    siblings.reduce(
      (sum, { weight, virtualSeconds }) => sum + weight * (virtualSeconds - floor),
      0,
    ) / weights;
  return new Map(
    siblings.map(({ flow, weight, virtualSeconds }) => [
      flow,
      {
        weight,
        waiting: counts?.get(flow) ?? 0,
        runningGpus: runningGpus.get(flow) ?? 0,
        receivedGpuSeconds: account.get(flow)?.receivedGpuSeconds ?? 0,
        virtualSeconds,
        deficitGpuSeconds: weight * (mean - (virtualSeconds - floor)),
      },
    ]),
  );
}
