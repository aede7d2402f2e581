/**
 * @file The world of a simulation: what happens to jobs, hosts and the fleet's cycles, one event after the other.
 *
 * A cycle is the live fleet's: what arrived is folded into the ledger, `decide` answers, and until its plan is in the ledger nothing
 * else changes it; what comes in between waits for the next cycle. A cycle begins when something has come or a clock that the last
 * plan set is over, when the brain is free, and `cycleIntervalMs` after the one before at the earliest.
 * Grants take effect when the plan is applied. Evictions reach the job then, too; it stops, writes its checkpoint, says `end`
 * and asks again under the next number with its first submission's time and what is left of its work.
 * Cost: O(log n) an event beside the brain's own.
 */

import { gpuCountOf, type Lease } from "../domain/lease.ts";
import type { HostId, JobId, LeaseId } from "../domain/ids.ts";
import type { Plan } from "../domain/plan.ts";
import type { InboxEntry, LedgerEvent } from "../scheduling/ledger.ts";
import type { PhaseState } from "./accounts.ts";
import type { Brain } from "./brain.ts";
import { eventQueue, type EventQueue } from "./event-queue.ts";
import { doneGpuMs, endOf, newJob, requestOf, unsavedGpuMs, type JobState } from "./job-state.ts";
import type { Metrics } from "./metrics.ts";
import type { FailureRates, RateOf, SimulationCosts } from "./options.ts";
import type { Random } from "../lib/random.ts";
import { GANG_TIMEOUT_MS, type WorkloadJob } from "./workload.ts";

type What =
  | {
      readonly kind: "progress" | "end" | "crash" | "yielded";
      readonly job: JobState;
      readonly version: number;
    }
  | {
      readonly kind: "order";
      readonly lease: LeaseId;
      readonly job: JobState;
      readonly version: number;
    }
  | { readonly kind: "host-fails" }
  | { readonly kind: "host-back"; readonly host: HostId }
  | { readonly kind: "sample" }
  | { readonly kind: "cycle" }
  | { readonly kind: "decided"; readonly plan: Plan; readonly decidedAtMs: number };

/** At one time facts come first, then what was decided, then the cycle that reads all of it. */
const FACT = 0;
const DECIDED = 1;
const CYCLE = 2;
const SAMPLE = 3;
/** Samples become rarer by this factor once the last job has arrived: a long tail has as many points as it needs. */
const LATE_SAMPLES = 1.05;
/** What nobody grants this long after the longest gang timeout, with nothing running and nothing to arrive, waits for ever. */
const HOPELESS_MS = 60_000;

export interface World {
  readonly costs: SimulationCosts;
  readonly failures: FailureRates;
  readonly brain: Brain;
  readonly metrics: Metrics;
  readonly arrivals: readonly WorkloadJob[];
  readonly rateOf: RateOf;
  readonly hosts: readonly { readonly id: HostId; readonly gpuCount: number }[];
  readonly random: { readonly hosts: Random; readonly jobs: Random };
  readonly sampleEveryMs: number;
  /** Nothing is looked at after this. */
  readonly stopAtMs: number;
  readonly window: { readonly fromMs: number; readonly toMs: number };
  readonly placeOf: (
    job: WorkloadJob,
  ) => Pick<JobState, "classGroup" | "tenantGroup" | "isInWindow">;
}

export interface Engine {
  /** Does what happens next; false when nothing is left. */
  readonly step: () => boolean;
  readonly nowMs: () => number;
  readonly states: readonly JobState[];
  readonly counts: { readonly arrived: number; readonly ended: number; readonly running: number };
}

