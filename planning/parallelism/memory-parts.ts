/** @file The memory of a GPU by what it is for. */

export interface MemoryParts {
  readonly weightsGiB: number;
  readonly gradientsGiB: number;
  readonly optimizerGiB: number;
  readonly activationsGiB: number;
  /** Tensors of a moment beside those that are kept, at the worst moment of a step; 0 where the activations have them. */
  readonly workingGiB: number;
  readonly reserveGiB: number;
}

export const memoryGiB = (parts: MemoryParts): number =>
  parts.weightsGiB +
  parts.gradientsGiB +
  parts.optimizerGiB +
  parts.activationsGiB +
  parts.workingGiB +
  parts.reserveGiB;
