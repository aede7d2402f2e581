/**
 * @file Scheduling runs: every cycle's plan in full, and when each job started and ended.
 *
 * Of a plan: its time, the grants with their GPUs, the evictions with their leases, for whom and what stays, the reservations with
 * their GPUs and times, all in order, and when it asks to be called again. What kind of reservation it is and how many candidates
 * were looked at are not digested. Each run is there twice. With the product's limits an answer that is remembered costs less of the work
 * that a cycle may be, so what remembers decides what is still looked at. Without a limit on that work it decides nothing.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { CYCLE_INTERVAL_MS, optionsOf, paperWorkload } from "../../bench/queue/compare.ts";
import { ENTRANTS, type EntrantName } from "../../simulator/entrants/entrants.ts";
import { phillyTrace } from "../../bench/queue/philly.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { LeaseId } from "../../domain/values/ids.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { Policies } from "../../scheduling/cycle/cycle.ts";
import { DECIDE_LIMITS } from "../../scheduling/cycle/decide.ts";
import { openSession } from "../../scheduling/cycle/live-scheduler.ts";
import { schedulerBut, schedulerWith, type OpenScheduler } from "../../simulator/scheduler.ts";
import type { SimulationOptions } from "../../simulator/options.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { readHelios } from "../../simulator/readers/helios.ts";
import { traceWorkload } from "../../simulator/readers/trace-workload.ts";
import type { TraceJobs } from "../../simulator/readers/trace.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { digestOf, type DigestCase, type Digested, type Values } from "./digest.ts";

const SEEDS = [1, 2, 3, 4];
const MIX_JOBS = 800;
const QUICK_MIX_JOBS = 150;
const RIVAL_JOBS = 150;
const TRACE_GPUS = 256;
const TRACE_LOAD = 0.9;
const PHILLY_JOBS = 2_000;
const HELIOS_JOBS = 1_500;
const QUICK_TRACE_JOBS = 150;
const HELIOS = "data/traces/helios-venus-2vc-sept.csv.gz";

const LIMITS = ["the product's limits", "no limit on a cycle's work"] as const;
type Limits = (typeof LIMITS)[number];
const QUICK_LIMITS: Limits = "the product's limits";

export const queueCases: readonly DigestCase[] = [
  ...LIMITS.flatMap((limits) => [
    mixCase({ seed: 1, jobs: QUICK_MIX_JOBS, limits, isQuick: limits === QUICK_LIMITS }),
    ...SEEDS.map((seed) => mixCase({ seed, jobs: MIX_JOBS, limits })),
    ...(["fifo-backfill", "bin-packing", "drf-backfill", "easy", "conservative"] as const).map(
      (entrant) => mixCase({ seed: 1, jobs: RIVAL_JOBS, limits, entrant }),
    ),
    traceCase("philly", { jobs: QUICK_TRACE_JOBS, limits, isQuick: limits === QUICK_LIMITS }),
    traceCase("philly", { jobs: PHILLY_JOBS, limits }),
    traceCase("helios", { jobs: QUICK_TRACE_JOBS, limits, isQuick: limits === QUICK_LIMITS }),
    traceCase("helios", { jobs: HELIOS_JOBS, limits }),
  ]),
];

interface RunWish {
  readonly jobs: number;
  readonly limits: Limits;
  readonly isQuick?: boolean;
}

interface MixWish extends RunWish {
  readonly seed: number;
  readonly entrant?: EntrantName;
}

function mixCase({ seed, jobs, limits, entrant = "tawfq", isQuick = false }: MixWish): DigestCase {
  const who = entrant === "tawfq" ? "" : `, ${entrant}`;
  return {
    name: `frozen mix, seed ${String(seed)}, ${String(jobs)} jobs on 1,798 GPUs${who}, ${limits}`,
    isQuick,
    run: () => {
      const workload = paperWorkload(jobs, seed);
      const costs = { cycleIntervalMs: CYCLE_INTERVAL_MS };
      const options = optionsOf(entrant, { workload, costs, seed });
      return digestOfRun(options, openerFor(limits, ENTRANTS[entrant].policies));
    },
  };
}

function traceCase(
  trace: "philly" | "helios",
  { jobs, limits, isQuick = false }: RunWish,
): DigestCase {
  return {
    name: `${trace}, the first ${String(jobs)} jobs at load ${String(TRACE_LOAD)} on ${String(TRACE_GPUS)} GPUs, ${limits}`,
    isQuick,
    run: async () => {
      const read = trace === "philly" ? await phillyTrace() : heliosTrace();
      if (read.trace === undefined) return { skipped: read.why };
      const about = { name: trace, fleet: fleetOf([TRACE_GPUS]), load: TRACE_LOAD, jobs };
      const workload = traceWorkload(read.trace, about);
      const fleet = fleetOf([TRACE_GPUS], { tenants: workload.tenants });
      const costs = { cycleIntervalMs: CYCLE_INTERVAL_MS };
      const options = { ...optionsOf("tawfq", { workload, costs, seed: 1 }), fleet };
      return digestOfRun(options, openerFor(limits, ENTRANTS.tawfq.policies));
    },
  };
}

function heliosTrace():
  { readonly trace: TraceJobs } | { readonly trace?: undefined; readonly why: string } {
  let packed: Buffer;
  try {
    packed = readFileSync(join(packageRoot(), HELIOS));
  } catch {
    return { why: `${HELIOS} is not here` };
  }
  const trace = readHelios(gunzipSync(packed).toString("utf8"), { source: HELIOS });
  return trace.kind === "jobs" ? { trace } : { why: `${HELIOS} cannot be read` };
}

const openerFor = (limits: Limits, policies: Policies): OpenScheduler =>
  limits === "the product's limits" ? schedulerWith(policies) : withoutLimit(policies);

/** As `schedulerWith`, which tells nobody why it waits either. */
const withoutLimit =
  (policies: Policies): OpenScheduler =>
  (ledger) => {
    const limits = { ...DECIDE_LIMITS, maxCandidates: Infinity, maxReasons: 0, freshReasons: 0 };
    return openSession(ledger, { policies, limits });
  };

