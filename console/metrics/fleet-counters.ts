/**
 * @file Counters and histograms of a fleet, folded from its history event by event: so they miss nothing, whoever died in between.
 *
 * They begin with the run of the fleet's workflow that was read first, and a console that starts again during that run counts the same.
 * Names and units are OpenMetrics'; no label has a job's name. Cost of an event: O(what it granted, evicted, ended).
 */

import { Counter, Histogram, type OpenMetricsContentType, type Registry } from "prom-client";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { gpuCountOf, type Eviction, type Lease } from "../../domain/lease/lease.ts";
import { leaseId, token as tokenOf } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { endedRuns } from "./ended-runs.ts";
import { ESTIMATE_RESULTS, judgedEstimates } from "./judged-estimates.ts";
import { quotaClock } from "./quota-clock.ts";

/** 10 ms to a week, in steps of about three. */
const WAIT_BUCKETS: readonly number[] = [
  0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_600, 10_800, 36_000, 86_400, 259_200,
  604_800,
];
/** A second to a week, for each of up to 200 tenants. */
const TENANT_BUCKETS: readonly number[] = [1, 60, 600, 3_600, 21_600, 86_400, 604_800];
/** A second to a week. */
const RUN_BUCKETS: readonly number[] = [
  1, 10, 60, 300, 1_800, 3_600, 10_800, 36_000, 86_400, 259_200, 604_800,
];

/** A millisecond to ten seconds: the deadline of a decision is 0.2 s. */
const CYCLE_BUCKETS: readonly number[] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 1, 3, 10];

const CYCLE_PARTS = ["decide", "apply", "deliver"] as const;

export interface FleetCounters {
  readonly fold: (folded: Folded) => void;
}

