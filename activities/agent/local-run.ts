/**
 * @file One launch as the agent holds it: its folder, which says everything that must outlive the agent, and two switches.
 *
 * `phaseOf` reads how far a launch is from the folder alone, so a restarted agent knows what the old one knew.
 */

import type { LeaseId } from "../../domain/ids.ts";
import { watchFolder } from "./folder-watch.ts";
import { LAUNCH_MARK } from "./launch.ts";
import type { Claim, LaunchFiles, LaunchStatus, StoredOrder } from "./launch.ts";
import { isAlive, type ProcessIdentity } from "./process-identity.ts";
import type { Roots } from "./process-table.ts";
import { readFile } from "./state-files.ts";
import { readTurns, runningRanks } from "./turn-journal.ts";

/** Names a launch on its host: a lease has one, or one for each batch of array tasks. */
export interface RunRef {
  readonly leaseId: LeaseId;
  readonly batchSeq?: number;
}

export const runKey = ({ leaseId, batchSeq }: RunRef): string =>
  batchSeq === undefined ? leaseId : `${leaseId}#${batchSeq}`;

export interface LocalRun extends RunRef {
  readonly files: LaunchFiles;
  /** Absent while only an order to stop has named this lease. */
  stored: StoredOrder | undefined;
  /** Aborted when the launch is being stopped: what has not started must not start. */
  readonly halt: AbortController;
  /** Aborted when the stop may no longer wait for a checkpoint. */
  readonly hurry: AbortController;
  /** Attempts of `run` that watch it now; without one nobody would hear of its end. */
  attempts: number;
  /** The stop that is under way; there is only ever one. */
  stopping: Promise<{ readonly hadProcesses: boolean }> | undefined;
}

export type Phase =
  | { readonly kind: "unclaimed" }
  /** Nothing was started and nothing ever will be. */
  | { readonly kind: "revoked"; readonly reason: string; readonly atMs: number }
  | { readonly kind: "starting"; readonly shim: ProcessIdentity }
  | { readonly kind: "running"; readonly shim: ProcessIdentity; readonly status: LaunchStatus }
  | { readonly kind: "ended"; readonly shim: ProcessIdentity; readonly status: LaunchStatus }
  /** The shim is gone without a last word; `status` is what it said before. */
  | {
      readonly kind: "lost";
      readonly shim: ProcessIdentity;
      readonly status: LaunchStatus | undefined;
    };

export function phaseOf(files: LaunchFiles): Phase {
  const claim = readFile<Claim>(files.claim);
  if (claim === undefined) return { kind: "unclaimed" };
  if (claim.kind === "revoked") return claim;
  const { shim } = claim;
  // Life first, word second: a shim that ends between the two looks has written its last word by then.
  const isShimAlive = isAlive(shim);
  const status = readFile<LaunchStatus>(files.status);
  if (status?.phase === "ended") return { kind: "ended", shim, status };
  if (!isShimAlive) return { kind: "lost", shim, status };
  return status === undefined ? { kind: "starting", shim } : { kind: "running", shim, status };
}

export type FinalPhase = Extract<Phase, { readonly kind: "revoked" | "ended" | "lost" }>;

/** How often the shim is looked at when no notification comes. */
const LOOK_MS = 500;

/** Waits until the launch is in one of the phases; undefined when the signal came first. */
export async function untilPhase<Kind extends Phase["kind"]>(
  files: LaunchFiles,
  kinds: readonly Kind[],
  signal?: AbortSignal,
): Promise<Extract<Phase, { readonly kind: Kind }> | undefined> {
  const isWanted = (phase: Phase): phase is Extract<Phase, { readonly kind: Kind }> =>
    kinds.some((kind) => kind === phase.kind);
  const folder = watchFolder(files.dir);
  try {
    for (;;) {
      const phase = phaseOf(files);
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
export function rootsOf(files: LaunchFiles, phase: Phase): Roots {
  const shim = "shim" in phase ? phase.shim : undefined;
  const ranks = "status" in phase ? (phase.status?.ranks ?? []) : [];
  return {
    mark: `${LAUNCH_MARK}=${files.dir}`,
    shim,
    ranks: [...ranks, ...runningRanks(readTurns(files.journal))].flatMap(
      (rank) => rank.process ?? [],
    ),
  };
}
