/** @file What may be chosen of a model service, and what it is when nobody chooses. */

import type { BatcherOptions } from "./batcher.ts";

export interface ServiceOptions extends Omit<BatcherOptions, "maxRuns"> {
  /** Threads of onnxruntime in each lane. */
  readonly threads: number;
  /** The host's numbers of the GPUs that the lanes stand for. */
  readonly gpuIds?: readonly number[];
}

export const SERVICE_DEFAULTS: ServiceOptions = Object.freeze({
  /** Rows of one run. */
  maxBatch: 8,
  /** What a lone request may lose by waiting for others. */
  windowMs: 2,
  /** Requests in line; more are told to come again. */
  maxQueue: 64,
  threads: 1,
});
