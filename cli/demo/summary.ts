/** @file The demo's summary: ends of jobs, waiting times, utilisation, and where to look next. */

import type { DemoJob, DemoWorkload } from "../../domain/trace/demo-workload.ts";
import type { JobResult } from "../../protocol/messages.ts";

export interface DemoEnd {
  readonly job: DemoJob;
  readonly jobId: string;
  readonly result?: JobResult;
  readonly error?: string;
}

export interface DemoSummary {
  readonly jobs: {
    readonly submitted: number;
    readonly completed: number;
    readonly failed: number;
    readonly gangs: number;
    readonly overSeveralHosts: number;
    readonly checkpoints: number;
    readonly failures: readonly { readonly jobId: string; readonly message: string }[];
  };
  readonly waitedMs: { readonly p50: number; readonly p90: number; readonly max: number };
  /** GPU-seconds of the processes. */
  readonly gpuSeconds: number;
  readonly totalGpus: number;
  /** From the first submission to the last end. */
  readonly makespanMs: number;
  /** GPU-seconds ÷ (GPUs × makespan). */
  readonly utilisation: number;
  readonly historyEvents: {
    readonly p50: number;
    readonly max: number;
    /** Jobs with more than 24 events, 6 more for each further host, and 5 for each time that they were told why they wait. */
    readonly overBudget: number;
  };
  readonly leasesLeft: number;
  /** From the first line on, set-up included. */
  readonly elapsedMs: number;
  readonly trace: Omit<DemoWorkload, "jobs">;
  readonly temporal: { readonly address: string; readonly ui?: string };
}

export interface JobHistory {
  readonly events: number;
  /** How often the fleet told the job why it waits. */
  readonly waits: number;
}

export interface DemoFacts {
  readonly ends: readonly DemoEnd[];
  readonly workload: Omit<DemoWorkload, "jobs">;
  readonly totalGpus: number;
  readonly makespanMs: number;
  readonly startedAtMs: number;
  /** Of each job, in the order of `ends`. */
  readonly histories: readonly JobHistory[];
  readonly leasesLeft: number;
  readonly up: { readonly address: string; readonly ui?: string };
}

export function summarise(facts: DemoFacts): DemoSummary {
  const { ends, workload, totalGpus, makespanMs, histories, leasesLeft, up } = facts;
  const results = ends.flatMap(({ result }) => (result === undefined ? [] : [result]));
  const gpuSeconds = results.reduce((sum, { gpus, ranMs }) => sum + (gpus * ranMs) / 1000, 0);
  const lengths = histories.map(({ events }) => events);
  const waits = results.map(({ queuedMs }) => queuedMs);
  return {
    jobs: {
      submitted: ends.length,
      completed: results.length,
      failed: ends.length - results.length,
      gangs: results.filter(({ gpus }) => gpus > 1).length,
      overSeveralHosts: results.filter(({ hosts }) => hosts.length > 1).length,
      checkpoints: results.filter(({ checkpoint }) => checkpoint !== undefined).length,
      failures: ends.flatMap(({ jobId, error }) =>
        error === undefined ? [] : [{ jobId, message: error }],
      ),
    },
    waitedMs: { p50: quantile(waits, 0.5), p90: quantile(waits, 0.9), max: quantile(waits, 1) },
    gpuSeconds: Math.round(gpuSeconds),
    totalGpus,
    makespanMs,
    utilisation: Number((gpuSeconds / (totalGpus * (makespanMs / 1000))).toFixed(3)),
    historyEvents: {
      p50: quantile(lengths, 0.5),
      max: quantile(lengths, 1),
      overBudget: histories.filter(
        ({ events, waits }, index) =>
          events > eventBudget(ends[index]?.result?.hosts.length ?? 1, waits),
      ).length,
    },
    leasesLeft,
    elapsedMs: Date.now() - facts.startedAtMs,
    trace: workload,
    temporal: { address: up.address, ...(up.ui !== undefined && { ui: up.ui }) },
  };
}

export function printSummary(stream: NodeJS.WritableStream, summary: DemoSummary): void {
  const { jobs, waitedMs, makespanMs, utilisation, historyEvents, temporal } = summary;
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  const lines = [
    "",
    `${String(jobs.completed)} of ${String(jobs.submitted)} jobs completed, ${String(jobs.failed)} failed; ${String(jobs.checkpoints)} wrote a checkpoint`,
    `${String(jobs.gangs)} gangs, ${String(jobs.overSeveralHosts)} of them over several hosts; ${String(summary.leasesLeft)} leases left`,
    `waited: median ${seconds(waitedMs.p50)}, 90th percentile ${seconds(waitedMs.p90)}, longest ${seconds(waitedMs.max)}`,
    `${String(summary.gpuSeconds)} GPU-seconds in ${seconds(makespanMs)} on ${String(summary.totalGpus)} GPUs: ${(utilisation * 100).toFixed(0)} % busy (weighted fair queuing)`,
    `events in a job's history: median ${String(historyEvents.p50)}, most ${String(historyEvents.max)}; over the budget of 24, 6 for each further host and 5 for each word on why it waits: ${String(historyEvents.overBudget)}`,
    ...jobs.failures.map(({ jobId, message }) => `failed: ${jobId}: ${message}`),
    `took ${seconds(summary.elapsedMs)} with set-up`,
    ...(temporal.ui === undefined
      ? []
      : [`Temporal's Web UI (while it runs; --keep keeps it): ${temporal.ui}`]),
  ];
  stream.write(`${lines.join("\n")}\n`);
}

/** The smallest value that at least this share of all values does not exceed; 0 for none. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

/** A word on why a job waits is its signal, a workflow task of three events, and the marker of its proof. */
const eventBudget = (hosts: number, waits: number): number => 24 + 6 * (hosts - 1) + 5 * waits;
