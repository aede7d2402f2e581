/** @file What a bench is asked for in a test: the parts that the test gives, and nothing else that is chosen, said or interrupted. */

import type { BenchRequest } from "../../bench/bench.ts";

export const benchRequest = (parts: Partial<BenchRequest> = {}): BenchRequest => ({
  seed: 1,
  size: () => 1,
  text: () => undefined,
  flag: () => false,
  chosen: () => [],
  say: () => undefined,
  interrupted: new AbortController().signal,
  env: {},
  ...parts,
});
