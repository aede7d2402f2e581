/**
 * @file What a simulation writes down while it runs: integrals over the steady window, waits, samples and counts.
 *
 * Groups are the three classes, then the tenants in order of their names; see result.ts for what each figure means.
 * Cost: O(1) an event, O(leases + requests + hosts) a sample.
 */

import { DEFAULT_POLICY, type FleetShape } from "../domain/fleet.ts";
import type { HostId } from "../domain/ids.ts";
import { JOB_CLASSES, type JobClass } from "../domain/job.ts";
import { gpuCountOf, popCount, type Eviction } from "../domain/lease.ts";
import type { Plan } from "../domain/plan.ts";
import { fullMask } from "../lib/bits.ts";
import type { Ledger } from "../scheduling/ledger.ts";
import { openAccounts, type Account, type PhaseState } from "./accounts.ts";
import { dueShares } from "./due.ts";
import type { JobState } from "./job-state.ts";
import type { Sample } from "./result.ts";

export interface Metrics {
  readonly noteGranted: (state: JobState, waitedMs: number) => void;
  readonly notePreempted: (state: JobState, eviction: Eviction) => void;
  readonly noteFailure: (blame: "hosts" | "jobs") => void;
  readonly noteCycle: (plan: Plan, granted: number, refused: number) => void;
  readonly noteEvents: (count: number) => void;
  readonly changeGang: (state: JobState, phase: PhaseState, sign: 1 | -1, nowMs: number) => void;
  readonly lose: (state: JobState, cause: "preemption" | "failure", gpuMs: number) => void;
  readonly changeService: (gpus: number, nowMs: number) => void;
  readonly sample: (nowMs: number, scene: Scene) => void;
  /** Called before anything at or after the window's edge happens. */
  readonly markWindow: (edge: "from" | "to", nowMs: number) => void;
  readonly read: () => Readings;
}

interface Scene {
  readonly ledger: Ledger;
  readonly down: ReadonlySet<HostId>;
}

/** What happened inside the window, and counts over all of the time. */
export interface Readings {
  /** GPU-milliseconds by group. */
  readonly accounts: readonly Account[];
  readonly inServiceGpuMs: number;
  readonly degradedGpuMs: number;
  readonly dueGpuMs: readonly number[];
  /** Milliseconds, by group, of jobs that were submitted in the window. */
  readonly waitsMs: readonly (readonly number[])[];
  readonly preemptions: readonly number[];
  readonly counts: Counts;
  readonly samples: readonly Sample[];
}

export interface Counts {
  evictions: number;
  shrinks: number;
  growths: number;
  degradedGrants: number;
  hostFailures: number;
  jobFailures: number;
  cycles: number;
  grants: number;
  refusals: number;
  candidates: number;
  events: number;
  longestWaitMs: number;
}

interface Marks {
  readonly accounts: readonly Account[];
  readonly inService: number;
  readonly degraded: number;
}

export interface MetricsOptions {
  readonly shape: FleetShape;
  /** In the order of their groups, which come after those of the classes. */
  readonly tenants: readonly string[];
  readonly gpus: number;
}

export const CLASS_GROUPS = JOB_CLASSES.length;

