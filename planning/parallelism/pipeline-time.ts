/**
 * @file The time of one pipeline under 1F1B, from what each stage's forward and backward take with their sends.
 *
 * Stage j of p runs p − 1 − j forwards ahead, then one forward and one backward in turn (PipeDream-Flush; Megatron-LM). An operation starts
 * when its input has arrived and the stage is free; a stage is busy while it sends. The times of a few more micro-batches than the pipeline
 * takes to fill are computed one by one; each further one adds what the busiest stage takes for it, because every cycle of the schedule's
 * dependencies is a mean over stages. Cost: O(stages × (2 × stages + 8)) at most.
 */

export interface StageTimes {
  /** By stage: compute and send, in milliseconds. */
  readonly forwardMs: Float64Array;
  readonly backwardMs: Float64Array;
}

export function pipelineMs({ forwardMs, backwardMs }: StageTimes, microBatches: number): number {
  const stages = forwardMs.length;
  let busiest = 0;
  for (let stage = 0; stage < stages; stage += 1)
    busiest = Math.max(busiest, (forwardMs[stage] ?? 0) + (backwardMs[stage] ?? 0));
  if (stages === 1) return microBatches * busiest;
  const played = Math.min(microBatches, 2 * stages + 8);
  return filledMs({ forwardMs, backwardMs }, played) + (microBatches - played) * busiest;
}

function filledMs({ forwardMs, backwardMs }: StageTimes, microBatches: number): number {
  const stages = forwardMs.length;
  /** When the results of a stage's forwards and backwards have arrived; NaN before. */
  const forwards = new Float64Array(stages * microBatches).fill(NaN);
  const backwards = new Float64Array(stages * microBatches).fill(NaN);
  const freeAt = new Float64Array(stages);
  const done = new Int32Array(stages);
  let left = 2 * stages * microBatches;
  while (left > 0) {
    for (let stage = 0; stage < stages; stage += 1) {
      const ahead = Math.min(stages - 1 - stage, microBatches);
      for (;;) {
        const at = done[stage] ?? 0;
        if (at === 2 * microBatches) break;
        const [isForward, number] = operation(at, ahead, microBatches);
        const input = isForward
          ? stage === 0
            ? 0
            : (forwards[(stage - 1) * microBatches + number] ?? NaN)
          : stage === stages - 1
            ? 0
            : (backwards[(stage + 1) * microBatches + number] ?? NaN);
        if (Number.isNaN(input)) break;
        const ms = (isForward ? forwardMs[stage] : backwardMs[stage]) ?? 0;
        const end = Math.max(freeAt[stage] ?? 0, input) + ms;
        freeAt[stage] = end;
        (isForward ? forwards : backwards)[stage * microBatches + number] = end;
        done[stage] = at + 1;
        left -= 1;
      }
    }
  }
  return Math.max(...freeAt);
}

/** Forwards alone first, then a forward and a backward in turn, then backwards alone. */
export function operation(
  at: number,
  ahead: number,
  microBatches: number,
): readonly [isForward: boolean, microBatch: number] {
  if (at < ahead) return [true, at];
  const inTurn = at - ahead;
  if (inTurn >= 2 * (microBatches - ahead)) return [false, at - microBatches];
  return inTurn % 2 === 0 ? [true, ahead + inTurn / 2] : [false, (inTurn - 1) / 2];
}
