/**
 * @file How one model runs over the GPUs of one host: the planner's output, for any executor.
 *
 * Two kinds of ready queues, from SortingHat's algorithm 1: subgraphs for each GPU, copies out of host memory for each
 * bus, both in the order in which they are taken. Indices are those of the operator graph and of the host.
 */

export interface InferencePlan {
  /** By GPU. Every operation is in one subgraph of one queue. */
  readonly gpuQueues: readonly (readonly PlannedSubgraph[])[];
  /** By bus. A parameter is copied at most once; one that is in no queue is read directly, or is resident where it is read. */
  readonly busQueues: readonly (readonly PlannedCopy[])[];
  /** Parameters in GPU memory before the run. */
  readonly resident: readonly Resident[];
}

/** Operations that run one after the other, without waiting in between. */
export interface PlannedSubgraph {
  readonly operations: readonly number[];
  /** Its parameters are read from host memory while it runs (direct host access). */
  readonly isDirect: boolean;
}

export interface PlannedCopy {
  readonly parameter: number;
  /** The GPU on which it lands. */
  readonly gpu: number;
  /**
   * GPUs to which it is forwarded as soon as it has landed (parallel transmission). Another GPU that reads it copies it when the
   * subgraph that needs it is at the head of its queue.
   */
  readonly forwards: readonly number[];
}

export interface Resident {
  readonly parameter: number;
  readonly gpu: number;
}
