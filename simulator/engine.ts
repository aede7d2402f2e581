/**
 * @file The engine: plays arrivals, jobs, host failures and the fleet's cycles as one sequence of events.
 *
 * An arrival comes before a wake-up of the fleet at the same time, and both before the events of the agenda. What happens to a job
 * stands in `job-runs.ts`, to a host in `host-failures.ts`, in a cycle in `fleet-cycles.ts`.
 * Cost: O(log n) an event beside the scheduler's own.
 */

import type { Random } from "../lib/random.ts";
import { openAgenda, type SimulationEvent } from "./agenda.ts";
import { openFleetCycles } from "./fleet-cycles.ts";
import { openHostFailures, type SimulatedHost } from "./host-failures.ts";
import { openJobRuns, type JobCounts, type PlaceOf } from "./job-runs.ts";
import type { JobState } from "./job-state.ts";
import type { Metrics } from "./metrics.ts";
import type { FailureRates, RateOf, SimulationCosts } from "./options.ts";
import type { Scheduler } from "./scheduler.ts";
import { GANG_TIMEOUT_MS, type WorkloadJob } from "./workload.ts";

/** Once the last job has arrived, the time between samples grows by this factor, so that a long tail needs few of them. */
const LATE_SAMPLES = 1.05;
/** With nothing running and nothing to arrive, a request not granted this long after the longest gang timeout never will be. */
const HOPELESS_MS = 60_000;

interface EngineOptions {
  readonly costs: SimulationCosts;
  readonly failures: FailureRates;
  readonly scheduler: Scheduler;
  readonly metrics: Metrics;
  readonly arrivals: readonly WorkloadJob[];
  readonly rateOf: RateOf;
  readonly hosts: readonly SimulatedHost[];
  readonly random: { readonly hosts: Random; readonly jobs: Random };
  readonly sampleEveryMs: number;
  /** No event after this time is played. */
  readonly stopAtMs: number;
  readonly window: { readonly fromMs: number; readonly toMs: number };
  readonly placeOf: PlaceOf;
}

export interface Engine {
  /** Plays the next event; false when none is left. */
  readonly step: () => boolean;
  readonly nowMs: () => number;
  readonly states: readonly JobState[];
  readonly counts: JobCounts;
}

export function openEngine(options: EngineOptions): Engine {
  const { costs, failures, scheduler, metrics, arrivals, random, window } = options;
  const agenda = openAgenda();
  const { nowMs } = agenda;
  const cycles = openFleetCycles({ scheduler, metrics, costs, agenda });
  const jobs = openJobRuns({ ...options, random: random.jobs, agenda, cycles });
  const hosts = openHostFailures({
    hosts: options.hosts,
    failures,
    random: random.hosts,
    metrics,
    agenda,
    cycles,
    crashOn: jobs.crashOn,
  });
  const { counts } = jobs;
  const longestTimeoutMs = longestTimeoutOf(arrivals);
  const marked = new Set<string>();
  let { sampleEveryMs } = options;

  hosts.enterNext();
  // Before the first job there is nothing to sample, however late the job comes.
  agenda.enter((arrivals[0]?.submittedAtMs ?? 0) + sampleEveryMs, { kind: "sample" });

  /** No event that any job waits for can happen any more. */
  const isOver = (): boolean =>
    counts.arrived === arrivals.length &&
    counts.running === 0 &&
    (counts.ended === counts.arrived ||
      nowMs() > cycles.lastChangeAtMs() + longestTimeoutMs + HOPELESS_MS);

  function play(event: SimulationEvent): void {
    if ("version" in event && event.job.version !== event.version) return;
    switch (event.kind) {
      case "progress":
        return jobs.progress(event.job);
      case "end":
        return jobs.finish(event.job);
      case "crash":
        return jobs.crash(event.job, "jobs");
      case "yielded":
        return jobs.askAgain(event.job);
      case "order":
        return jobs.yieldGpus(event.job, event.lease);
      case "host-fails":
        return hosts.fail();
      case "host-back":
        return hosts.restore(event.host);
      case "sample":
        metrics.sample(nowMs(), { ledger: scheduler.ledger, down: hosts.down });
        if (counts.arrived === arrivals.length) sampleEveryMs *= LATE_SAMPLES;
        if (!isOver()) agenda.enter(nowMs() + sampleEveryMs, event);
        return;
      case "cycle":
        return cycles.begin();
      case "decided": {
        const { plan, decidedAtMs } = event;
        const { granted, needsDecision } = cycles.apply(plan, decidedAtMs);
        for (const lease of granted) jobs.start(lease);
        metrics.noteLedger(scheduler, nowMs());
        for (const { lease } of plan.evict ?? []) jobs.order(lease);
        return cycles.close(plan, needsDecision);
      }
    }
  }

  /** The integrals are read at the edges of the window before any event there changes them. */
  function markWindow(atMs: number): void {
    for (const [edge, edgeMs] of [
      ["from", window.fromMs],
      ["to", window.toMs],
    ] as const) {
      if (atMs < edgeMs || marked.has(edge)) continue;
      marked.add(edge);
      metrics.markWindow(edge, edgeMs);
    }
  }

  return {
    nowMs,
    states: jobs.states,
    counts,
    step() {
      if (isOver() && !cycles.isDeciding()) return false;
      const arrival = arrivals[counts.arrived];
      const arrivalAtMs = arrival?.submittedAtMs ?? Infinity;
      const wakeAtMs = cycles.wakeAtMs();
      const atMs = Math.min(arrivalAtMs, wakeAtMs, agenda.nextAtMs());
      if (atMs === Infinity || atMs > options.stopAtMs) return false;
      markWindow(atMs);
      agenda.advance(atMs);
      if (arrival !== undefined && arrivalAtMs === atMs) jobs.arrive(arrival);
      else if (wakeAtMs === atMs) cycles.wake();
      else {
        const event = agenda.take();
        if (event !== undefined) play(event);
      }
      return true;
    },
  };
}

const longestTimeoutOf = (arrivals: readonly WorkloadJob[]): number =>
  arrivals.reduce(
    (most, { gangTimeoutMs = 0 }) => Math.max(most, gangTimeoutMs),
    Math.max(...Object.values(GANG_TIMEOUT_MS)),
  );
