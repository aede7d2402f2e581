/**
 * @file The files in the folder of a launch (one lease on one host, or one batch of array tasks on it), and the writer of each.
 *
 * | file | writer | content |
 * | --- | --- | --- |
 * | `order.json` | agent | the order as received, and the port of rank 0 when this host picked it |
 * | `container.json` | agent | the container of its processes, see `containment/container.ts` |
 * | `plan.json` | agent, once | the processes that the shim is to start |
 * | `plan.words` | agent | the same for the native supervisor, see `runs/plan-words.ts` |
 * | `claim.json` | shim or agent, once | which shim may start it, or that none ever may |
 * | `status.json` | shim | the processes that were started, and how they ended |
 * | `stop.json` | agent | the reason and the time of a stop |
 * | `report.json` | agent, once | the end of the launch: no process of it runs any more |
 * | `ranks/<rank>/` | shim | the rank's output |
 * | `turns/journal` | shim | of a batch: which tasks were started and how each ended, see `slot-journal.ts` |
 * | `stop-tasks.json` | agent | of a batch: tasks that are to stop |
 *
 * A lease of a job array runs many batches: each has a folder `batches/<seq>/` in the lease's folder, where `scratch/` and the
 * tasks' output `tasks/<task>/ranks/<rank>/` are those of the lease.
 *
 * `claim.json` is the point of no return: it is created by a hard link, so of all the shims that agents may have started for a
 * launch, and of all the orders to stop it, exactly one is first. Types only, and names; the shim loads this file.
 */

import { join } from "node:path";
import type { ImageRuntime } from "../../domain/job/job-image.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { ProcessIdentity } from "../system/process-identity.ts";

/** Carried by every process of a launch; its value is the launch's folder, unique on the machine where lease ids are not. */
export const LAUNCH_MARK = "ORBWEAVER_LAUNCH";
/** Carried beside it by every process of a launch, the shim included; its value names the host and its fleet (`AgentHost.owner`). */
export const OWNER_MARK = "ORBWEAVER_OWNER";
/** Carried by every process of an array task beside it; its value is `taskMark`. */
export const TASK_MARK = "ORBWEAVER_LAUNCH_TASK";
export const taskMark = (launchDir: string, task: number): string => `${launchDir}#${task}`;

export interface LaunchFiles {
  readonly dir: string;
  readonly order: string;
  readonly plan: string;
  readonly planWords: string;
  readonly container: string;
  readonly claim: string;
  readonly status: string;
  readonly stop: string;
  readonly report: string;
  readonly shimLog: string;
  /** In a folder of its own, so that its lines wake no watcher of the launch's folder. */
  readonly journal: string;
  readonly stopTasks: string;
}

export const launchFiles = (dir: string): LaunchFiles => ({
  dir,
  order: join(dir, "order.json"),
  plan: join(dir, "plan.json"),
  planWords: join(dir, "plan.words"),
  container: join(dir, "container.json"),
  claim: join(dir, "claim.json"),
  status: join(dir, "status.json"),
  stop: join(dir, "stop.json"),
  report: join(dir, "report.json"),
  shimLog: join(dir, "shim.log"),
  journal: join(dir, "turns", "journal"),
  stopTasks: join(dir, "stop-tasks.json"),
});

/** `dir` is the launch's folder, or that of an array task. */
export const rankDir = (dir: string, rank: number): string => join(dir, "ranks", String(rank));
/** The folder of a lease's batches. */
export const BATCHES = "batches";
export const batchesDir = (leaseDir: string): string => join(leaseDir, BATCHES);
export const batchDir = (leaseDir: string, seq: number): string =>
  join(batchesDir(leaseDir), String(seq));
export const taskDir = (leaseDir: string, task: number): string =>
  join(leaseDir, "tasks", String(task));

export interface StoredOrder {
  readonly order: RunOrder;
  readonly masterPort?: number;
  /** The build of the collectives plugin when the launch was prepared; it stays as first reported. */
  readonly tuner?: string;
  /** The ids of its GPUs when it was prepared, where the machine said them. */
  readonly gpuUuids?: readonly string[];
}

export interface LaunchPlan {
  readonly command: readonly string[];
  /** Already in `command`; what else is started for the job begins with it. */
  readonly asUser?: readonly string[];
  /** Already in `command`, behind `asUser`: the words of the runtime that starts the image. */
  readonly image?: { readonly runtime: ImageRuntime; readonly words: readonly string[] };
  readonly cwd: string;
  /** Names of variables whose values the shim gets by its input (`shim/secret-input.ts`). */
  readonly secrets?: readonly string[];
  /** None for a batch. */
  readonly ranks: readonly RankPlan[];
  readonly graceMs: number;
  /** Of a batch: for each task. */
  readonly timeLimitMs?: number;
  readonly log: LogLimits;
  readonly batch?: BatchPlan;
}

export interface BatchPlan {
  /** In the order in which they start. */
  readonly tasks: readonly TaskPlan[];
  /** Tasks of the whole array. */
  readonly count: number;
  /** The ranks of a task in each slot; the shim adds the task's own variables (`task-environment.ts`). */
  readonly slots: readonly (readonly RankPlan[])[];
  /** The hosts of a task that spans several have agreed on a port; any other task gets one from the shim. */
  readonly isPortAgreed: boolean;
  /** The lease's folder. */
  readonly leaseDir: string;
}

export interface TaskPlan {
  readonly task: number;
  readonly checkpointDir: string;
  /** The newest complete one when the batch starts. */
  readonly checkpoint?: string;
}

export interface RankPlan {
  readonly rank: number;
  readonly env: Readonly<Record<string, string>>;
}

/** A rank's output is kept in parts; the oldest is dropped when there are more. */
export interface LogLimits {
  readonly partBytes: number;
  readonly parts: number;
}

export type Claim =
  | { readonly kind: "shim"; readonly shim: ProcessIdentity }
  | { readonly kind: "revoked"; readonly reason: string; readonly atMs: number };

export interface LaunchStatus extends RankGroupStatus {
  readonly phase: "running" | "ended";
}

/** The local ranks of one gang, or of one array task. */
export interface RankGroupStatus {
  /** Absent when not a single process could be started. */
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly ranks: readonly RankStatus[];
  /** The first rank that ended badly; the others were stopped for it. */
  readonly failure?: RankFailure;
  /** When the time limit was reached, if it was. */
  readonly limitAtMs?: number;
}

export interface RankStatus {
  readonly rank: number;
  readonly process?: ProcessIdentity;
  readonly end?: { readonly exitCode?: number; readonly signal?: string; readonly atMs: number };
}

export interface RankFailure {
  readonly rank: number;
  /** `not-found`: the command is missing or may not be executed. `not-started`: the machine could not start it. */
  readonly kind: "exited" | "signalled" | "not-found" | "not-started";
  readonly exitCode?: number;
  readonly signal?: string;
  /** For a rank that was not started: the system's message. */
  readonly message?: string;
  readonly atMs: number;
}

export interface StopNote {
  readonly reason: string;
  readonly atMs: number;
  /** Since when processes are told to end; absent while they only write a checkpoint. */
  readonly termAtMs?: number;
  /** For how long the host had had no contact with the control plane, when it was stopped for that. */
  readonly cutOffMs?: number;
  /** A GPU of the host is broken: the host's failure, not the job's. */
  readonly isHostFault?: true;
}

/** Tasks that were named by orders to stop tasks, and why. */
export interface StopTasksNote {
  readonly tasks: readonly { readonly task: number; readonly stop: TaskStop }[];
}

export interface TaskStop {
  readonly reason: string;
  readonly atMs: number;
}
