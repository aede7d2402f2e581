/** @file In which order a stage of the flow simulation works through its micro-batches. Imports nothing of the planner. */

export interface Schedule {
  readonly stages: number;
  /** Of layers, of each stage. */
  readonly runs: number;
  readonly microBatches: number;
}

export type Operation = readonly [kind: "F" | "B", microBatch: number, run: number];

/**
 * One forward and one backward in turn, after as many forwards as there are stages behind. With several runs a stage (Megatron-LM's
 * `forward_backward_pipelining_with_interleaving`), so many micro-batches as there are stages go through each run in turn, backwards through the last run first, and
 * twice as many forwards come first as there are stages behind, with those of all runs but one.
 */
export function ordered(
  stage: number,
  { stages, runs, microBatches }: Schedule,
): readonly Operation[] {
  const forwards: Operation[] = [];
  const backwards: Operation[] = [];
  const together = runs === 1 ? microBatches : stages;
  for (let first = 0; first < microBatches; first += together)
    for (let run = 0; run < runs; run += 1)
      for (let at = first; at < first + together; at += 1) {
        forwards.push(["F", at, run * stages + stage]);
        backwards.push(["B", at, (runs - 1 - run) * stages + stage]);
      }
  const behind = stages - stage - 1;
  const warm = runs === 1 ? behind : behind * 2 + stages * (runs - 1);
  const list = forwards.splice(0, warm);
  while (forwards.length > 0) list.push(...forwards.splice(0, 1), ...backwards.splice(0, 1));
  return [...list, ...backwards];
}
