/**
 * @file What is told of a model's plan over the GPUs of one host: by `plan --host`, and by `status` of a served job.
 *
 * Plain data of one or two kilobytes, so that it travels with the notes of a run. Times are milliseconds; *cold* is from parameters in
 * pinned host memory, *again* with the parameters where the cold run left them.
 */

export interface InferenceFacts {
  readonly model: string;
  readonly host: string;
  /** The planner's own estimate, cold. */
  readonly expectedMs: number;
  /** Executed by the simulator of the paper's executor, without noise, cold. */
  readonly simulatedMs: number;
  /** The same for the next request. */
  readonly againMs: number;
  readonly oneGpuMs: { readonly series: number; readonly overlapped: number };
  /** No plan is faster. */
  readonly lowerBoundMs: number;
  readonly speedUp: number;
  readonly gpus: readonly GpuFacts[];
  readonly buses: readonly BusFacts[];
  /** Paths between GPUs, the fastest first; those through host memory are left out. */
  readonly ways: readonly WayFacts[];
  /** Once a solver has tried to better the plan. */
  readonly polish?: PolishFacts;
}

export interface PolishFacts {
  /** The time that it might take. */
  readonly limitMs: number;
  /** The simulated latency before. */
  readonly formerMs: number;
  /** Of the MILP: its submodels, and those that were solved to a proven optimum. */
  readonly submodels: number;
  readonly proven: number;
}

export interface GpuFacts {
  readonly name: string;
  readonly operations: number;
  /** Subgraphs that read their parameters from host memory while they run (direct host access). */
  readonly direct: number;
  readonly busyMs: number;
  readonly peakGiB: number;
  /** What stays in its memory after the first request. */
  readonly residentGiB: number;
}

export interface BusFacts {
  readonly name: string;
  readonly busGBs: number;
  /** The GPUs behind it. */
  readonly gpus: readonly string[];
  readonly copies: number;
  readonly gb: number;
}

export interface WayFacts {
  readonly kind: "nvlink" | "nvswitch" | "pcie";
  readonly peerGBs: number;
  /** `GPU0-GPU1`; empty: all pairs. */
  readonly pairs: readonly string[];
}
