/** @file One case of `bench spiderflow`: the same drawn jobs under each method, what came of it, and means over seeds. */

import { randomFrom } from "../../lib/random.ts";
import {
  play,
  type JobOutcome,
  type Method,
  type Outcome,
} from "../../simulator/spiderflow/play.ts";
import { openStepClock } from "../../simulator/spiderflow/step-clock.ts";
import {
  trainingJobs,
  type TrainingJob,
  type WorkloadShape,
} from "../../simulator/spiderflow/workload.ts";
import type { BenchRequest } from "../bench.ts";
import { mean } from "../statistics.ts";
import { methodsFor } from "./methods.ts";
import { playProduct } from "./product.ts";
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

/** What was drawn, for its readers. */
export interface Drawn {
  readonly trace: TraceName;
  readonly jobs: number;
  /** Share that asks for more than the largest cluster. */
  readonly beyond: number;
  readonly most: number;
  readonly loads: readonly number[];
}

export interface Case {
  readonly scene: Scene;
  readonly trace: TraceName;
  readonly jobs: number;
  readonly seed: number;
  readonly shape: Omit<WorkloadShape, "clusters" | "fleetGpus" | "largestCluster" | "cardGiB">;
  /** The product's row as well: a simulation of its own. */
  readonly hasProduct?: boolean;
}

export interface CaseRun {
  readonly rans: readonly Ran[];
  readonly drawn: Drawn;
}

export function jobsOf({ scene, trace, jobs, seed, shape }: Case): readonly TrainingJob[] {
  const { gpus } = scene.fleet;
  const whole: WorkloadShape = {
    ...shape,
    clusters: gpus.length,
    fleetGpus: gpus.reduce((sum, own) => sum + own, 0),
    largestCluster: Math.max(...gpus),
    cardGiB: scene.clock.cardGiB,
  };
  return trainingJobs(traceJobs(trace, jobs), whole, randomFrom(seed, `jobs of ${trace}`));
}

export async function runCase(each: Case, request: BenchRequest, what: string): Promise<CaseRun> {
  const { scene, trace, shape } = each;
  const jobs = jobsOf(each);
  const clock = openStepClock(scene.clock);
  const rans: Ran[] = [];
  const say = async (name: string): Promise<void> => {
    request.say(`spiderflow: ${what}, seed ${String(each.seed)}, ${name}`);
    // Lets Ctrl-C and the progress line through.
    await new Promise((resolve) => setImmediate(resolve));
    request.interrupted.throwIfAborted();
  };
  for (const method of methodsFor(scene)) {
    await say(method.name);
    let decideMs = 0;
    const onDecision = (decide: () => void): void => {
      const startMs = performance.now();
      decide();
      decideMs += performance.now() - startMs;
    };
    rans.push(ranOf(play(jobs, method, { fleet: scene.fleet, clock, onDecision }), decideMs));
  }
  if (each.hasProduct === true) {
    await say("the product");
    rans.push(ranOf(playProduct(jobs, scene, clock), NaN));
  }
  const largest = Math.max(...scene.fleet.gpus);
  return {
    rans,
    drawn: {
      trace,
      jobs: jobs.length,
      beyond: mean(jobs.map(({ gpus }) => (gpus > largest ? 1 : 0))),
      most: Math.max(...jobs.map(({ gpus }) => gpus)),
      loads: [shape.load],
    },
  };
}

/** Hardly any job waits: a mean QT below this share of the mean run. */
const STABLE = 1;
const ROUNDS = 10;

/** The highest load, found by halving, at which jobs wait no longer under this method than they run, on average. */
export function stableLoad(each: Case, method: Method): number {
  const clock = openStepClock(each.scene.clock);
  let [low, high] = [0, each.shape.load];
  for (let round = 0; round < ROUNDS; round += 1) {
    const load = (low + high) / 2;
    const jobs = jobsOf({ ...each, shape: { ...each.shape, load } });
    const { jobs: outcomes } = play(jobs, method, { fleet: each.scene.fleet, clock });
    const queued = mean(outcomes.map(({ queuedMs }) => queuedMs));
    if (queued <= STABLE * mean(outcomes.map(({ runMs }) => runMs))) low = load;
    else high = load;
  }
  return low;
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

export interface Means {
  readonly rans: ReadonlyMap<string, Ran>;
  readonly drawn: Drawn;
}

/** Means over seeds, by method. */
export function overSeeds(runs: readonly CaseRun[]): Means {
  const [first] = runs;
  if (first === undefined) throw new Error("no seed was played");
  const rans = first.rans.map(({ name }, at): readonly [string, Ran] => {
    const own = runs.flatMap((run) => run.rans[at] ?? []);
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
  });
  return {
    rans: new Map(rans),
    drawn: {
      ...first.drawn,
      beyond: mean(runs.map(({ drawn }) => drawn.beyond)),
      most: Math.max(...runs.map(({ drawn }) => drawn.most)),
      loads: runs.flatMap(({ drawn }) => drawn.loads),
    },
  };
}