export function openMetrics({ shape, tenants, gpus }: MetricsOptions): Metrics {
  const groups = CLASS_GROUPS + tenants.length;
  const accounts = openAccounts(groups);
  const degraded = openAccounts(1);
  const service = openAccounts(1);
  service.change(0, "kept", { gpus, rate: gpus }, 0);
  let gpusInService = gpus;
  const waitsMs: number[][] = Array.from({ length: groups }, () => []);
  const preemptions = new Array<number>(groups).fill(0);
  const dueSums = new Array<number>(groups).fill(0);
  const samples: Sample[] = [];
  const marks: { from?: Marks; to?: Marks } = {};
  let samplesInWindow = 0;
  let lastSample = { kept: 0, inService: 0, preemptions: 0 };
  const counts: Counts = {
    evictions: 0,
    shrinks: 0,
    growths: 0,
    degradedGrants: 0,
    hostFailures: 0,
    jobFailures: 0,
    cycles: 0,
    grants: 0,
    refusals: 0,
    candidates: 0,
    events: 0,
    longestWaitMs: 0,
  };
  const weights = weightsOf(shape, tenants);
  const groupsOf = ({ classGroup, tenantGroup }: JobState): readonly [number, number] => [
    classGroup,
    tenantGroup,
  ];
  const marksAt = (nowMs: number): Marks => ({
    accounts: accounts.read(nowMs),
    inService: service.read(nowMs)[0]?.held ?? 0,
    degraded: degraded.read(nowMs)[0]?.held ?? 0,
  });

  return {
    noteGranted(state, waitedMs) {
      counts.longestWaitMs = Math.max(counts.longestWaitMs, waitedMs);
      if (state.run?.isDegraded === true) counts.degradedGrants += 1;
      if (!state.isInWindow) return;
      for (const group of groupsOf(state)) waitsMs[group]?.push(waitedMs);
    },
    notePreempted(state, { forJob, keep }) {
      if (forJob === state.jobId) counts.growths += 1;
      else if (keep !== undefined) counts.shrinks += 1;
      else counts.evictions += 1;
      for (const group of groupsOf(state)) preemptions[group] = (preemptions[group] ?? 0) + 1;
    },
    noteFailure(blame) {
      if (blame === "hosts") counts.hostFailures += 1;
      else counts.jobFailures += 1;
    },
    noteCycle({ stats }, granted, refused) {
      counts.cycles += 1;
      counts.grants += granted;
      counts.refusals += refused;
      counts.candidates += stats.candidates;
      counts.events += 2;
    },
    noteEvents(count) {
      counts.events += count;
    },
    changeGang(state, phase, sign, nowMs) {
      const { run } = state;
      if (run === undefined) return;
      const gang = { gpus: sign * run.gpus, rate: sign * run.rate };
      for (const group of groupsOf(state)) accounts.change(group, phase, gang, nowMs);
      if (run.isDegraded) degraded.change(0, phase, gang, nowMs);
    },
    lose(state, cause, gpuMs) {
      for (const group of groupsOf(state)) accounts.lose(group, cause, gpuMs);
    },
    changeService(change, nowMs) {
      gpusInService += change;
      service.change(0, "kept", { gpus: change, rate: change }, nowMs);
    },
    sample(nowMs, scene) {
      const now = marksAt(nowMs);
      const isInWindow = marks.from !== undefined && marks.to === undefined;
      const { sample, due } = sampleOf(nowMs, scene, { weights, tenants, gpusInService });
      if (isInWindow) {
        samplesInWindow += 1;
        due.forEach((gpusDue, group) => {
          dueSums[group] = (dueSums[group] ?? 0) + gpusDue;
        });
      }
      const kept = sumOf(now.accounts.slice(0, CLASS_GROUPS), ({ kept: value }) => value);
      const all = counts.evictions + counts.shrinks + counts.growths;
      const inService = now.inService - lastSample.inService;
      samples.push({
        ...sample,
        preemptions: all - lastSample.preemptions,
        utilisation: inService > 0 ? (kept - lastSample.kept) / inService : 0,
      });
      lastSample = { kept, inService: now.inService, preemptions: all };
    },
    markWindow(edge, nowMs) {
      marks[edge] = marksAt(nowMs);
    },
    read() {
      const { from, to } = marks;
      if (from === undefined || to === undefined)
        throw new Error("the steady window was never reached; was there no arrival?");
      const inServiceGpuMs = to.inService - from.inService;
      const spanMs = gpus > 0 ? inServiceGpuMs / gpus : 0;
      return {
        accounts: to.accounts.map((account, at) => difference(account, from.accounts[at])),
        inServiceGpuMs,
        degradedGpuMs: to.degraded - from.degraded,
        dueGpuMs: dueSums.map((sum) => (sum / Math.max(1, samplesInWindow)) * spanMs),
        waitsMs,
        preemptions,
        counts,
        samples,
      };
    },
  };
}