function digestOfRun(options: SimulationOptions, open: OpenScheduler): Promise<Digested> {
  return digestOf((values) => {
    const openScheduler: OpenScheduler = (ledger) => {
      const brain = open(ledger);
      return schedulerBut(brain, {
        decide(nowMs) {
          const plan = brain.decide(nowMs);
          values.count(nowMs);
          writePlan(values, plan, brain.ledger.leases);
          return plan;
        },
      });
    };
    const { jobRows = [], endedAtMs } = runSimulation({ ...options, openScheduler });
    values.count(endedAtMs);
    values.list(jobRows, (row) => {
      values.id(row.id);
      values.count(row.firstGrantAtMs ?? undefined);
      values.count(row.grantedGpus);
      values.count(row.queuedMs);
      values.count(row.preemptions);
      values.count(row.endedAtMs ?? undefined);
    });
  });
}

function writePlan(values: Values, plan: Plan, leases: ReadonlyMap<LeaseId, Lease>): void {
  values.list(plan.reserve ?? [], ({ jobId, gpus, usableUntilMs }) => {
    values.id(jobId);
    values.gpus(gpus);
    values.count(usableUntilMs);
  });
  values.list(plan.items, ({ request, slots, gpus, isOpportunistic }) => {
    values.id(request.jobId);
    values.count(request.seq);
    values.count(slots);
    values.gpus(gpus);
    values.claim(isOpportunistic === true);
  });
  values.list(plan.evict ?? [], ({ lease, forJob, keep, lostGpuSeconds }) => {
    values.id(lease);
    values.id(leases.get(lease)?.jobId);
    values.gpus(leases.get(lease)?.gpus);
    values.id(forJob);
    values.gpus(keep);
    values.figure(lostGpuSeconds);
  });
  values.count(plan.wakeAtMs);
}
