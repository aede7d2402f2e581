/**
 * @file What `bench traces` plays, frozen before any policy was tuned on it: traces, windows, fleets, loads, costs.
 *
 * A *window* is 3,000 jobs in order of arrival. Of a longer trace the three windows begin at a quarter, a half and three quarters of its
 * jobs, or 3,000 before its end: Philly's and PAI's clusters fill slowly at first. A shorter trace is a ring, of which each window is one
 * round: from the first job, from a third on, from two thirds on.
 * Times between arrivals are stretched until the mean number of GPUs in use up to the last arrival would be as the load says, if no job
 * waited (trace-workload.ts); what long jobs have left then comes on top, so an offered load may be far higher. Every job is
 * rigid, of the class training, and may be preempted after the protected time of its class; checkpoint and restart cost as the case says.
 * Hosts have 8 GPUs, racks four hosts, and the spread costs what the product says (spread.ts). Jobs larger than the fleet are left out.
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { DEFAULT_PREEMPTION } from "../../domain/job/job.ts";
import { randomFrom } from "../../lib/random.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import type { TraceJobs } from "../../simulator/readers/trace.ts";
import { traceWorkload } from "../../simulator/readers/trace-workload.ts";
import type { Workload, WorkloadJob } from "../../simulator/workload.ts";
import { FLEET_SIZES, LOADS, TRACE_NAMES, WINDOWS } from "./names.ts";

export type TraceName = (typeof TRACE_NAMES)[number];

/** Where our readers fill in run times or sizes by application: such a trace is stated apart. */
export const FILLED_IN: ReadonlySet<TraceName> = new Set(["sia", "pai"]);

export const RESTARTS = ["2", "60"] as const;
export const LIMITS = ["none", "stated"] as const;

const WINDOW_JOBS = 3_000;
/** The load at which jobs are played with time limits once more, and with a dear restart. */
const USUAL_LOAD = "0.9";
/** A stated limit is between so many times the run time. */
const LEAST_LIMIT = 1;
const MOST_LIMIT = 3;

export interface TraceCase {
  readonly trace: TraceName;
  readonly gpus: (typeof FLEET_SIZES)[number];
  readonly load: (typeof LOADS)[number];
  readonly window: (typeof WINDOWS)[number];
  readonly limits: (typeof LIMITS)[number];
  /** Seconds of a checkpoint, and as many of a restart. */
  readonly restart: (typeof RESTARTS)[number];
}

export const caseName = ({ trace, gpus, load, limits, restart }: TraceCase): string =>
  `${trace} ${gpus} ${load}${limits === "stated" ? " limits" : ""}${restart === "60" ? " 60 s" : ""}`;

/** A third of Helios' jobs want 72 GPUs and more. */
const sizesOf = (trace: TraceName): readonly (typeof FLEET_SIZES)[number][] =>
  FLEET_SIZES.filter((gpus) => trace !== "helios" || gpus !== "64");

const usualSize = (trace: TraceName): (typeof FLEET_SIZES)[number] =>
  trace === "helios" ? "512" : "256";

/** All cases, or those of the default run, each window apart. */
export function casesOf(isFull: boolean): readonly TraceCase[] {
  const cases: TraceCase[] = [];
  for (const trace of TRACE_NAMES)
    for (const gpus of isFull ? sizesOf(trace) : [usualSize(trace)])
      for (const window of isFull ? WINDOWS : (["1"] as const)) {
        const at = { trace, gpus, window };
        for (const load of LOADS) cases.push({ ...at, load, limits: "none", restart: "2" });
        if (!isFull) continue;
        cases.push({ ...at, load: USUAL_LOAD, limits: "stated", restart: "2" });
        cases.push({ ...at, load: USUAL_LOAD, limits: "none", restart: "60" });
      }
  return cases;
}

export const fleetFor = ({ gpus }: TraceCase, { tenants }: Pick<Workload, "tenants">): FleetShape =>
  fleetOf([Number(gpus)], { tenants });

/** `most`: fewer jobs than a window has, for quick looks. */
export function workloadOf(
  trace: TraceJobs,
  its: TraceCase,
  { seed, most = WINDOW_JOBS }: { readonly seed: number; readonly most?: number },
): Workload {
  const jobs = windowOf(trace.jobs, Number(its.window) - 1, most);
  const fleet = fleetOf([Number(its.gpus)]);
  const named = { name: caseName(its), fleet, load: Number(its.load) };
  const workload = traceWorkload({ ...trace, jobs: jobs.map(asRigid) }, named);
  if (its.limits === "none") return workload;
  const random = randomFrom(seed, "limits");
  const limited = workload.jobs.map((job): WorkloadJob => {
    const factor = LEAST_LIMIT + (MOST_LIMIT - LEAST_LIMIT) * random.unit();
    return { ...job, estimateMs: Math.ceil(job.durationMs * factor) };
  });
  return { ...workload, jobs: limited };
}

/** Window `at` of three, its first job at 0. */
export function windowOf(
  jobs: readonly WorkloadJob[],
  at: number,
  most: number,
): readonly WorkloadJob[] {
  if (jobs.length >= most) {
    const quarter = Math.floor(((at + 1) * jobs.length) / (WINDOWS.length + 1));
    const from = Math.min(quarter, jobs.length - most);
    return fromZero(jobs.slice(from, from + most));
  }
  const from = Math.floor((at * jobs.length) / WINDOWS.length);
  const roundMs = (jobs.at(-1)?.submittedAtMs ?? 0) + meanGapMs(jobs);
  const again = jobs
    .slice(0, from)
    .map((job) => ({ ...job, submittedAtMs: job.submittedAtMs + roundMs }));
  return fromZero([...jobs.slice(from), ...again]);
}

const meanGapMs = (jobs: readonly WorkloadJob[]): number =>
  Math.round((jobs.at(-1)?.submittedAtMs ?? 0) / Math.max(1, jobs.length - 1));

function fromZero(jobs: readonly WorkloadJob[]): readonly WorkloadJob[] {
  const firstMs = jobs[0]?.submittedAtMs ?? 0;
  return jobs.map((job) => ({ ...job, submittedAtMs: job.submittedAtMs - firstMs }));
}

/** What the trace says of its run, and nothing that a policy could use beyond. */
const asRigid = ({ id, submittedAtMs, durationMs, gpus, tenant }: WorkloadJob): WorkloadJob => ({
  id,
  submittedAtMs,
  durationMs,
  gpus,
  tenant,
  class: "training",
  preemption: DEFAULT_PREEMPTION.training,
});
