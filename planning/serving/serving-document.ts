/** @file A serving plan as one document, and in one line. */

import type { EngineChoice, ServiceGoal } from "../../domain/model/engine-names.ts";
import type { TransformerShape } from "../../domain/model/transformer-shape.ts";
import { engineArguments, engineEnvironment, engineNotes } from "./engine-arguments.ts";
import type { ServingMemory } from "./engine-memory.ts";
import type { ServingPlan, ServingSplit } from "./plan-serving.ts";

export interface ServingDocument {
  readonly engine: EngineChoice;
  readonly model: string;
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly replicas: number;
  readonly gpus: number;
  readonly goal: ServiceGoal;
  /** Whether 99 requests in 100 keep the goal at the stated rate; without one, whether any rate keeps it. */
  readonly isKept: boolean;
  /** Of 99 requests in 100, at the stated rate, else at the greatest. */
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Requests a second within the goal, all replicas together. */
  readonly ratePerS: number;
  /** The same for one replica over all GPUs of a host. */
  readonly baselineRatePerS?: number;
  /** Of one replica: tokens whose keys and values fit, and requests that may decode together. */
  readonly tokens: number;
  readonly requests: number;
  /** Of one GPU of each stage. */
  readonly memory: readonly ServingMemory[];
  /** One flag with its value each. */
  readonly arguments: readonly string[];
  /** Variables beside them. */
  readonly environment: Readonly<Record<string, string>>;
  readonly notes: readonly string[];
  readonly splits: readonly SplitFacts[];
}

/** A pair of degrees that fits, with as many replicas as there is room for. */
export interface SplitFacts {
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly replicas: number;
  readonly ratePerS: number;
  readonly aloneTtftMs: number;
  readonly aloneTpotMs: number;
  readonly tokens: number;
}

export function servingDocument(
  plan: ServingPlan,
  { engine, shape }: { readonly engine: EngineChoice; readonly shape: TransformerShape },
): ServingDocument {
  const { split, level, baselineRatePerS } = plan;
  return {
    engine,
    model: plan.name,
    tensorParallel: split.width,
    pipelineParallel: split.stages,
    replicas: plan.replicas,
    gpus: plan.gpus,
    goal: plan.goal,
    isKept: plan.isKept,
    ttftMs: level.ttftMs,
    tpotMs: level.tpotMs,
    ratePerS: plan.ratePerS,
    ...(baselineRatePerS !== undefined && { baselineRatePerS }),
    tokens: split.tokens,
    requests: split.requests,
    memory: split.memory,
    arguments: engineArguments(engine, plan),
    environment: engineEnvironment(engine, plan, shape),
    notes: engineNotes(engine, plan, shape),
    splits: plan.splits.map(splitFacts),
  };
}

const splitFacts = (split: ServingSplit): SplitFacts => ({
  tensorParallel: split.width,
  pipelineParallel: split.stages,
  replicas: split.mostReplicas,
  ratePerS: split.ratePerS * split.mostReplicas,
  aloneTtftMs: split.alone.ttftMs,
  aloneTpotMs: split.alone.tpotMs,
  tokens: split.tokens,
});

/** Shown to users of a job, too. */
export function servingLine({
  split,
  replicas,
  level,
  goal,
  ratePerS,
  isKept,
}: ServingPlan): string {
  const degrees = `TP ${split.width} × PP ${split.stages}, ${replicas} replica${replicas === 1 ? "" : "s"}`;
  const times = `TTFT ${level.ttftMs.toFixed(0)} ms and TPOT ${level.tpotMs.toFixed(1)} ms`;
  const wanted = `${goal.ttftMs} and ${goal.tpotMs} ms`;
  return isKept
    ? `${degrees}: up to ${ratePerS.toFixed(1)} requests/s within ${wanted}`
    : ratePerS > 0
      ? `${degrees}: no more than ${ratePerS.toFixed(1)} requests/s within ${wanted}`
      : `${degrees}: ${wanted} cannot be kept here, a request alone takes ${times}`;
}
