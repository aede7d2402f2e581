/**
 * @file One launch as the agent holds it: its folder, which holds all lasting facts, and two switches.
 *
 * `phaseOf` reads the progress of a launch from the folder alone, so a restarted agent knows as much as the old one.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import { groupsOf, readContainer } from "../containment/container.ts";
import { watchFolder } from "../folder/folder-watch.ts";
import { readJson } from "../folder/json-files.ts";
import { LAUNCH_MARK } from "../folder/launch-files.ts";
import type { Claim, LaunchFiles, LaunchStatus, StoredOrder } from "../folder/launch-files.ts";
import { readTurns, runningRanks } from "../folder/slot-journal.ts";
import { isAliveIn, type ProcessIdentity } from "../ports/processes.ts";
import type { System } from "../ports/system.ts";
import type { Roots } from "./launch-processes.ts";

/** Names a launch on its host: a lease has one, or one for each batch of array tasks. */
export interface RunRef {
  readonly leaseId: LeaseId;
  readonly batchSeq?: number;
}

export const runKey = ({ leaseId, batchSeq }: RunRef): string =>
  batchSeq === undefined ? leaseId : `${leaseId}#${batchSeq}`;

/** A launch's folder on the system where its processes run. */
export interface Launch {
  readonly files: LaunchFiles;
  readonly system: System;
}

export interface LocalRun extends RunRef, Launch {
  /** Absent while only an order to stop has named this lease. */
  stored: StoredOrder | undefined;
  /** Aborted when the launch is being stopped: processes that have not started must not start. */
  readonly halt: AbortController;
  /** Aborted when its job is to hear that a GPU of it has broken. */
  readonly fault: AbortController;
  /** Aborted when the stop may no longer wait for a checkpoint. */
  readonly hurry: AbortController;
  /** Aborted when the stop may not wait for processes to end by themselves either. */
  readonly kill: AbortController;
  /** Attempts of `run` that watch it now; without one its end would reach no workflow. */
  attempts: number;
  /** An attempt has returned its report. */
  isReported: boolean;
  /** The stop that is under way; there is only ever one. */
  stopping: Promise<{ readonly hadProcesses: boolean }> | undefined;
  /** The operator's epilogue, which runs once. */
  clearing: Promise<void> | undefined;
}

export type Phase =
  | { readonly kind: "unclaimed" }
  /** No process was started, and none ever will be. */
  | { readonly kind: "revoked"; readonly reason: string; readonly atMs: number }
  | { readonly kind: "starting"; readonly shim: ProcessIdentity }
  | { readonly kind: "running"; readonly shim: ProcessIdentity; readonly status: LaunchStatus }
  | { readonly kind: "ended"; readonly shim: ProcessIdentity; readonly status: LaunchStatus }
  /** The shim is gone without a final status; `status` is its last one. */
  | {
      readonly kind: "lost";
      readonly shim: ProcessIdentity;
      readonly status: LaunchStatus | undefined;
    };

export function phaseOf({ files, system }: Launch): Phase {
  const claim = readJson<Claim>(system.files, files.claim);
  if (claim === undefined) return { kind: "unclaimed" };
  if (claim.kind === "revoked") return claim;
  const { shim } = claim;
  // The process first, the file second: a shim that ends between the two looks has written its last status by then.
  const isShimAlive = isAliveIn(system.processes, shim);
  const status = readJson<LaunchStatus>(system.files, files.status);
  if (status?.phase === "ended") return { kind: "ended", shim, status };
  if (!isShimAlive) return { kind: "lost", shim, status };
  return status === undefined ? { kind: "starting", shim } : { kind: "running", shim, status };
}

export type FinalPhase = Extract<Phase, { readonly kind: "revoked" | "ended" | "lost" }>;

/** How often the shim is looked at when no notification comes. */
const LOOK_MS = 500;

/** Waits until the launch is in one of the phases; undefined when the signal came first. */
export async function untilPhase<Kind extends Phase["kind"]>(
  launch: Launch,
  kinds: readonly Kind[],
  signal?: AbortSignal,
): Promise<Extract<Phase, { readonly kind: Kind }> | undefined> {
  const isWanted = (phase: Phase): phase is Extract<Phase, { readonly kind: Kind }> =>
    kinds.some((kind) => kind === phase.kind);
  const folder = watchFolder(launch.system, launch.files.dir);
  try {
    for (;;) {
      const phase = phaseOf(launch);
      if (isWanted(phase)) return phase;
      if (signal?.aborted === true) return undefined;
      await folder.changed(LOOK_MS, signal);
    }
  } finally {
    folder.close();
  }
}

export const FINAL_KINDS = ["revoked", "ended", "lost"] as const;

/** Where the processes of the launch are looked for. */
export function rootsOf({ files, system }: Launch, phase: Phase): Roots {
  const shim = "shim" in phase ? phase.shim : undefined;
  const ranks = "status" in phase ? (phase.status?.ranks ?? []) : [];
  const [group] = groupsOf(readContainer(system.files, files));
  return {
    mark: `${LAUNCH_MARK}=${files.dir}`,
    ...(group !== undefined && { grouped: system.groups.pids(group) }),
    shim,
    ranks: [...ranks, ...runningRanks(readTurns(system.files, files.journal))].flatMap(
      (rank) => rank.process ?? [],
    ),
  };
}
