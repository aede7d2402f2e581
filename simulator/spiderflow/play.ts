/**
 * @file Plays training jobs over clusters under one method of choosing clusters: one FIFO queue, no preemption, no backfill, no degradation.
 *
 * The first job in the queue starts as soon as the method finds clusters for it; no job passes it. A job runs as long as its samples take at the step time of
 * what it got. What a job gets of the links is its fair share when it starts, and it keeps that; its traffic narrows those between the clusters that take part
 * for those after it. A gang that the method can never place (MAST above the largest cluster) is cut to the most that it can, and does the same work there.
 * Same jobs, same method, same outcome; the caller measures the time of decisions (`onDecision`). Cost: O(jobs · decision).
 */

import { heap } from "../../lib/heap.ts";
import type { ClusterChoice, ClusterPolicy } from "../../scheduling/placement/cluster-policy.ts";
import {
  addLoad,
  linksOf,
  openLoads,
  widestFrom,
  type LinkGraph,
  type LoadedLinks,
} from "../../scheduling/placement/link-graph.ts";
import { NOWHERE, type GangPart, type SplitWay, type Step, type StepClock } from "./step-clock.ts";
import type { TrainingJob } from "./workload.ts";

export interface ClusterFleet {
  readonly graph: LinkGraph;
  /** GPUs of each cluster. */
  readonly gpus: readonly number[];
}

export interface Method {
  readonly name: string;
  readonly policy: ClusterPolicy;
  readonly split: SplitWay;
  /** The largest gang that it places; absent: the fleet. */
  readonly most?: number;
}

export interface JobOutcome {
  readonly number: number;
  readonly gpus: number;
  readonly clusters: number;
  readonly queuedMs: number;
  readonly completionMs: number;
  readonly runMs: number;
  /** GPUs asked for × what the run would take in one cluster. */
  readonly workGpuMs: number;
  /** Samples a second. */
  readonly throughput: number;
  readonly startMs: number;
}

export interface Outcome {
  readonly method: string;
  readonly jobs: readonly JobOutcome[];
  readonly makespanMs: number;
  /**
   * Work done while jobs arrive ÷ what the GPUs could do in that time, work being GPU time at the pace of one cluster: a GPU that waits for a
   * link is held and not used.
   */
  readonly utilisation: number;
  readonly decisions: number;
}

interface PlaySetting {
  readonly fleet: ClusterFleet;
  readonly clock: StepClock;
  /** Wraps each decision; what it does with the time is its own. */
  readonly onDecision?: (decide: () => void) => void;
}

interface Running {
  readonly endMs: number;
  readonly number: number;
  readonly choice: ClusterChoice;
  readonly links: readonly number[];
}

export function play(
  jobs: readonly TrainingJob[],
  method: Method,
  { fleet, clock, onDecision = (decide) => decide() }: PlaySetting,
): Outcome {
  const links = openLoads(fleet.graph);
  const free = Int32Array.from(fleet.gpus);
  const running = heap<Running>(
    (a, b) => a.endMs < b.endMs || (a.endMs === b.endMs && a.number < b.number),
  );
  const outcomes: JobOutcome[] = [];
  const lastMs = jobs.at(-1)?.arrivalMs ?? 0;
  let [open, nowMs, doneMs, decisions] = [sumOf(fleet.gpus), 0, 0, 0];
  for (const job of jobs) {
    nowMs = Math.max(nowMs, job.arrivalMs);
    const gpus = Math.min(job.gpus, method.most ?? Infinity);
    const demand = { gpus, maxClusters: fleet.gpus.length, home: job.home };
    let choice: ClusterChoice | undefined;
    for (;;) {
      while ((running.peek()?.endMs ?? Infinity) <= nowMs) open += release(running.pop());
      if (open >= gpus) {
        onDecision(() => {
          ({ choice } = method.policy(demand, { links, free }));
        });
        decisions += 1;
      }
      if (choice !== undefined) break;
      const next = running.peek();
      if (next === undefined)
        throw new Error(`${method.name} never places job ${String(job.number)} of ${String(gpus)}`);
      nowMs = next.endMs;
    }
    const { runMs, clusters } = runOf(job, choice, links);
    const used = linksOf(links, clusters);
    take(choice, -1);
    addLoad(links, used, 1);
    open -= gpus;
    const doneShare = Math.min(1, Math.max(0, (lastMs - nowMs) / runMs));
    doneMs += doneShare * job.gpus * job.durationMs;
    running.push({ endMs: nowMs + runMs, number: job.number, choice, links: used });
    outcomes.push({
      number: job.number,
      gpus,
      clusters: choice.clusters.length,
      queuedMs: nowMs - job.arrivalMs,
      completionMs: nowMs + runMs - job.arrivalMs,
      runMs,
      workGpuMs: job.gpus * job.durationMs,
      throughput: (1_000 * samplesOf(job)) / runMs,
      startMs: nowMs,
    });
  }
  const makespanMs = outcomes.reduce((last, each) => Math.max(last, each.startMs + each.runMs), 0);
  const utilisation = lastMs === 0 ? 0 : doneMs / (lastMs * sumOf(fleet.gpus));
  return { method: method.name, jobs: outcomes, makespanMs, utilisation, decisions };

  function release(ended: Running | undefined): number {
    if (ended === undefined) return 0;
    take(ended.choice, 1);
    addLoad(links, ended.links, -1);
    return sumOf(ended.choice.gpus);
  }

  function take({ clusters, gpus }: ClusterChoice, sign: 1 | -1): void {
    for (const [at, cluster] of clusters.entries())
      free[cluster] = (free[cluster] ?? 0) + sign * (gpus[at] ?? 0);
  }

  /** What it would do in its duration in one cluster, planned: its work. */
  function samplesOf(job: TrainingJob): number {
    const parts = [{ cluster: NOWHERE, gpus: job.gpus }];
    const { stepMs } = stepOf(job, { parts, gbsBetween: () => Infinity, way: "planned" });
    return (job.durationMs / stepMs) * job.gpus * job.samplesPerGpu;
  }

  /** And the clusters that take part. */
  function runOf(job: TrainingJob, { clusters, gpus }: ClusterChoice, now: LoadedLinks) {
    const parts = clusters.map((cluster, at) => ({ cluster, gpus: gpus[at] ?? 0 }));
    const widths = clusters.map((cluster) => widestFrom(now, cluster));
    const gbsBetween = (a: number, b: number): number => (widths[a]?.[clusters[b] ?? 0] ?? 0) / 8;
    const { stepMs, used } = stepOf(job, { parts, gbsBetween, way: method.split });
    const steps = samplesOf(job) / (sumOf(gpus) * job.samplesPerGpu);
    return { runMs: steps * stepMs, clusters: used.map((place) => clusters[place] ?? 0) };
  }

  function stepOf({ model, samplesPerGpu, number }: TrainingJob, { way, ...where }: Where): Step {
    const batch = samplesPerGpu * where.parts.reduce((sum, { gpus }) => sum + gpus, 0);
    const step = clock({ model, batch, ...where }, way);
    if (step === undefined)
      throw new Error(`job ${String(number)}: ${model.name} fits into no split of its GPUs`);
    return step;
  }
}

interface Where {
  readonly parts: readonly GangPart[];
  readonly gbsBetween: (a: number, b: number) => number;
  readonly way: SplitWay;
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, own) => sum + own, 0);
