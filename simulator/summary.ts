/** @file The result document of a finished simulation, from its readings; see result.ts for the definitions. */

import { JOB_CLASSES } from "../domain/job/job.ts";
import type { Account } from "./accounts.ts";
import type { Engine } from "./engine.ts";
import { IDLE_CAUSES, mapCauses } from "./idle.ts";
import type { JobState } from "./job-state.ts";
import { CLASS_GROUPS, type Metrics, type Readings } from "./metrics.ts";
import type { FailureRates, SimulationCosts, SimulationOptions } from "./options.ts";
import type { GpuSeconds, GroupFigures, JobRow, SimulationResult } from "./result.ts";
import { spreadOf } from "./spread.ts";
import { gpuSecondsOf } from "./workload.ts";

interface Finished {
  readonly options: SimulationOptions;
  readonly costs: SimulationCosts;
  readonly failures: FailureRates;
  readonly window: { readonly fromMs: number; readonly toMs: number };
  readonly tenants: readonly string[];
  readonly gpus: number;
  readonly engine: Engine;
  readonly metrics: Metrics;
}

export function summarise(finished: Finished): SimulationResult {
  const { options, costs, failures, window, tenants, gpus, engine, metrics } = finished;
  const { fleet, workload, starvedAfterMs } = options;
  const { states, counts } = engine;
  const readings = metrics.read();
  const gpuSeconds = gpuSecondsIn(readings);
  const training = readings.accounts[JOB_CLASSES.indexOf("training")];
  const spanMs =
    (workload.jobs.at(-1)?.submittedAtMs ?? 0) - (workload.jobs[0]?.submittedAtMs ?? 0);
  const offered = gpuSecondsOf(workload.jobs);
  const nowMs = engine.nowMs();
  const waits = states.map((state) => oldestWaitMs(state, nowMs));
  const starved = states.filter((_, at) => (waits[at] ?? 0) > (starvedAfterMs ?? Infinity));
  const { counts: noted } = readings;
  return {
    kind: "simulation",
    version: 1,
    policy: options.policy,
    seed: options.seed,
    costs,
    failureRates: {
      hostMtbfMs: finiteOrNull(failures.hostMtbfMs),
      repairMs: finiteOrNull(failures.repairMs),
      jobMtbfGpuMs: finiteOrNull(failures.jobMtbfGpuMs),
    },
    workload: {
      name: workload.name,
      jobs: workload.jobs.length,
      gpuSeconds: offered,
      offeredLoad: spanMs > 0 ? (offered * 1_000) / (gpus * spanMs) : 0,
      notes: workload.notes,
    },
    fleet: {
      gpus,
      hosts: fleet.clusters.reduce((sum, { hosts }) => sum + hosts.length, 0),
      sites: new Set(fleet.clusters.map(({ site }) => site)).size,
    },
    endedAtMs: nowMs,
    window,
    jobs: {
      submitted: counts.arrived,
      ended: counts.ended,
      running: counts.running,
      waiting: counts.arrived - counts.ended - counts.running,
    },
    utilisation: ratio(gpuSeconds.kept + gpuSeconds.spreadLoss, gpuSeconds.inService),
    utilisationAtBestSpread: ratio(gpuSeconds.kept, gpuSeconds.inService),
    occupancy: ratio(gpuSeconds.inService - gpuSeconds.idle, gpuSeconds.inService),
    trainingLost:
      training === undefined
        ? 0
        : ratio(training.preemption, training.kept + training.spread + training.preemption),
    gpuSeconds,
    idle: idleSecondsIn(readings, gpuSeconds.idle),
    classes: JOB_CLASSES.map((name, group) => figuresOf(name, group, { states, readings, nowMs })),
    tenants: tenants.map((name, at) =>
      figuresOf(name, CLASS_GROUPS + at, { states, readings, nowMs }),
    ),
    preemption: {
      evictions: noted.evictions,
      shrinks: noted.shrinks,
      growths: noted.growths,
      recalls: noted.recalls,
    },
    degradation: { grants: noted.degradedGrants, heldGpuSeconds: readings.degradedGpuMs / 1_000 },
    failures: { hosts: noted.hostFailures, jobs: noted.jobFailures },
    starved: {
      boundMs: starvedAfterMs === undefined ? null : finiteOrNull(starvedAfterMs),
      jobs: starved.length,
      tenants: new Set(starved.map(({ job }) => job.tenant)).size,
      longestWaitMs: waits.reduce((most, wait) => Math.max(most, wait), noted.longestWaitMs),
    },
    decisions: {
      cycles: noted.cycles,
      grants: noted.grants,
      refusals: noted.refusals,
      candidates: noted.candidates,
      events: noted.events,
    },
    samples: readings.samples,
    ...(options.keepsJobs === true && { jobRows: states.map(rowOf) }),
  };
}