function difference(to: Account, from: Account | undefined): Account {
  return {
    kept: to.kept - (from?.kept ?? 0),
    starting: to.starting - (from?.starting ?? 0),
    preemption: to.preemption - (from?.preemption ?? 0),
    failure: to.failure - (from?.failure ?? 0),
    spread: to.spread - (from?.spread ?? 0),
    held: to.held - (from?.held ?? 0),
  };
}

interface Weights {
  readonly classes: readonly number[];
  readonly tenants: readonly number[];
}

function weightsOf(
  { policy = DEFAULT_POLICY, tenants: rules }: FleetShape,
  tenants: readonly string[],
): Weights {
  const byId = new Map<string, number>(rules.map(({ id, weight }) => [id, weight]));
  return {
    classes: JOB_CLASSES.map((jobClass) => policy.classWeights[jobClass]),
    tenants: tenants.map((tenant) => byId.get(tenant) ?? 1),
  };
}

interface SampleContext {
  readonly weights: Weights;
  readonly tenants: readonly string[];
  readonly gpusInService: number;
}

function sampleOf(
  nowMs: number,
  { ledger, down }: Scene,
  { weights, tenants, gpusInService }: SampleContext,
): {
  readonly sample: Omit<Sample, "preemptions" | "utilisation">;
  readonly due: readonly number[];
} {
  const gpusHeld = noneByClass();
  const waitingJobs = noneByClass();
  const waitingGpus = noneByClass();
  const taken = new Map<HostId, number>();
  const tenantAt = new Map(tenants.map((tenant, at) => [tenant, at]));
  /** Demand by class, then tenant. */
  const demand = JOB_CLASSES.map(() => tenants.map(() => 0));
  const claim = (jobClass: JobClass, tenant: string, gpus: number): void => {
    const row = demand[JOB_CLASSES.indexOf(jobClass)];
    const at = tenantAt.get(tenant);
    if (row !== undefined && at !== undefined) row[at] = (row[at] ?? 0) + gpus;
  };
  for (const { class: jobClass, tenant, gpus } of ledger.leases.values()) {
    const count = gpuCountOf(gpus);
    gpusHeld[jobClass] += count;
    claim(jobClass, tenant, count);
    for (const { host, mask } of gpus) taken.set(host, (taken.get(host) ?? 0) | mask);
  }
  for (const { class: jobClass, tenant, gang } of ledger.requests.values()) {
    waitingJobs[jobClass] += 1;
    waitingGpus[jobClass] += gang.gpus;
    claim(jobClass, tenant, gang.gpus);
  }
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
  const ofClasses = dueShares(
    gpusInService,
    demand.map((row, at) => ({ weight: weights.classes[at] ?? 1, demand: sumOf(row, (x) => x) })),
  );
  const ofTenants = tenants.map(() => 0);
  demand.forEach((row, at) => {
    const claimants = row.map((value, tenant) => ({
      weight: weights.tenants[tenant] ?? 1,
      demand: value,
    }));
    dueShares(ofClasses[at] ?? 0, claimants).forEach((share, tenant) => {
      ofTenants[tenant] = (ofTenants[tenant] ?? 0) + share;
    });
  });
  const dueGpus = noneByClass();
  JOB_CLASSES.forEach((jobClass, at) => {
    dueGpus[jobClass] = ofClasses[at] ?? 0;
  });
  return {
    sample: {
      atMs: nowMs,
      gpusInService,
      gpusHeld,
      waitingJobs,
      waitingGpus,
      dueGpus,
      freeGpus,
      fragmentation: freeGpus > 0 ? onPartlyTaken / freeGpus : 0,
    },
    due: [...ofClasses, ...ofTenants],
  };
}

const noneByClass = (): Record<JobClass, number> => ({ inference: 0, interactive: 0, training: 0 });

function sumOf<T>(values: readonly T[], of: (value: T) => number): number {
  let sum = 0;
  for (const value of values) sum += of(value);
  return sum;
}