export function openEngine(world: World): Engine {
  const { costs, failures, brain, metrics, arrivals, random } = world;
  const queue: EventQueue<What> = eventQueue();
  const states: JobState[] = [];
  const byId = new Map<JobId, JobState>();
  const down = new Set<HostId>();
  const counts = { arrived: 0, ended: 0, running: 0 };
  let nowMs = 0;
  let inbox: InboxEntry[] = [];
  let orders: LedgerEvent[] = [];
  let isDeciding = false;
  let isCycleDue = false;
  let nextCycleAtMs = 0;
  let lastGrantAtMs = 0;
  /** When a job last arrived, ended or gave up GPUs. */
  let lastFreeAtMs = 0;

  const tell = (entry: InboxEntry): void => {
    inbox.push(entry);
    lastFreeAtMs = nowMs;
    wantCycle(nowMs);
  };
  const wantCycle = (atMs: number): void => {
    if (isDeciding || isCycleDue) return;
    isCycleDue = true;
    queue.put(Math.max(atMs, nextCycleAtMs, nowMs), CYCLE, { kind: "cycle" });
  };

  function arrive(job: WorkloadJob): void {
    const state = newJob(job, world.placeOf(job));
    states.push(state);
    byId.set(state.jobId, state);
    counts.arrived += 1;
    tell(requestOf(state, costs.checkpointMs));
  }

  function runCycle(): void {
    isCycleDue = false;
    for (const order of orders) brain.apply({ ...order, nowMs });
    orders = [];
    if (inbox.length > 0) {
      const entries = inbox;
      inbox = [];
      metrics.noteEvents(1 + entries.length);
      const { refusals } = brain.apply({ kind: "inbox", entries, nowMs });
      const [refusal] = refusals;
      if (refusal !== undefined)
        throw new Error(`the ledger did not understand: ${refusal.message}`);
    }
    metrics.noteLedger(brain, nowMs);
    isDeciding = true;
    nextCycleAtMs = nowMs + costs.cycleIntervalMs;
    const plan = brain.decide(nowMs);
    queue.put(nowMs + costs.decisionMs, DECIDED, { kind: "decided", plan, decidedAtMs: nowMs });
  }

  /** The plan is applied at the time for which it was made, as the live fleet does: what fits until then by milliseconds fits. */
  function carryOut(plan: Plan, decidedAtMs: number): void {
    isDeciding = false;
    const { granted, refusals, needsDecision } = brain.apply({
      kind: "plan",
      plan,
      nowMs: decidedAtMs,
    });
    metrics.noteCycle(plan, granted.length, refusals.length);
    if (granted.length > 0) {
      lastGrantAtMs = nowMs;
      brain.apply({ kind: "delivered", accepted: granted, gone: [], nowMs });
      const { leases } = brain.ledger;
      for (const id of granted) {
        const lease = leases.get(id);
        const state = lease && byId.get(lease.jobId);
        if (lease !== undefined && state !== undefined) start(state, lease);
      }
    }
    metrics.noteLedger(brain, nowMs);
    for (const { lease } of plan.evict ?? []) sendOrder(lease);
    if (needsDecision || inbox.length > 0 || orders.length > 0) wantCycle(nowMs);
    // Each plan sets the clock anew.
    wakeVersion += 1;
    if (plan.wakeAtMs !== undefined) wakes.put(plan.wakeAtMs, FACT, wakeVersion);
  }

  function start(state: JobState, lease: Lease): void {
    const { job, requestedAtMs, nextStart } = state;
    const gpus = gpuCountOf(lease.gpus);
    const startMs = nextStart === "starting" ? costs.startMs : costs.restartMs;
    const progressFromMs = nowMs + costs.deliveryMs + startMs;
    const rate = world.rateOf(job, lease, brain.ledger.leases.values());
    const phase: PhaseState = progressFromMs > nowMs ? nextStart : "kept";
    const isDegraded = gpus < job.gpus;
    state.run = { lease: lease.id, gpus, rate, isDegraded, progressFromMs, phase };
    state.stage = "running";
    state.version += 1;
    counts.running += 1;
    const waitedMs = nowMs - requestedAtMs;
    state.queuedMs += waitedMs;
    if (state.firstGrantAtMs === undefined) {
      state.firstGrantAtMs = nowMs;
      state.grantedGpus = gpus;
    }
    metrics.noteGranted(state, waitedMs);
    metrics.changeGang(state, phase, 1, nowMs);
    const { version } = state;
    const endAtMs = progressFromMs + state.leftGpuMs / rate;
    if (phase !== "kept")
      queue.put(progressFromMs, FACT, { kind: "progress", job: state, version });
    queue.put(endAtMs, FACT, { kind: "end", job: state, version });
    if (failures.jobMtbfGpuMs < Infinity) {
      const crashAtMs = progressFromMs + random.jobs.exponential(failures.jobMtbfGpuMs) / gpus;
      if (crashAtMs < endAtMs) queue.put(crashAtMs, FACT, { kind: "crash", job: state, version });
    }
  }

  /** The run enters another phase of its life, or is over. */
  function enter(state: JobState, phase: PhaseState | "over"): void {
    const { run } = state;
    if (run === undefined) return;
    metrics.changeGang(state, run.phase, -1, nowMs);
    if (phase === "over") {
      counts.running -= 1;
      delete state.run;
      return;
    }
    run.phase = phase;
    metrics.changeGang(state, phase, 1, nowMs);
  }

  function sendOrder(lease: LeaseId): void {
    const held = brain.ledger.leases.get(lease);
    const state = held && byId.get(held.jobId);
    if (held?.eviction === undefined || held.eviction.isSent || state?.stage !== "running") return;
    const { version } = state;
    const what = { kind: "order", lease, job: state, version } as const;
    if (costs.deliveryMs > 0) queue.put(nowMs + costs.deliveryMs, FACT, what);
    else yieldGpus(state, lease);
  }

  function yieldGpus(state: JobState, id: LeaseId): void {
    const eviction = brain.ledger.leases.get(id)?.eviction;
    const { run, job } = state;
    if (eviction === undefined || run === undefined) return;
    if (isDeciding) orders.push({ kind: "evictions-sent", sent: [id], gone: [], nowMs });
    else brain.apply({ kind: "evictions-sent", sent: [id], gone: [], nowMs });
    state.preemptions += 1;
    metrics.notePreempted(state, eviction, brain.ledger.leases.get(id)?.loan !== undefined);
    const hasCheckpoint = job.hasNoCheckpoint === undefined;
    const done = hasCheckpoint ? doneGpuMs(run, nowMs) : 0;
    if (!hasCheckpoint) metrics.lose(state, "preemption", doneGpuMs(run, nowMs));
    state.leftGpuMs -= done;
    state.stage = "yielding";
    state.version += 1;
    state.nextStart = "preemption";
    enter(state, "preemption");
    const { version } = state;
    const stopMs = hasCheckpoint ? costs.checkpointMs : 0;
    queue.put(nowMs + stopMs, FACT, { kind: "yielded", job: state, version });
  }

  function askAgain(state: JobState): void {
    tell(endOf(state));
    enter(state, "over");
    state.stage = "waiting";
    state.version += 1;
    state.seq += 1;
    state.requestedAtMs = nowMs;
    tell(requestOf(state, costs.checkpointMs));
  }

  function crash(state: JobState, blame: "hosts" | "jobs"): void {
    const { run, job } = state;
    if (run === undefined) return;
    state.failures += 1;
    metrics.noteFailure(blame);
    if (state.stage === "running") {
      const lost = unsavedGpuMs(run, nowMs, job.checkpointIntervalMs);
      state.leftGpuMs -= doneGpuMs(run, nowMs) - lost;
      metrics.lose(state, "failure", lost);
    }
    state.nextStart = "failure";
    askAgain(state);
  }

  function finish(state: JobState): void {
    tell(endOf(state));
    enter(state, "over");
    state.stage = "ended";
    state.leftGpuMs = 0;
    state.version += 1;
    state.endedAtMs = nowMs;
    counts.ended += 1;
  }

  function failHost(): void {
    const { hosts } = world;
    queue.put(nowMs + nextFailureMs(), FACT, { kind: "host-fails" });
    const host = hosts[random.hosts.below(hosts.length)];
    if (host === undefined || down.has(host.id)) return;
    down.add(host.id);
    orders.push({ kind: "drain", hosts: [host.id], reason: "failed", nowMs });
    metrics.changeService(-host.gpuCount, nowMs);
    queue.put(nowMs + failures.repairMs, FACT, { kind: "host-back", host: host.id });
    for (const { jobId, gpus } of [...brain.ledger.leases.values()]) {
      const state = byId.get(jobId);
      if (state?.run !== undefined && gpus.some((part) => part.host === host.id))
        crash(state, "hosts");
    }
    wantCycle(nowMs);
  }

  function restoreHost(id: HostId): void {
    down.delete(id);
    orders.push({ kind: "undrain", hosts: [id], nowMs });
    metrics.changeService(world.hosts.find((host) => host.id === id)?.gpuCount ?? 0, nowMs);
    wantCycle(nowMs);
  }

  const nextFailureMs = (): number =>
    random.hosts.exponential(failures.hostMtbfMs / world.hosts.length);

  function happen(what: What): void {
    switch (what.kind) {
      case "progress":
        if (what.job.version === what.version) enter(what.job, "kept");
        return;
      case "end":
        if (what.job.version === what.version) finish(what.job);
        return;
      case "crash":
        if (what.job.version === what.version) crash(what.job, "jobs");
        return;
      case "yielded":
        if (what.job.version === what.version) askAgain(what.job);
        return;
      case "order":
        if (what.job.version === what.version) yieldGpus(what.job, what.lease);
        return;
      case "host-fails":
        return failHost();
      case "host-back":
        return restoreHost(what.host);
      case "sample":
        metrics.sample(nowMs, { ledger: brain.ledger, down });
        if (counts.arrived === arrivals.length) sampleEveryMs *= LATE_SAMPLES;
        if (!isOver()) queue.put(nowMs + sampleEveryMs, SAMPLE, what);
        return;
      case "cycle":
        return runCycle();
      case "decided":
        return carryOut(what.plan, what.decidedAtMs);
    }
  }

  /** The integrals are read at the window's edges before anything there changes them. */
  function markWindow(atMs: number): void {
    for (const [edge, edgeMs] of [
      ["from", world.window.fromMs],
      ["to", world.window.toMs],
    ] as const) {
      if (atMs < edgeMs || marked.has(edge)) continue;
      marked.add(edge);
      metrics.markWindow(edge, edgeMs);
    }
  }

  /** Nothing will ever happen again that anybody waits for. */
  const isOver = (): boolean =>
    counts.arrived === arrivals.length &&
    counts.running === 0 &&
    (counts.ended === counts.arrived || nowMs > hopelessAfterMs());
  const longestTimeoutMs = arrivals.reduce(
    (most, { gangTimeoutMs = 0 }) => Math.max(most, gangTimeoutMs),
    Math.max(...Object.values(GANG_TIMEOUT_MS)),
  );
  const hopelessAfterMs = (): number =>
    Math.max(lastGrantAtMs, lastFreeAtMs) + longestTimeoutMs + HOPELESS_MS;
  let sampleEveryMs = world.sampleEveryMs;

  const marked = new Set<string>();
  // The clocks that plans set; only the last one counts.
  const wakes: EventQueue<number> = eventQueue();
  let wakeVersion = 0;

  if (failures.hostMtbfMs < Infinity) queue.put(nextFailureMs(), FACT, { kind: "host-fails" });
  // Before the first job there is nothing to see, however late it comes.
  const firstMs = arrivals[0]?.submittedAtMs ?? 0;
  queue.put(firstMs + world.sampleEveryMs, SAMPLE, { kind: "sample" });

  return {
    nowMs: () => nowMs,
    states,
    counts,
    step() {
      if (isOver() && !isDeciding) return false;
      const arrival = arrivals[counts.arrived];
      const arrivalAtMs = arrival?.submittedAtMs ?? Infinity;
      const wakeAtMs = wakes.nextAtMs();
      const eventAtMs = queue.nextAtMs();
      const atMs = Math.min(arrivalAtMs, wakeAtMs, eventAtMs);
      if (atMs === Infinity || atMs > world.stopAtMs) return false;
      markWindow(atMs);
      nowMs = Math.max(nowMs, atMs);
      if (arrival !== undefined && arrivalAtMs === atMs) arrive(arrival);
      else if (wakeAtMs === atMs) {
        if (wakes.take()?.what === wakeVersion) wantCycle(nowMs);
      } else {
        const next = queue.take();
        if (next !== undefined) happen(next.what);
      }
      return true;
    },
  };
}
