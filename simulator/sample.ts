/**
 * @file A sample of the fleet at one moment: GPUs held, requested and due by group, and the shape of the free GPUs.
 *
 * Due shares are those of the live fleet (due-share.ts): over the classes by weight, inside each over its tenants.
 * Cost: O(leases + requests + hosts).
 */

import { DEFAULT_POLICY, type FleetShape } from "../domain/fleet/fleet.ts";
import type { HostId } from "../domain/values/ids.ts";
import { JOB_CLASSES, type JobClass } from "../domain/job/job.ts";
import { gpuCountOf, popCount } from "../domain/lease/lease.ts";
import { fullMask } from "../lib/bits.ts";
import { waterFill } from "../scheduling/fairness/due-share.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import type { Sample } from "./result.ts";

export interface CycleView {
  readonly ledger: Ledger;
  readonly down: ReadonlySet<HostId>;
}

export interface Weights {
  readonly classes: Readonly<Record<JobClass, number>>;
  readonly tenants: ReadonlyMap<string, number>;
}

export function weightsOf({ policy = DEFAULT_POLICY, tenants: rules }: FleetShape): Weights {
  return {
    classes: policy.classWeights,
    tenants: new Map(rules.map(({ id, weight }) => [id, weight])),
  };
}

interface SampleContext {
  readonly weights: Weights;
  readonly tenants: readonly string[];
  readonly gpusInService: number;
}

interface Sampled {
  readonly sample: Omit<Sample, "preemptions" | "utilisation">;
  /** GPUs by group: the classes, then the tenants. */
  readonly due: readonly number[];
}

export function sampleOf(nowMs: number, view: CycleView, context: SampleContext): Sampled {
  const { leases, requests } = view.ledger;
  const gpusHeld = noneByClass();
  const waitingJobs = noneByClass();
  const waitingGpus = noneByClass();
  const taken = new Map<HostId, number>();
  const demand = new Map<JobClass, Map<string, number>>();
  const want = (jobClass: JobClass, tenant: string, gpus: number): void => {
    const row = demand.get(jobClass) ?? new Map<string, number>();
    demand.set(jobClass, row.set(tenant, (row.get(tenant) ?? 0) + gpus));
  };
  for (const { class: jobClass, tenant, gpus } of leases.values()) {
    const count = gpuCountOf(gpus);
    gpusHeld[jobClass] += count;
    want(jobClass, tenant, count);
    for (const { host, mask } of gpus) taken.set(host, (taken.get(host) ?? 0) | mask);
  }
  for (const { class: jobClass, tenant, gang } of requests.values()) {
    waitingJobs[jobClass] += 1;
    waitingGpus[jobClass] += gang.gpus;
    want(jobClass, tenant, gang.gpus);
  }
  const { dueGpus, ofTenants } = dueNow(demand, context);
  return {
    sample: {
      atMs: nowMs,
      gpusInService: context.gpusInService,
      gpusHeld,
      waitingJobs,
      waitingGpus,
      dueGpus,
      ...freeNow(view, taken),
    },
    due: [
      ...JOB_CLASSES.map((jobClass) => dueGpus[jobClass]),
      ...context.tenants.map((tenant) => ofTenants.get(tenant) ?? 0),
    ],
  };
}

function freeNow(
  { ledger, down }: CycleView,
  taken: ReadonlyMap<HostId, number>,
): Pick<Sample, "freeGpus" | "fragmentation"> {
  let freeGpus = 0;
  let onPartlyTaken = 0;
  for (const { hosts } of ledger.shape.clusters) {
    for (const { id, gpuCount } of hosts) {
      if (down.has(id)) continue;
      const free = popCount(fullMask(gpuCount) & ~(taken.get(id) ?? 0));
      freeGpus += free;
      if (free < gpuCount) onPartlyTaken += free;
    }
  }
  return { freeGpus, fragmentation: freeGpus > 0 ? onPartlyTaken / freeGpus : 0 };
}

function dueNow(
  demand: ReadonlyMap<JobClass, ReadonlyMap<string, number>>,
  { weights, gpusInService }: SampleContext,
): {
  readonly dueGpus: Readonly<Record<JobClass, number>>;
  readonly ofTenants: ReadonlyMap<string, number>;
} {
  const classes = [...demand].map(([key, row]) => ({
    key,
    weight: weights.classes[key],
    gpus: [...row.values()].reduce((sum, gpus) => sum + gpus, 0),
  }));
  const due = waterFill(classes, gpusInService);
  const dueGpus = noneByClass();
  const ofTenants = new Map<string, number>();
  for (const jobClass of JOB_CLASSES) {
    dueGpus[jobClass] = due.get(jobClass) ?? 0;
    const tenants = [...(demand.get(jobClass) ?? [])].map(([key, gpus]) => ({
      key,
      weight: weights.tenants.get(key) ?? 1,
      gpus,
    }));
    for (const [tenant, gpus] of waterFill(tenants, dueGpus[jobClass]))
      ofTenants.set(tenant, (ofTenants.get(tenant) ?? 0) + gpus);
  }
  return { dueGpus, ofTenants };
}

const noneByClass = (): Record<JobClass, number> => ({ inference: 0, interactive: 0, training: 0 });
