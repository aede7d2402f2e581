/** @file The settings of a world: the fleet, the jobs, the faults and the orders of people, each as a list, so that a part of it can be left out. Types. */

import type { FleetShape } from "../domain/fleet/fleet.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { HostId } from "../domain/values/ids.ts";
import type { ClockChange } from "./hosts/clocks.ts";
import type { DiskState } from "./hosts/disk.ts";
import type { Direction } from "./kernel/network.ts";

/** The server's clock when the world begins. */
export const EPOCH_MS = 1_800_000_000_000;

/** Faults stop at this time. */
export const CALM_AT_MS = 300_000;

/** A batch with such a number is a stranger's: it ends at once, because no array hears of it. */
export const STRANGE_BATCH = 1_000;

/** So long after that everything that can end must have ended, arrays aside. */
export const BOUND_MS = 3_600_000;

export interface DrawnJob {
  readonly id: string;
  readonly atMs: number;
  readonly spec: JobSpec;
  readonly runMs: number;
  /** So many of its runs fail by themselves. */
  readonly failures: number;
}

export type Fault = { readonly atMs: number; readonly target: number; readonly forMs: number } & (
  | {
      readonly kind:
        | "crash"
        | "pause"
        | "late"
        | "server-down"
        | "reboot"
        | "lose-disk"
        | "refuse"
        | "end-fleet"
        | "end-job"
        | "end-lobby";
    }
  /** The machine is off, and nobody ever turns it on. */
  | { readonly kind: "gone"; readonly host: HostId }
  | { readonly kind: "cut"; readonly direction: Direction }
  | { readonly kind: "weather"; readonly lost: number; readonly meanDelayMs: number }
  | { readonly kind: "clock"; readonly byMs: number }
  /** One of a host's GPUs is broken. */
  | { readonly kind: "gpu" }
  /** New files of a host's agent are refused, or each durable write takes long. */
  | { readonly kind: "disk"; readonly how: Exclude<DiskState, "well"> }
  /** Of what a host wrote last a part is gone or cannot be read; its agent was away, or the machine was without power. */
  | { readonly kind: "torn"; readonly pattern: number; readonly isPowerLost: boolean }
  | ({ readonly kind: "host-clock" } & ClockChange)
  /** Former words come again, or words that cannot be true. */
  | { readonly kind: "words"; readonly how: "again" | "broken" | "huge"; readonly count: number }
  /** Somebody resets the workflow of a job to its first task; what it was told since is told again. */
  | { readonly kind: "reset-job" }
  /** The same to a later task, with such a share of them, from 0 to 1: of any job, or of the one that was told most. */
  | { readonly kind: "reset-later"; readonly share: number; readonly isMostTold: boolean }
  /** Of a job that its lobby has called for a request after its first, to its first task: as soon as there is one. */
  | { readonly kind: "reset-called" }
  /** A host's disk takes no files, so no order to stop is obeyed there, and one of the jobs that run there is to run elsewhere. */
  | { readonly kind: "lead-full"; readonly thenMs: number }
  /** Somebody who may order it sends a batch of tasks of a lease whose former batch runs. */
  | { readonly kind: "next-batch" }
  /** A host's agent is away, and one of the jobs that run there is to run elsewhere, and is cancelled after so long. */
  | { readonly kind: "lead-away"; readonly thenMs: number }
  /** A host's agent is away, and one of the jobs that run there is cancelled, or ended from outside. */
  | { readonly kind: "abandon"; readonly isCancelled: boolean }
  /** Of learners, link monitors and agents: a model serves, links were measured, checkpoints are complete, an agent ends on purpose. */
  | { readonly kind: "news"; readonly what: "model" | "links" | "checkpoints" | "goodbye" }
  /** Old orders come again to a host that has lost its disk, or the folders of its launches. */
  | { readonly kind: "copies"; readonly loses: "disk" | "launches" }
);

/** Of hostile worlds. */
export type HostileFault = Extract<
  Fault,
  {
    readonly kind:
      | "gpu"
      | "disk"
      | "torn"
      | "host-clock"
      | "words"
      | "reset-job"
      | "reset-later"
      | "reset-called"
      | "next-batch"
      | "lead-away"
      | "lead-full"
      | "news";
  }
>;

export const ORDERS = [
  "cancel",
  "hold",
  "suspend",
  "requeue",
  "drain",
  "fence",
  "configure",
] as const;
/** Of tasks of arrays, of settings, and of operators. */
export const WIDE_ORDERS = [
  "cancel-tasks",
  "retry-tasks",
  "amend",
  "hold-queue",
  "repair",
  "limits",
] as const;
/** To a job that waits at that time, or about all leases. */
type HarshOrder = "hold-waiting" | "cancel-waiting" | "terminate-waiting" | "repair-all";
/** Of people who want it at once, and of those who change more than a priority. */
type HostileOrder = "kill" | "amend-more";
/** Of people who drain single GPUs, and who upgrade their fleet. */
type MercilessOrder = "drain-gpus";
type VariousOrder = "upgrade";

export interface Order {
  readonly atMs: number;
  readonly target: number;
  readonly kind:
    | (typeof ORDERS | typeof WIDE_ORDERS)[number]
    | HarshOrder
    | HostileOrder
    | MercilessOrder
    | VariousOrder;
  readonly forMs: number;
}

export interface Settings {
  readonly seed: number;
  readonly shape: FleetShape;
  readonly jobs: readonly DrawnJob[];
  readonly faults: readonly Fault[];
  readonly orders: readonly Order[];
  /** Plans come from the product's `decide`, not from chance. */
  readonly isDeciding: boolean;
  /** The fleet begins with these; absent: with the newest. */
  readonly rules?: number;
}
