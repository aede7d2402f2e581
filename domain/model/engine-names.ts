/** @file The engines for language models whose arguments Orbweaver writes, and the variable in which a run finds them. */

export const ENGINES = ["vllm", "sglang"] as const;
export type EngineChoice = (typeof ENGINES)[number];

/** The engine's arguments in one line, without quotes. */
export const ENGINE_ARGS_VARIABLE = "ORBWEAVER_ENGINE_ARGS";

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
