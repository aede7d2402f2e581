/**
 * @file One replica of the stated service model, step by step, for many of them in one play: as `service-model.ts` plays a single one.
 *
 * Each step takes one token of every request that decodes, and up to `stepTokens` tokens of prompts in their order. All requests have the same number
 * of tokens, so those that began first end first.
 */

import type { ServiceGoal } from "../../domain/model/engine-names.ts";
import { ENGINE } from "../../planning/serving/engine-memory.ts";
import type { Replica } from "../../planning/serving/service-level.ts";

export interface PlayedRequest {
  readonly cameMs: number;
  firstMs: number;
  endMs: number;
  promptLeft: number;
  /** The step of the replica after which it has all of its tokens. */
  lastStep: number;
}

export interface PlayedEngine {
  readonly running: PlayedRequest[];
  readonly prompts: PlayedRequest[];
  steps: number;
  /** Whether a step is under way. */
  isBusy: boolean;
  /** Of the step under way. */
  readonly begun: PlayedRequest[];
}

export const playedEngine = (): PlayedEngine => ({
  running: [],
  prompts: [],
  steps: 0,
  isBusy: false,
  begun: [],
});

export interface EngineModel {
  readonly replica: Replica;
  readonly goal: ServiceGoal;
}

/** Begins a step if there is something to do; its length, or undefined. */
export function beginStep(
  engine: PlayedEngine,
  { replica: { prompt, stepMs }, goal }: EngineModel,
): number | undefined {
  const { running, prompts, begun } = engine;
  if (engine.isBusy || (running.length === 0 && prompts.length === 0)) return undefined;
  let budget = ENGINE.stepTokens;
  for (let first = prompts[0]; first !== undefined && budget > 0; first = prompts[0]) {
    if (running.length + begun.length >= stepMs.length) break;
    const tokens = Math.min(budget, first.promptLeft);
    first.promptLeft -= tokens;
    budget -= tokens;
    if (first.promptLeft > 0) break;
    begun.push(first);
    prompts.shift();
  }
  engine.isBusy = true;
  const taken = ENGINE.stepTokens - budget;
  const decode = running.length === 0 ? 0 : (stepMs[running.length - 1] ?? 0);
  return decode + (prompt.busyMs * taken) / goal.promptTokens;
}

/** The requests that have ended with the step. */
export function endStep(
  engine: PlayedEngine,
  nowMs: number,
  { outputTokens }: ServiceGoal,
): readonly PlayedRequest[] {
  engine.isBusy = false;
  engine.steps += 1;
  for (const request of engine.begun.splice(0)) {
    request.firstMs = nowMs;
    request.lastStep = engine.steps + outputTokens - 1;
    engine.running.push(request);
  }
  let ended = 0;
  while ((engine.running[ended]?.lastStep ?? Infinity) <= engine.steps) ended += 1;
  const gone = engine.running.splice(0, ended);
  for (const request of gone) request.endMs = nowMs;
  return gone;
}
