/** @file What the console tells about one job, from the job's own history: sent whole with every change, so it is bounded. */

import type { GpuMask } from "./wire.ts";

export interface JobPage {
  readonly job: string;
  /** The run of its workflow that was read last. */
  readonly run?: string;
  readonly about?: JobAbout;
  /** Who signed it. */
  readonly user?: string;
  /** In the order of time. */
  readonly moments: readonly JobMoment[];
  /** Moments for which there was no room, between the first ones and the last. */
  readonly omitted: number;
  readonly attempts: readonly AttemptRow[];
  /** Absent while the job lives. */
  readonly ended?: JobEnd;
  /** Why the history cannot be read, or not further. */
  readonly trouble?: string;
}

export interface JobAbout {
  readonly name: string;
  readonly class: string;
  readonly tenant: string;
  readonly gpus: number;
  /** Of an array: its tasks. */
  readonly tasks?: number;
}

export interface JobEnd {
  readonly atMs: number;
  readonly how: "completed" | "failed" | "cancelled" | "terminated" | "timed out";
  readonly why: string;
}

export interface JobMoment {
  readonly atMs: number;
  readonly kind: MomentKind;
  readonly text: string;
}

/** What the job does from the moment on (`submitted` to `running`), or what happened to it. */
export type MomentKind =
  | "submitted"
  | "waiting"
  | "held"
  | "reserved"
  | "granted"
  | "starting"
  | "running"
  | "checkpoint"
  | "preempted"
  | "stopping"
  | "stopped"
  | "order"
  | "ended";

/** One lease of the job. */
export interface AttemptRow {
  readonly lease: string;
  readonly grantedAtMs: number;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly gpus: readonly GpuMask[];
  /** Why there. */
  readonly reason: string;
  /** GB/s: what was expected and what its processes measured, as far as known. */
  readonly predictedGbs?: number;
  readonly measuredGbs?: number;
  /** The two in a sentence, with the alternatives. */
  readonly bandwidth?: string;
  /** What was made for it: plan, collectives, parts of an inference model. */
  readonly extras: readonly { readonly part: string; readonly text: string }[];
  readonly end?: "completed" | "failed" | "stopped";
  /** Why it failed. */
  readonly cause?: string;
  readonly checkpoint?: string;
  /** It was launched and is over, and no host reported: when its processes ran is not known. */
  readonly isUnreported?: true;
  /** Work since the newest checkpoint, or of an array's tasks that did not complete; absent while it runs, and of a gang that completed. */
  readonly lostGpuSeconds?: number;
}