function gpuSecondsIn({ accounts, inServiceGpuMs }: Readings): GpuSeconds {
  const classes = accounts.slice(0, CLASS_GROUPS);
  const sum = (of: (account: Account) => number): number =>
    classes.reduce((total, account) => total + of(account), 0) / 1_000;
  const inService = inServiceGpuMs / 1_000;
  return {
    inService,
    kept: sum(({ kept }) => kept),
    spreadLoss: sum(({ spread }) => spread),
    preemptionLoss: sum(({ preemption }) => preemption),
    failureLoss: sum(({ failure }) => failure),
    starting: sum(({ starting }) => starting),
    idle: inService - sum(({ held }) => held),
  };
}

function idleSecondsIn({ idleGpuMs }: Readings, all: number): SimulationResult["idle"] {
  const known = mapCauses((cause) => idleGpuMs[cause] / 1_000);
  const sum = IDLE_CAUSES.reduce((total, cause) => total + known[cause], 0);
  return { ...known, deciding: Math.max(0, all - sum) };
}

interface FiguresContext {
  readonly states: readonly JobState[];
  readonly readings: Readings;
  readonly nowMs: number;
}

function figuresOf(
  name: string,
  group: number,
  { states, readings, nowMs }: FiguresContext,
): GroupFigures {
  const own = states.filter(
    ({ classGroup, tenantGroup, isInWindow }) =>
      isInWindow && (classGroup === group || tenantGroup === group),
  );
  const account = readings.accounts[group];
  const unanswered = own.filter(({ stage }) => stage === "waiting");
  const openMs = unanswered.map(({ requestedAtMs }) => nowMs - requestedAtMs);
  const neverMs = unanswered
    .filter(({ firstGrantAtMs }) => firstGrantAtMs === undefined)
    .map(({ job }) => nowMs - job.submittedAtMs);
  return {
    name,
    submitted: own.length,
    ended: own.filter(({ stage }) => stage === "ended").length,
    wait: spreadOf([...(readings.waitsMs[group] ?? []), ...openMs]),
    firstWait: spreadOf([
      ...own.flatMap(({ job, firstGrantAtMs }) =>
        firstGrantAtMs === undefined ? [] : [firstGrantAtMs - job.submittedAtMs],
      ),
      ...neverMs,
    ]),
    queued: spreadOf(
      own.map(({ queuedMs, stage, requestedAtMs }) =>
        stage === "waiting" ? queuedMs + nowMs - requestedAtMs : queuedMs,
      ),
    ),
    completion: spreadOf(
      own.flatMap(({ job, endedAtMs }) =>
        endedAtMs === undefined ? [] : [endedAtMs - job.submittedAtMs],
      ),
    ),
    keptGpuSeconds: (account?.kept ?? 0) / 1_000,
    heldGpuSeconds: (account?.held ?? 0) / 1_000,
    dueGpuSeconds: (readings.dueGpuMs[group] ?? 0) / 1_000,
    preemptions: readings.preemptions[group] ?? 0,
  };
}

/** The longest that a job's first request waited or has waited. */
const oldestWaitMs = ({ job, firstGrantAtMs, stage }: JobState, nowMs: number): number =>
  firstGrantAtMs !== undefined
    ? firstGrantAtMs - job.submittedAtMs
    : stage === "waiting"
      ? nowMs - job.submittedAtMs
      : 0;

const rowOf = ({ job, firstGrantAtMs, endedAtMs, ...state }: JobState): JobRow => ({
  id: job.id,
  class: job.class,
  tenant: job.tenant,
  gpus: job.gpus,
  submittedAtMs: job.submittedAtMs,
  durationMs: job.durationMs,
  firstGrantAtMs: firstGrantAtMs ?? null,
  endedAtMs: endedAtMs ?? null,
  queuedMs: state.queuedMs,
  preemptions: state.preemptions,
  failures: state.failures,
  grantedGpus: state.grantedGpus,
});

const ratio = (part: number, whole: number): number => (whole > 0 ? part / whole : 0);
const finiteOrNull = (value: number): number | null => (Number.isFinite(value) ? value : null);
