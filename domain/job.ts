/**
 * @file A job as Orbweaver works with it, after `job.yaml` was parsed: every default filled in, every quantity in one unit.
 *
 * `JobFile` (the same thing as users write it) and its parser are in `job-file.ts`.
 */

import type { ClusterId, HostId, TenantId } from "./ids.ts";
import { ms, type GiB, type Ms } from "./units.ts";

export const JOB_CLASSES = ["inference", "interactive", "training"] as const;
export type JobClass = (typeof JOB_CLASSES)[number];

export interface JobSpec {
  readonly name: string;
  readonly tenant: TenantId;
  readonly class: JobClass;
  /** Higher goes first inside a tenant; 0 is usual, −1000 to 1000. */
  readonly priority: number;
  readonly gang: Gang;
  readonly constraints: Constraints;
  /** A preset's name or a file that describes the model; handed to the processes as ORBWEAVER_MODEL. */
  readonly model?: string;
  /** Global batch size; handed to the processes as ORBWEAVER_BATCH. */
  readonly batch?: number;
  /** `model` is an ONNX file, and all that is run is `orbweaver serve`. */
  readonly isServed?: true;
  readonly run: RunSpec;
  readonly retry: RetryRule;
  /** The job must have ended this long after it was submitted. */
  readonly deadlineMs?: Ms;
  /** One run may last this long; the clock starts with its processes. */
  readonly timeLimitMs?: Ms;
  /** `DEFAULT_PREEMPTION` of its class when absent. */
  readonly preemption?: PreemptionRule;
  /** Wait with OnHold until released. */
  readonly isHeld: boolean;
  /** Many tasks with one description: each is a gang of its own, with its own retries and time limit. */
  readonly array?: ArrayRule;
  /** NCCL's choices are tuned while it runs, and it starts with what was learned where it runs; not at all when absent. */
  readonly collectives?: CollectivesRule;
  /** Other fleets that may run it; only its home when absent. */
  readonly cells?: CellRule;
}

export interface CollectivesRule {
  /** It computes while it communicates: then other choices are the best. */
  readonly hasOverlap: boolean;
}

/** Fleets are cells: one that does not place the job in time is left for the next. */
export interface CellRule {
  /** In the order in which they are asked, round and round; the home fleet may be among them. */
  readonly fleets: readonly string[];
  /** So long each is waited for, in the first round. */
  readonly patienceMs: Ms;
}

export interface ArrayRule {
  /** Tasks, numbered from 0. */
  readonly count: number;
  /** Tasks that may run at the same time, at most `count`. */
  readonly parallel: number;
}

/** The GPUs that a job needs at once. */
export interface Gang {
  readonly gpus: number;
  /** The smallest size that is taken after `timeoutMs`; equal to `gpus` when the job cannot shrink. */
  readonly min: number;
  /** Waiting longer than this makes smaller sizes acceptable. */
  readonly timeoutMs: Ms;
  /** The acceptable sizes below `gpus`, largest first; every size from `min` when absent. */
  readonly shapes?: readonly number[];
  /** Having started smaller, it is checkpointed and started again at full size when there is room. */
  readonly mayGrow?: true;
}

/** What may be done to a job that runs, for the sake of another one. */
export interface PreemptionRule {
  readonly isPreemptible: boolean;
  /** The GPUs above `gang.min` may be taken alone: it is checkpointed and started again on the rest. */
  readonly mayShrink: boolean;
  /** So long after its start nobody evicts it. */
  readonly minRuntimeMs: Ms;
}

/** What a job without a rule of its own is held to. */
export const DEFAULT_PREEMPTION: Readonly<Record<JobClass, PreemptionRule>> = {
  inference: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) },
  interactive: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(300_000) },
  training: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(60_000) },
};

/** Every list is "any of"; an absent one does not constrain. */
export interface Constraints {
  readonly jurisdictions?: readonly string[];
  readonly clusters?: readonly ClusterId[];
  readonly hosts?: readonly HostId[];
  readonly gpuTypes?: readonly string[];
  /** Memory of each GPU, at least. */
  readonly gpuMemoryGiB?: GiB;
  readonly maxClusters?: number;
  readonly isSameHost: boolean;
  readonly isSameFabric: boolean;
  /** Jobs of one tenant with the same label never share a host. */
  readonly antiAffinity?: string;
  /** Of as many clusters, those with the best ways between them by this; bandwidth when absent. */
  readonly prefer?: LinkPreference;
}

/** Least latency of the worst pair, or least price of it. */
export const LINK_PREFERENCES = ["bandwidth", "latency", "price"] as const;
export type LinkPreference = (typeof LINK_PREFERENCES)[number];

export interface RunSpec {
  /** argv, never a shell line. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Folder of the processes; the lease's own scratch folder when absent. */
  readonly workdir?: string;
  readonly launch: "per-gpu" | "per-host";
  readonly checkpoint?: CheckpointRule;
  /** After the stop order: time to end by itself, then TERM; the same time again, then KILL. */
  readonly graceMs: Ms;
}

export interface CheckpointRule {
  /** How a process is told to write a checkpoint: a signal to every rank, or a command run beside them. */
  readonly order:
    | { readonly kind: "signal"; readonly signal: string }
    | { readonly kind: "command"; readonly command: readonly string[] };
  /** Where checkpoints live; the agent's own folder of the job when absent. */
  readonly dir?: string;
  /** Time that a checkpoint may take. */
  readonly graceMs: Ms;
  /** The processes write one by themselves about this often, for the account of lost work. */
  readonly intervalMs?: Ms;
}

/** Only failures of the user's processes are charged; a lost host or a refused start is not. */
export interface RetryRule {
  /** Runs in all; 1 means no retry. */
  readonly attempts: number;
  readonly backoffMs: Ms;
}
