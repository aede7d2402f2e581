/** @file One case of `bench spiderflow`: the same drawn jobs under each method, what came of it, and means over seeds. */

import { randomFrom } from "../../lib/random.ts";
import { play, type JobOutcome, type Outcome } from "../../simulator/spiderflow/play.ts";
import { openStepClock } from "../../simulator/spiderflow/step-clock.ts";
import { trainingJobs, type WorkloadShape } from "../../simulator/spiderflow/workload.ts";
import type { BenchRequest } from "../bench.ts";
import { mean } from "../statistics.ts";
import { methodsFor } from "./methods.ts";
import { traceJobs, type Scene, type TraceName } from "./scenes.ts";

export interface Ran {
  readonly name: string;
  readonly queuedMs: number;
  readonly completionMs: number;
  readonly throughput: number;
  readonly clusters: number;
  readonly makespanMs: number;
  readonly utilisation: number;
  /** Processor time of decisions ÷ time of jobs. */
  readonly overhead: number;
  /** A play for each seed. */
  readonly plays: readonly (readonly JobOutcome[])[];
}

export interface Case {
  readonly scene: Scene;
  readonly trace: TraceName;
  readonly jobs: number;
  readonly seed: number;
  readonly shape: Omit<WorkloadShape, "clusters" | "fleetGpus" | "largestCluster" | "cardGiB">;
}

export async function runCase(
  each: Case,
  request: BenchRequest,
  what: string,
): Promise<readonly Ran[]> {
  const { scene, trace, seed } = each;
  const { gpus } = scene.fleet;
  const jobs = trainingJobs(
    traceJobs(trace, each.jobs),
    {
      ...each.shape,
      clusters: gpus.length,
      fleetGpus: gpus.reduce((sum, own) => sum + own, 0),
      largestCluster: Math.max(...gpus),
      cardGiB: scene.clock.cardGiB,
    },
    randomFrom(seed, `jobs of ${trace}`),
  );
  const clock = openStepClock(scene.clock);
  const rans: Ran[] = [];
  for (const method of methodsFor(scene)) {
    request.say(`spiderflow: ${what}, ${method.name}`);
    // Lets Ctrl-C and the progress line through.
    await new Promise((resolve) => setImmediate(resolve));
    request.interrupted.throwIfAborted();
    let decideMs = 0;
    const onDecision = (decide: () => void): void => {
      const startMs = performance.now();
      decide();
      decideMs += performance.now() - startMs;
    };
    rans.push(ranOf(play(jobs, method, { fleet: scene.fleet, clock, onDecision }), decideMs));
  }
  return rans;
}

function ranOf({ method, jobs, makespanMs, utilisation }: Outcome, decideMs: number): Ran {
  return {
    name: method,
    queuedMs: mean(jobs.map(({ queuedMs }) => queuedMs)),
    completionMs: mean(jobs.map(({ completionMs }) => completionMs)),
    throughput: mean(jobs.map(({ throughput }) => throughput)),
    clusters: mean(jobs.map(({ clusters }) => clusters)),
    makespanMs,
    utilisation,
    plays: [jobs],
    overhead: decideMs / jobs.reduce((sum, { runMs }) => sum + runMs, 0),
  };
}

/** Means over seeds, by method. */
export function overSeeds(runs: readonly (readonly Ran[])[]): ReadonlyMap<string, Ran> {
  const names = runs[0]?.map(({ name }) => name) ?? [];
  return new Map(
    names.map((name, at) => {
      const own = runs.flatMap((run) => run[at] ?? []);
      const of = (value: (ran: Ran) => number): number => mean(own.map(value));
      return [
        name,
        {
          name,
          queuedMs: of((ran) => ran.queuedMs),
          completionMs: of((ran) => ran.completionMs),
          throughput: of((ran) => ran.throughput),
          clusters: of((ran) => ran.clusters),
          makespanMs: of((ran) => ran.makespanMs),
          utilisation: of((ran) => ran.utilisation),
          overhead: of((ran) => ran.overhead),
          plays: own.flatMap(({ plays }) => plays),
        },
      ];
    }),
  );
}
