/**
 * @file The time of one pipeline under 1F1B, from what each run of layers takes forward and backward with its sends.
 *
 * Stage j of p runs p − 1 − j forwards ahead, then one forward and one backward in turn (PipeDream-Flush; Megatron-LM). Interleaved, a stage has v runs of
 * layers and 2 (p − 1 − j) + (v − 1) p forwards ahead, of p micro-batches through each run in turn (Narayanan et al. 2021, §2.2; Megatron-LM's
 * schedule), so the pipeline fills in 1/v of the time. An operation starts when its input has arrived and the stage is free; a stage is busy while it sends.
 * The times of a few more micro-batches than the pipeline takes to fill are computed one by one; each further one adds what the busiest stage takes
 * for it, because every cycle of the schedule's dependencies is a mean over stages; interleaved, each further p add what the last p did, where that is more.
 * Cost: O(stages × (2 × stages + 8)) at most; interleaved O(runs × 7 × stages²).
 */

export interface StageTimes {
  readonly stages: number;
  /** By run of all stages (split.ts): compute and send, in milliseconds. */
  readonly forwardMs: Float64Array;
  readonly backwardMs: Float64Array;
}

export function pipelineMs(times: StageTimes, microBatches: number): number {
  const { stages, forwardMs, backwardMs } = times;
  let busiest = 0;
  for (let stage = 0; stage < stages; stage += 1) {
    let own = 0;
    for (let run = stage; run < forwardMs.length; run += stages)
      own += (forwardMs[run] ?? 0) + (backwardMs[run] ?? 0);
    busiest = Math.max(busiest, own);
  }
  if (stages === 1) return microBatches * busiest;
  if (forwardMs.length > stages) return interleavedMs(times, { microBatches, busiest });
  const played = Math.min(microBatches, 2 * stages + 8);
  return filledMs(times, played) + (microBatches - played) * busiest;
}

/** Of p micro-batches each: as many as fill the pipeline whatever its runs, and one more. */
const FILLED = 3;

function interleavedMs(
  times: StageTimes,
  { microBatches, busiest }: { readonly microBatches: number; readonly busiest: number },
): number {
  const { stages } = times;
  if (microBatches <= (FILLED + 1) * stages) return filledMs(times, microBatches);
  const filled = filledMs(times, (FILLED + 1) * stages);
  const each = Math.max(filled - filledMs(times, FILLED * stages), stages * busiest);
  return filled + (microBatches / stages - FILLED - 1) * each;
}

function filledMs({ stages, forwardMs, backwardMs }: StageTimes, microBatches: number): number {
  const count = forwardMs.length;
  const order: Order = { stages, runs: count / stages, microBatches };
  const total = order.runs * microBatches;
  /** When the results of a run's forwards and backwards have arrived; NaN before. */
  const forwards = new Float64Array(count * microBatches).fill(NaN);
  const backwards = new Float64Array(count * microBatches).fill(NaN);
  const freeAt = new Float64Array(stages);
  const done = new Int32Array(stages);
  let left = 2 * count * microBatches;
  while (left > 0) {
    const before = left;
    for (let stage = 0; stage < stages; stage += 1) {
      const ahead = aheadOf(stage, order);
      for (;;) {
        const at = done[stage] ?? 0;
        if (at === 2 * total) break;
        const isForward = isForwardAt(at, ahead, total);
        const place = placeAt(at, ahead, total);
        const number = microBatchOf(place, order);
        const run = ownRunOf(place, isForward, order) * stages + stage;
        const input = isForward
          ? run === 0
            ? 0
            : (forwards[(run - 1) * microBatches + number] ?? NaN)
          : run === count - 1
            ? 0
            : (backwards[(run + 1) * microBatches + number] ?? NaN);
        if (Number.isNaN(input)) break;
        const ms = (isForward ? forwardMs[run] : backwardMs[run]) ?? 0;
        const end = Math.max(freeAt[stage] ?? 0, input) + ms;
        freeAt[stage] = end;
        (isForward ? forwards : backwards)[run * microBatches + number] = end;
        done[stage] = at + 1;
        left -= 1;
      }
    }
    if (left === before)
      throw new RangeError("interleaved micro-batches are no multiple of stages");
  }
  return Math.max(...freeAt);
}

export interface Order {
  readonly stages: number;
  /** Of each stage. */
  readonly runs: number;
  /** A multiple of the stages where these have several runs. */
  readonly microBatches: number;
}

/** Forwards of a stage before its first backward but for one. */
export const aheadOf = (stage: number, { stages, runs, microBatches }: Order): number => {
  const behind = stages - 1 - stage;
  return Math.min(runs === 1 ? behind : 2 * behind + (runs - 1) * stages, runs * microBatches);
};

/**
 * Forwards alone first, then a forward and a backward in turn, then backwards alone; `total`: forwards of the stage. Several functions that answer with numbers, because each operation of
 * each pipeline comes by here.
 */
export const isForwardAt = (at: number, ahead: number, total: number): boolean =>
  at < ahead || (at < 2 * total - ahead && (at - ahead) % 2 === 0);

/** Of the stage's forwards, or of its backwards: how many are before. */
export function placeAt(at: number, ahead: number, total: number): number {
  if (at < ahead) return at;
  const inTurn = at - ahead;
  if (inTurn >= 2 * (total - ahead)) return at - total;
  return inTurn % 2 === 0 ? ahead + inTurn / 2 : (inTurn - 1) / 2;
}

export const microBatchOf = (place: number, { stages, runs }: Order): number =>
  runs === 1 ? place : Math.floor(place / (stages * runs)) * stages + (place % stages);

/** The stage's first run is 0. */
export function ownRunOf(place: number, isForward: boolean, { stages, runs }: Order): number {
  if (runs === 1) return 0;
  const own = Math.floor((place % (stages * runs)) / stages);
  return isForward ? own : runs - 1 - own;
}