export function fleetCounters(
  registry: Registry<OpenMetricsContentType>,
  tenantOf: (tenant: string) => string,
): FleetCounters {
  const counters = countersOf(registry);
  const { requests, cycles, candidates, cycleTimes, cycleParts, runs, waits } = counters;
  /** When the leases that are being given up were ordered to be. */
  const ordered = new Map<Lease["id"], number>();
  const quotaWaits = quotaClock();
  beginAtZero(counters);
  return { fold };

  function fold({ event, before, ledger, tookMs, writtenMs }: Folded): void {
    countFreed(before, ledger, event.nowMs);
    for (const result of judgedEstimates(before.ownEstimates, ledger.ownEstimates))
      counters.estimates.inc({ result });
    requests.inc(Math.max(0, ledger.nextArrival - before.nextArrival));
    for (const note of endedRuns(before.runs, ledger.runs))
      runs.observe({ class: note.class }, (note.endedAtMs - note.grantedAtMs) / 1_000);
    if (event.kind === "delivered") {
      if (tookMs !== undefined) cycleParts.observe({ part: "deliver" }, tookMs / 1_000);
      for (const id of event.accepted) {
        const lease = before.leases.get(id);
        if (lease === undefined) continue;
        const seconds = Math.max(0, event.nowMs - lease.grantedAtMs) / 1_000;
        waits.observe({ class: lease.class, phase: "deliver" }, seconds);
      }
    }
    if (event.kind !== "plan") return;
    const { plan, nowMs } = event;
    quotaWaits.look(plan, ledger, nowMs);
    const { method } = plan.stats;
    cycles.inc({ method });
    if (tookMs !== undefined) {
      cycleTimes.observe({ method }, tookMs / 1_000);
      cycleParts.observe({ part: "decide" }, tookMs / 1_000);
    }
    if (writtenMs !== undefined) cycleParts.observe({ part: "apply" }, writtenMs / 1_000);
    candidates.inc({ method }, plan.stats.candidates);
    const taken = grantedBy(before, ledger);
    for (const lease of taken) countGrant(lease, nowMs);
    countItems(counters.items, "grant", { asked: plan.items.length, taken: taken.length });
    countEvictions(before, ledger, { evict: plan.evict ?? [], nowMs });
  }

  /** A lease that was ordered before the first event counts from the delivery of its order. */
  function countFreed(before: Ledger, ledger: Ledger, nowMs: number): void {
    if (before.leases === ledger.leases) return;
    for (const [id, lease] of before.leases) {
      const { class: jobClass, eviction } = lease;
      if (eviction === undefined) continue;
      const after = ledger.leases.get(id);
      if (after?.eviction !== undefined) continue;
      const fromMs = ordered.get(id) ?? eviction.atMs;
      ordered.delete(id);
      if (after !== undefined) continue;
      const labels = { class: jobClass, reason: reasonOf(lease, eviction) };
      counters.evictionTimes.observe(labels, Math.max(0, nowMs - fromMs) / 1_000);
    }
  }

  function countGrant(lease: Lease, nowMs: number): void {
    const { grants, granted, tenantWaits } = counters;
    const seconds = Math.max(0, nowMs - lease.requestedAtMs) / 1_000;
    const tenant = tenantOf(lease.tenant);
    grants.inc({ class: lease.class, tenant });
    granted.inc({ class: lease.class }, gpuCountOf(lease.gpus));
    waits.observe({ class: lease.class, phase: "queue" }, seconds);
    const ofQuota = Math.min(seconds, quotaWaits.taken(lease.jobId, nowMs) / 1_000);
    waits.observe({ class: lease.class, phase: "quota" }, ofQuota);
    tenantWaits.observe({ tenant }, seconds);
  }

  function countEvictions(
    before: Ledger,
    ledger: Ledger,
    {
      evict,
      nowMs,
    }: { readonly evict: readonly { readonly lease: Lease["id"] }[]; readonly nowMs: number },
  ): void {
    const { preemptions, lost } = counters;
    let taken = 0;
    for (const { lease: id } of evict) {
      const eviction = ledger.leases.get(id)?.eviction;
      const former = before.leases.get(id);
      if (eviction === undefined || former === undefined || former.eviction !== undefined) continue;
      taken += 1;
      ordered.set(id, nowMs);
      const reason = reasonOf(former, eviction);
      preemptions.inc({ class: former.class, reason });
      lost.inc({ class: former.class, reason }, eviction.lostGpuSeconds);
    }
    countItems(counters.items, "evict", { asked: evict.length, taken });
  }
}

function countItems(
  items: Counter<"kind" | "result">,
  kind: "grant" | "evict",
  { asked, taken }: { readonly asked: number; readonly taken: number },
): void {
  items.inc({ kind, result: "applied" }, taken);
  items.inc({ kind, result: "refused" }, Math.max(0, asked - taken));
}

const reasonOf = ({ jobId }: Lease, { forJob }: Eviction): "growth" | "preemption" =>
  forJob === jobId ? "growth" : "preemption";

/** Series whose labels are known are there from the first scrape on, so that their first step counts. */
function beginAtZero(counters: Counters): void {
  const { preemptions, lost, cycles, items, waits, runs, evictionTimes, cycleTimes } = counters;
  for (const part of CYCLE_PARTS) counters.cycleParts.zero({ part });
  for (const result of ESTIMATE_RESULTS) counters.estimates.inc({ result }, 0);
  for (const name of JOB_CLASSES) {
    for (const phase of ["queue", "quota", "deliver"]) waits.zero({ class: name, phase });
    for (const reason of ["preemption", "growth"]) {
      preemptions.inc({ class: name, reason }, 0);
      lost.inc({ class: name, reason }, 0);
      evictionTimes.zero({ class: name, reason });
    }
    runs.zero({ class: name });
  }
  for (const method of ["decide", "baseline"]) {
    cycles.inc({ method }, 0);
    cycleTimes.zero({ method });
  }
  for (const kind of ["grant", "evict"])
    for (const result of ["applied", "refused"]) items.inc({ kind, result }, 0);
}

