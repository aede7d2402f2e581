/**
 * @file The lives of the simulated jobs: each asks, starts on its lease, makes progress, and ends, crashes or is preempted.
 *
 * A grant takes effect when its plan is applied, and so does an order to give GPUs up. A preempted job stops, writes its checkpoint,
 * sends `end`, and asks again under the next number with the time of its first submission and the work that is left.
 * Cost: O(log n) an event.
 */

import { DEFAULT_POLICY } from "../domain/fleet/fleet.ts";
import { gpuCountOf, type Lease } from "../domain/lease/lease.ts";
import { limitsOf } from "../domain/lease/preemption-limits.ts";
import type { HostId, JobId, LeaseId } from "../domain/values/ids.ts";
import type { Random } from "../lib/random.ts";
import type { PhaseState } from "./accounts.ts";
import type { Agenda } from "./agenda.ts";
import type { FleetCycles } from "./fleet-cycles.ts";
import { doneGpuMs, endOf, newJob, requestOf, unsavedGpuMs, type JobState } from "./job-state.ts";
import type { Metrics } from "./metrics.ts";
import type { FailureRates, RateOf, SimulationCosts } from "./options.ts";
import type { Scheduler } from "./scheduler.ts";
import type { WorkloadJob } from "./workload.ts";

/** The groups that a job's figures are counted under. */
export type PlaceOf = (
  job: WorkloadJob,
) => Pick<JobState, "classGroup" | "tenantGroup" | "isInWindow">;

interface JobRuns {
  readonly arrive: (job: WorkloadJob) => void;
  readonly start: (lease: Lease) => void;
  readonly progress: (job: JobState) => void;
  readonly finish: (job: JobState) => void;
  readonly crash: (job: JobState, blame: "hosts" | "jobs") => void;
  /** Every job that runs on the host. */
  readonly crashOn: (host: HostId) => void;
  /** The order to give up a lease is on its way to the job. */
  readonly order: (lease: LeaseId) => void;
  /** The order has arrived: the job stops and writes its checkpoint. */
  readonly yieldGpus: (job: JobState, lease: LeaseId) => void;
  /** The job's GPUs are free, and it asks for new ones. */
  readonly askAgain: (job: JobState) => void;
  readonly states: readonly JobState[];
  readonly counts: JobCounts;
}

export interface JobCounts {
  readonly arrived: number;
  readonly ended: number;
  readonly running: number;
}

interface JobRunsOptions {
  readonly costs: SimulationCosts;
  readonly failures: FailureRates;
  readonly scheduler: Scheduler;
  readonly metrics: Metrics;
  readonly rateOf: RateOf;
  readonly placeOf: PlaceOf;
  readonly random: Random;
  readonly agenda: Agenda;
  readonly cycles: FleetCycles;
}

