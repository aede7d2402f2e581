/** @file The engines for language models whose arguments Orbweaver writes, and the variable in which a run finds them. */

export const ENGINES = ["vllm", "sglang"] as const;
export type EngineChoice = (typeof ENGINES)[number];

/** The engine's arguments in one line, without quotes. */
export const ENGINE_ARGS_VARIABLE = "ORBWEAVER_ENGINE_ARGS";

/** How many blocks each stage has, as each engine reads it. */
export const partitionVariable = (engine: EngineChoice): string =>
  `${engine.toUpperCase()}_PP_LAYER_PARTITION`;

/** The flags that a plan may set: degrees and limits, each with a number. */
const PLANNED_FLAGS: readonly string[] = [
  "--tensor-parallel-size",
  "--pipeline-parallel-size",
  "--data-parallel-size",
  "--max-model-len",
  "--max-num-seqs",
  "--max-num-batched-tokens",
  "--gpu-memory-utilization",
  "--tp",
  "--pp-size",
  "--dp",
  "--context-length",
  "--max-running-requests",
  "--chunked-prefill-size",
  "--mem-fraction-static",
];

/**
 * Whether a variable is one that a plan sets, with nothing but planned flags and numbers in it: nobody has signed it, and a command follows it, so it
 * must not be able to say another model, or code to load.
 */
export function isPlannedVariable(name: string, value: string): boolean {
  if (ENGINES.some((engine) => name === partitionVariable(engine)))
    return /^\d{1,4}(,\d{1,4}){0,255}$/.test(value);
  if (name !== ENGINE_ARGS_VARIABLE) return false;
  const words = value.split(" ");
  return (
    words.length % 2 === 0 &&
    words.every((word, at) =>
      at % 2 === 0 ? PLANNED_FLAGS.includes(word) : /^\d{1,9}(\.\d{1,9})?$/.test(word),
    )
  );
}

/** What one engine is to keep, and the requests that it is judged by. */
export interface ServiceGoal {
  /** Longest time to the first token, and per output token after it, of 99 requests in 100; milliseconds. */
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Tokens of a usual request. */
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Tokens of the longest request, its answer included. */
  readonly contextTokens: number;
}
