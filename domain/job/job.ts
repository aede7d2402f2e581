/**
 * @file A job after `job.yaml` was parsed: every default filled in, every quantity in one unit.
 *
 * `JobFile` (the form that users write) and its parser are in `job-file.ts`.
 */

import type { MessageProfile } from "../bandwidth/message-profile.ts";
import type { FrameworkChoice } from "../model/framework-names.ts";
import type { EngineRule } from "./job-engine.ts";
import type { ClusterId, HostId, JobId, TenantId } from "../values/ids.ts";
import type { Dependency } from "./dependency.ts";
import type { FolderRule } from "./job-folder.ts";
import type { ImageRule } from "./job-image.ts";
import type { Labels } from "./job-labels.ts";
import type { GpuNeed, ResourceNeed } from "./job-resources.ts";
import { ms, type GiB, type Ms } from "../values/units.ts";

export const JOB_CLASSES = ["inference", "interactive", "training"] as const;
export type JobClass = (typeof JOB_CLASSES)[number];

/** Priorities lie between its negative and itself. */
export const MAX_PRIORITY = 1_000;
export const MAX_GANG_GPUS = 100_000;

export interface JobSpec {
  readonly name: string;
  /** By which lists find it; absent: none. */
  readonly labels?: Labels;
  readonly tenant: TenantId;
  readonly class: JobClass;
  /** Higher goes first inside a tenant; 0 is usual, −1000 to 1000. */
  readonly priority: number;
  readonly gang: Gang;
  readonly constraints: Constraints;
  /** A preset's name or a model file; processes get it as ORBWEAVER_MODEL. */
  readonly model?: string;
  /** The keys of its config.json that say its shape; `jobModel` reads them. */
  readonly modelConfig?: Readonly<Record<string, unknown>>;
  /** A profile of its operators, gzipped, in base64. */
  readonly modelProfile?: string;
  /** The GPU type of the profile's times; `USUAL_PROFILED_ON` when absent. */
  readonly profiledOn?: string;
  /** Global batch size; processes get it as ORBWEAVER_BATCH. */
  readonly batch?: number;
  /** Tokens of a sample, where not those that the model's shape says. */
  readonly sequence?: number;
  /** Of the whole training, over all of its runs. */
  readonly steps?: number;
  /** Megatron's where absent. */
  readonly framework?: FrameworkChoice;
  /** `model` is an ONNX file, and the job's only command is `orbweaver serve`. */
  readonly isServed?: true;
  /** Its command is an engine for language models, whose arguments are planned for each lease. */
  readonly engine?: EngineRule;
  readonly run: RunSpec;
  readonly retry: RetryRule;
  /** Time after its submission by which the job must have ended. */
  readonly deadlineMs?: Ms;
  /** Longest time of one run, from the start of its processes. */
  readonly timeLimitMs?: Ms;
  /** `DEFAULT_PREEMPTION` of its class when absent. */
  readonly preemption?: PreemptionRule;
  /** Waits for these jobs before it asks for GPUs; absent: for none. */
  readonly after?: readonly Dependency[];
  /** A dependency that can never be met counts as met; absent: it ends the job. */
  readonly mayFollowFailure?: true;
  /** For how long a gang that has lost a host keeps the others; `DEFAULT_REPLACE_MS` when absent, 0: not at all. */
  readonly replaceMs?: Ms;
  /** Wait with OnHold until released. */
  readonly isHeld: boolean;
  /** Many tasks with one description: each is a gang of its own, with its own retries and time limit. */
  readonly array?: ArrayRule;
  /** Whether NCCL's choices are tuned during its runs, which start with the learned ones; absent: not at all. */
  readonly collectives?: CollectivesRule;
  /** Other fleets that may run it; only its home when absent. */
  readonly cells?: CellRule;
}

export interface CollectivesRule {
  /** Whether it computes during communication, which changes the best choices. */
  readonly hasOverlap: boolean;
}

/** Fleets are cells: when one does not place the job in time, the job asks the next. */
export interface CellRule {
  /** In the order in which they are asked, cyclically; the home fleet may be among them. */
  readonly fleets: readonly string[];
  /** Time to wait for each fleet in the first round. */
  readonly patienceMs: Ms;
}

