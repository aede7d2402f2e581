/** @file The memory of a GPU by what it is for. */

export interface MemoryParts {
  readonly weightsGiB: number;
  readonly gradientsGiB: number;
  readonly optimizerGiB: number;
  readonly activationsGiB: number;
  readonly reserveGiB: number;
}

export const memoryGiB = (parts: MemoryParts): number =>
  parts.weightsGiB +
  parts.gradientsGiB +
  parts.optimizerGiB +
  parts.activationsGiB +
  parts.reserveGiB;
