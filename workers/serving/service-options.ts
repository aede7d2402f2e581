/** @file The options of a model service and their defaults. */

import type { BatcherOptions } from "./batcher.ts";

export interface ServiceOptions extends Omit<BatcherOptions, "maxRuns"> {
  /** Threads of onnxruntime in each lane. */
  readonly threads: number;
  /** The host's numbers of the lanes' GPUs. */
  readonly gpuIds?: readonly number[];
}

export const SERVICE_DEFAULTS: ServiceOptions = Object.freeze({
  /** Most rows in a batch. */
  maxBatch: 8,
  /** Time that a single request may wait for others. */
  windowMs: 2,
  /** Most queued requests; further ones are refused with a time to retry. */
  maxQueue: 64,
  threads: 1,
});