export interface ArrayRule {
  /** Tasks, numbered from 0. */
  readonly count: number;
  /** Tasks that may run at the same time, at most as many as are to run. */
  readonly parallel: number;
  /** The tasks that are to run, as in `3,7-9`; absent: all. The others count as cancelled. */
  readonly tasks?: string;
}

/** The GPUs that a job needs at once. */
export interface Gang {
  readonly gpus: number;
  /** The smallest size that is accepted after `timeoutMs`; equal to `gpus` when the job cannot shrink. */
  readonly min: number;
  /** Waiting time after which smaller sizes are accepted. */
  readonly timeoutMs: Ms;
  /** The acceptable sizes below `gpus`, largest first; every size from `min` when absent. */
  readonly shapes?: readonly number[];
  /** Whether a smaller gang is checkpointed and restarted at full size when there is room. */
  readonly mayGrow?: true;
}

/** The time that a gang keeps its sound hosts where its job says none. */
export const DEFAULT_REPLACE_MS = ms(300_000);
/** A fleet keeps nothing longer. */
export const MAX_REPLACE_MS = ms(3_600_000);

/** The permitted preemptions of a running job. */
export interface PreemptionRule {
  readonly isPreemptible: boolean;
  /** Whether only the GPUs above `gang.min` may be taken: the job is checkpointed and restarted on the rest. */
  readonly mayShrink: boolean;
  /** Time after its start in which the job is not preempted. */
  readonly minRuntimeMs: Ms;
}

/** The rule of a job that has none of its own. */
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
  /** Least memory of each GPU. */
  readonly gpuMemoryGiB?: GiB;
  readonly maxClusters?: number;
  readonly isSameHost: boolean;
  readonly isSameFabric: boolean;
  /** Jobs of one tenant with the same label never share a host. */
  readonly antiAffinity?: string;
  /** With an equal number of clusters, the measure that ranks the links between them; bandwidth when absent. */
  readonly prefer?: LinkPreference;
  /** What the gang sends most: it gets the GPUs that are fastest for it; `USUAL_MESSAGES` when absent. */
  readonly messages?: MessageProfile;
  /** Of the host, for each GPU: from `run.resources`, in requests alone. */
  readonly resources?: GpuNeed;
  /** What the gang trains (training-text.ts): it gets the GPUs with the shortest step; in requests alone. */
  readonly training?: string;
}

/** Least latency of the worst pair, or least price of it. */
export const LINK_PREFERENCES = ["bandwidth", "latency", "price"] as const;
export type LinkPreference = (typeof LINK_PREFERENCES)[number];

export interface RunSpec {
  /** argv, never a shell line. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Variables whose values hosts look up, by their references (`job-secret.ts`); absent when there are none. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Folder of the processes; the lease's own scratch folder when absent. */
  readonly workdir?: string;
  /** The submitter's folder, of which each lease gets a copy to run in; never beside `workdir`. */
  readonly folder?: FolderRule;
  readonly launch: "per-gpu" | "per-host";
  readonly checkpoint?: CheckpointRule;
  /** After the stop order: time to end by itself, then TERM; the same time again, then KILL. */
  readonly graceMs: Ms;
  /** Processors and memory of the hosts; in proportion to the GPUs when absent. */
  readonly resources?: ResourceNeed;
  /** The image in which the processes run; the host's own files when absent. */
  readonly container?: ImageRule;
}

export interface CheckpointRule {
  /** How processes are asked for a checkpoint: a signal to every rank, or a command run beside them. */
  readonly order:
    | { readonly kind: "signal"; readonly signal: string }
    | { readonly kind: "command"; readonly command: readonly string[] };
  /** Folder of checkpoints; the agent's own folder of the job when absent. */
  readonly dir?: string;
  /** The job whose newest checkpoint in the agents' own folders the first run goes on from; never beside `dir`, an array, or an image. */
  readonly from?: JobId;
  /** Time that a checkpoint may take. */
  readonly graceMs: Ms;
  /** Interval at which the processes write one by themselves, for the estimate of lost work. */
  readonly intervalMs?: Ms;
}

/** Only failures of the user's processes are counted; a lost host or a refused start is not. */
export interface RetryRule {
  /** Runs in all; 1 means no retry. */
  readonly attempts: number;
  readonly backoffMs: Ms;
}