export function openJobRuns(options: JobRunsOptions): JobRuns {
  const { costs, failures, scheduler, metrics, agenda, cycles } = options;
  const { nowMs } = agenda;
  const states: JobState[] = [];
  const byId = new Map<JobId, JobState>();
  const counts = { arrived: 0, ended: 0, running: 0 };

  function arrive(job: WorkloadJob): void {
    const state = newJob(job, options.placeOf(job));
    states.push(state);
    byId.set(state.jobId, state);
    counts.arrived += 1;
    ask(state);
  }

  function ask(state: JobState): void {
    const limits = limitsOf(scheduler.ledger.shape.policy ?? DEFAULT_POLICY);
    cycles.send(requestOf(state, { checkpointMs: costs.checkpointMs, ...(limits && { limits }) }));
  }

  function start(lease: Lease): void {
    const state = byId.get(lease.jobId);
    if (state === undefined) return;
    const { job, requestedAtMs, nextStart } = state;
    const gpus = gpuCountOf(lease.gpus);
    const startMs = nextStart === "starting" ? costs.startMs : costs.restartMs;
    const progressFromMs = nowMs() + costs.deliveryMs + startMs;
    const rate = options.rateOf(job, lease, scheduler.ledger.leases.values());
    const phase: PhaseState = progressFromMs > nowMs() ? nextStart : "kept";
    const isDegraded = gpus < job.gpus;
    state.run = { lease: lease.id, gpus, rate, isDegraded, progressFromMs, phase };
    state.stage = "running";
    state.version += 1;
    counts.running += 1;
    const waitedMs = nowMs() - requestedAtMs;
    state.queuedMs += waitedMs;
    if (state.firstGrantAtMs === undefined) {
      state.firstGrantAtMs = nowMs();
      state.grantedGpus = gpus;
    }
    metrics.noteGranted(state, waitedMs);
    metrics.addGang(state, phase, nowMs());
    enterEnds(state, { progressFromMs, rate, gpus, phase });
  }

  /** Enters the events that end the run unless something else changes it first. */
  function enterEnds(
    state: JobState,
    run: Pick<NonNullable<JobState["run"]>, "progressFromMs" | "rate" | "gpus" | "phase">,
  ): void {
    const { progressFromMs, rate, gpus, phase } = run;
    const ofJob = { job: state, version: state.version };
    const endAtMs = progressFromMs + state.leftGpuMs / rate;
    if (phase !== "kept") agenda.enter(progressFromMs, { kind: "progress", ...ofJob });
    agenda.enter(endAtMs, { kind: "end", ...ofJob });
    if (failures.jobMtbfGpuMs === Infinity) return;
    const crashAtMs = progressFromMs + options.random.exponential(failures.jobMtbfGpuMs) / gpus;
    if (crashAtMs < endAtMs) agenda.enter(crashAtMs, { kind: "crash", ...ofJob });
  }

  function enterPhase(state: JobState, phase: PhaseState): void {
    const { run } = state;
    if (run === undefined) return;
    metrics.removeGang(state, run.phase, nowMs());
    run.phase = phase;
    metrics.addGang(state, phase, nowMs());
  }

  function endRun(state: JobState): void {
    const { run } = state;
    if (run === undefined) return;
    metrics.removeGang(state, run.phase, nowMs());
    counts.running -= 1;
    delete state.run;
  }

  function order(lease: LeaseId): void {
    const held = scheduler.ledger.leases.get(lease);
    const state = held && byId.get(held.jobId);
    if (held?.eviction === undefined || held.eviction.isSent || state?.stage !== "running") return;
    if (costs.deliveryMs === 0) return yieldGpus(state, lease);
    const { version } = state;
    agenda.enter(nowMs() + costs.deliveryMs, { kind: "order", lease, job: state, version });
  }

  function yieldGpus(state: JobState, id: LeaseId): void {
    const eviction = scheduler.ledger.leases.get(id)?.eviction;
    const { run, job } = state;
    if (eviction === undefined || run === undefined) return;
    cycles.report({ kind: "evictions-sent", sent: [id], gone: [], nowMs: nowMs() });
    state.preemptions += 1;
    if (eviction.forJob !== state.jobId) state.gaveWay += 1;
    const isOpportunistic = scheduler.ledger.leases.get(id)?.opportunistic !== undefined;
    metrics.notePreempted(state, eviction, isOpportunistic);
    const hasCheckpoint = job.hasNoCheckpoint === undefined;
    const done = doneGpuMs(run, nowMs());
    if (hasCheckpoint) state.leftGpuMs -= done;
    else metrics.lose(state, "preemption", done);
    state.stage = "yielding";
    state.version += 1;
    state.nextStart = "preemption";
    enterPhase(state, "preemption");
    const { version } = state;
    const stopMs = hasCheckpoint ? costs.checkpointMs : 0;
    agenda.enter(nowMs() + stopMs, { kind: "yielded", job: state, version });
  }

  function askAgain(state: JobState): void {
    cycles.send(endOf(state));
    endRun(state);
    state.stage = "waiting";
    state.version += 1;
    state.seq += 1;
    state.requestedAtMs = nowMs();
    ask(state);
  }

  function crash(state: JobState, blame: "hosts" | "jobs"): void {
    const { run, job } = state;
    if (run === undefined) return;
    state.failures += 1;
    metrics.noteFailure(blame);
    if (state.stage === "running") {
      const lost = unsavedGpuMs(run, nowMs(), job.checkpointIntervalMs);
      state.leftGpuMs -= doneGpuMs(run, nowMs()) - lost;
      metrics.lose(state, "failure", lost);
    }
    state.nextStart = "failure";
    askAgain(state);
  }

  function crashOn(host: HostId): void {
    for (const { jobId, gpus } of [...scheduler.ledger.leases.values()]) {
      const state = byId.get(jobId);
      if (state?.run !== undefined && gpus.some((part) => part.host === host))
        crash(state, "hosts");
    }
  }

  function finish(state: JobState): void {
    cycles.send(endOf(state));
    endRun(state);
    state.stage = "ended";
    state.leftGpuMs = 0;
    state.version += 1;
    state.endedAtMs = nowMs();
    counts.ended += 1;
  }

  return {
    arrive,
    start,
    progress: (state) => enterPhase(state, "kept"),
    finish,
    crash,
    crashOn,
    order,
    yieldGpus,
    askAgain,
    states,
    counts,
  };
}
