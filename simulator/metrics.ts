/**
 * @file The figures that a simulation collects while it runs: integrals over the steady window, waits, samples and counts.
 *
 * Groups are the three classes, then the tenants in order of their names; see result.ts for what each figure means.
 * Cost: O(1) an event, O(leases + requests + hosts) a sample.
 */

import type { FleetShape } from "../domain/fleet/fleet.ts";
import { JOB_CLASSES } from "../domain/job/job.ts";
import type { Eviction } from "../domain/lease/lease.ts";
import type { Plan } from "../domain/lease/plan.ts";
import { openAccounts, type Account, type GangRate, type PhaseState } from "./accounts.ts";
import type { Scheduler } from "./scheduler.ts";
import { mapCauses, openIdleBook, type IdleTime } from "./idle.ts";
import type { JobState } from "./job-state.ts";
import type { Sample } from "./result.ts";
import { sampleOf, weightsOf, type CycleView } from "./sample.ts";

export interface Metrics {
  readonly noteGranted: (state: JobState, waitedMs: number) => void;
  /** `isOpportunistic`: the job had started opportunistically and is recalled. */
  readonly notePreempted: (state: JobState, eviction: Eviction, isOpportunistic: boolean) => void;
  readonly noteFailure: (blame: "hosts" | "jobs") => void;
  readonly noteCycle: (plan: Plan, granted: number, refused: number) => void;
  readonly noteEvents: (count: number) => void;
  /** After each change by a cycle. */
  readonly noteLedger: (seen: Pick<Scheduler, "ledger" | "leased">, nowMs: number) => void;
  /** The job's gang is in this phase from now on, until it is removed from it. */
  readonly addGang: (state: JobState, phase: PhaseState, nowMs: number) => void;
  readonly removeGang: (state: JobState, phase: PhaseState, nowMs: number) => void;
  /** Progress of the present run that is lost, in GPU-milliseconds at the best spread. */
  readonly lose: (state: JobState, cause: "preemption" | "failure", gpuMs: number) => void;
  readonly changeService: (gpus: number, nowMs: number) => void;
  readonly sample: (nowMs: number, view: CycleView) => void;
  /** Called before anything at or after the window's edge happens. */
  readonly markWindow: (edge: "from" | "to", nowMs: number) => void;
  readonly read: () => Readings;
}

/** Figures of the steady window, and counts over the whole simulation. */
export interface Readings {
  /** GPU-milliseconds by group. */
  readonly accounts: readonly Account[];
  readonly inServiceGpuMs: number;
  readonly idleGpuMs: IdleTime;
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
  recalls: number;
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
  readonly idle: IdleTime;
  readonly accounts: readonly Account[];
  readonly inService: number;
  readonly degraded: number;
}

interface MetricsOptions {
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
  const idle = openIdleBook();
  service.change(0, { phase: "kept", gpus, rate: gpus }, 0);
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
    recalls: 0,
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
  const weights = weightsOf(shape);
  const groupsOf = ({ classGroup, tenantGroup }: JobState): readonly [number, number] => [
    classGroup,
    tenantGroup,
  ];
  const changeGang = (state: JobState, gang: GangRate, nowMs: number): void => {
    for (const group of groupsOf(state)) accounts.change(group, gang, nowMs);
    if (state.run?.isDegraded === true) degraded.change(0, gang, nowMs);
  };
  const marksAt = (nowMs: number): Marks => ({
    idle: idle.read(nowMs),
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
    notePreempted(state, { forJob, keep }, isOpportunistic) {
      if (forJob === state.jobId) counts.growths += 1;
      else if (isOpportunistic) counts.recalls += 1;
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
    noteLedger(seen, nowMs) {
      idle.note(seen, gpusInService, nowMs);
    },
    noteEvents(count) {
      counts.events += count;
    },
    addGang(state, phase, nowMs) {
      const { gpus = 0, rate = 0 } = state.run ?? {};
      changeGang(state, { phase, gpus, rate }, nowMs);
    },
    removeGang(state, phase, nowMs) {
      const { gpus = 0, rate = 0 } = state.run ?? {};
      changeGang(state, { phase, gpus: -gpus, rate: -rate }, nowMs);
    },
    lose(state, cause, gpuMs) {
      const { gpus = 1, rate = 1 } = state.run ?? {};
      const lost = { progress: gpuMs, held: (gpuMs * gpus) / rate };
      for (const group of groupsOf(state)) accounts.lose(group, cause, lost);
    },
    changeService(change, nowMs) {
      gpusInService += change;
      service.change(0, { phase: "kept", gpus: change, rate: change }, nowMs);
    },
    sample(nowMs, view) {
      const now = marksAt(nowMs);
      const isInWindow = marks.from !== undefined && marks.to === undefined;
      const { sample, due } = sampleOf(nowMs, view, { weights, tenants, gpusInService });
      if (isInWindow) {
        samplesInWindow += 1;
        due.forEach((gpusDue, group) => {
          dueSums[group] = (dueSums[group] ?? 0) + gpusDue;
        });
      }
      const kept = keptOf(now.accounts.slice(0, CLASS_GROUPS));
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
        idleGpuMs: mapCauses((cause) => to.idle[cause] - from.idle[cause]),
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

const keptOf = (accounts: readonly Account[]): number =>
  accounts.reduce((sum, { kept, spread }) => sum + kept + spread, 0);