type Counters = ReturnType<typeof countersOf>;

function countersOf(registry: Registry<OpenMetricsContentType>) {
  const registers = [registry];
  const counter = <Name extends string>(
    name: string,
    help: string,
    labelNames: readonly Name[],
  ): Counter<Name> =>
    new Counter({ name: `orbweaver_${name}`, help, labelNames: [...labelNames], registers });
  const requests = counter("requests_total", "Requests for GPUs that the fleet let in.", []);
  const grants = counter("grants_total", "Leases that were granted.", ["class", "tenant"]);
  const granted = counter("granted_gpus_total", "GPUs of the leases that were granted.", ["class"]);
  const preemptions = counter(
    "preemptions_total",
    "Leases that were ordered to end, by their class, for another job or to resume their own with more GPUs.",
    ["class", "reason"],
  );
  const lost = counter(
    "gpu_seconds_lost_total",
    "Estimated GPU-seconds of work that these orders have lost.",
    ["class", "reason"],
  );
  const cycles = counter("cycles_total", "Plans that were folded, by who decided.", ["method"]);
  const candidates = counter("cycle_candidates_total", "Candidates that plans have examined.", [
    "method",
  ]);
  const cycleTimes = new Histogram({
    name: "orbweaver_cycle_seconds",
    help: "From the fleet's question for a plan to the plan, with its way to the decider and back.",
    labelNames: ["method"],
    buckets: [...CYCLE_BUCKETS],
    registers,
  });
  const cycleParts = new Histogram({
    name: "orbweaver_cycle_part_seconds",
    help: "Of a cycle: from the question for a plan to the plan (decide), from the last plan of a workflow task to its place in the history (apply), and from the order to deliver grants to its report (deliver).",
    labelNames: ["part"],
    buckets: [...CYCLE_BUCKETS],
    registers,
  });
  const estimates = counter(
    "start_estimates_total",
    "The fleet's own start estimates whose job has started: before, within or after the estimated interval.",
    ["result"],
  );
  const evictionTimes = new Histogram({
    name: "orbweaver_eviction_seconds",
    help: "From the order to end a lease to its GPUs being free, its class and the order's reason.",
    labelNames: ["class", "reason"],
    buckets: [...WAIT_BUCKETS],
    registers,
  });
  const items = counter(
    "plan_items_total",
    "Grants and evictions that plans asked for, by whether the ledger took them.",
    ["kind", "result"],
  );
  const waits = new Histogram({
    name: "orbweaver_wait_seconds",
    help: "From a request to its grant (queue), of that the part in which it waited for its tenant's quota (quota), and from the grant to its delivery (deliver).",
    labelNames: ["class", "phase"],
    buckets: [...WAIT_BUCKETS],
    registers,
  });
  const tenantWaits = new Histogram({
    name: "orbweaver_tenant_wait_seconds",
    help: "From a request to its grant, by tenant.",
    labelNames: ["tenant"],
    buckets: [...TENANT_BUCKETS],
    registers,
  });
  const runs = new Histogram({
    name: "orbweaver_run_seconds",
    help: "From the grant to the end, of runs of single gangs that ended by themselves.",
    labelNames: ["class"],
    buckets: [...RUN_BUCKETS],
    registers,
  });
  return {
    requests,
    grants,
    granted,
    preemptions,
    lost,
    cycles,
    candidates,
    cycleTimes,
    cycleParts,
    estimates,
    evictionTimes,
    items,
    waits,
    tenantWaits,
    runs,
  };
}

/** Tokens are given in turn, one for each lease. */
function grantedBy(before: Ledger, { nextToken, leases }: Ledger): readonly Lease[] {
  const granted: Lease[] = [];
  for (let token = before.nextToken; token < nextToken; token += 1) {
    const lease = leases.get(leaseId(tokenOf(token)));
    if (lease !== undefined) granted.push(lease);
  }
  return granted;
}
