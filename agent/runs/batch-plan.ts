/**
 * @file Plans a batch of array tasks for the shim: the ranks of each slot, and the checkpoints of each task.
 *
 * Slot i has the GPUs i·gpusPerTask to (i+1)·gpusPerTask − 1 of this host's part of the lease, in bit order. Its processes see no others:
 * ranks, world and nodes count inside the task. A task that spans hosts is alone in its batch, has the whole lease, and counts over all of it.
 */

import { popCount } from "../../domain/lease/lease.ts";
import type { Files } from "../ports/files.ts";
import type { RunOrder, TaskBatch } from "../../protocol/agent-contract.ts";
import { maskOn } from "./agent-host.ts";
import { newestCheckpoint, taskCheckpointDir } from "../folder/checkpoints.ts";
import type { BatchPlan, RankPlan } from "../folder/launch-files.ts";
import { gpuIds, planRanks, type RankSurroundings } from "./rank-environment.ts";

export function planBatch(
  order: RunOrder,
  batch: TaskBatch,
  {
    leaseDir,
    disk,
    uid,
    ...surroundings
  }: RankSurroundings & {
    readonly leaseDir: string;
    readonly disk: Files;
    readonly uid: number | undefined;
  },
): BatchPlan {
  const hasCheckpoints = order.run.checkpoint !== undefined;
  return {
    tasks: batch.tasks.map((task) => {
      const checkpointDir = taskCheckpointDir(surroundings.checkpointDir, task);
      const newest = hasCheckpoints ? newestCheckpoint(disk, checkpointDir, { uid }) : undefined;
      return { task, checkpointDir, ...(newest !== undefined && { checkpoint: newest.path }) };
    }),
    count: batch.count,
    slots: Array.from({ length: batch.slots }, (_, slot) =>
      planSlot(order, batch, { slot, surroundings }),
    ),
    isPortAgreed: order.gang.length > 1,
    leaseDir,
  };
}

function planSlot(
  order: RunOrder,
  { gpusPerTask }: TaskBatch,
  { slot, surroundings }: { readonly slot: number; readonly surroundings: RankSurroundings },
): readonly RankPlan[] {
  if (order.gang.length > 1) return planRanks(order, surroundings);
  const gpus = gpuIds(maskOn(order)).slice(slot * gpusPerTask, (slot + 1) * gpusPerTask);
  const mask = gpus.reduce((sum, gpu) => sum + 2 ** gpu, 0);
  return planRanks({ ...order, gang: order.gang.map((part) => ({ ...part, mask })) }, surroundings);
}

/** Why a batch cannot run as it was ordered; undefined when it can, or when there is none. */
export function batchTrouble(order: RunOrder): string | undefined {
  const { taskBatch: batch, gang } = order;
  if (batch === undefined) return undefined;
  const { tasks, slots, gpusPerTask, seq } = batch;
  const what = `batch ${seq} of ${tasks.length} tasks`;
  // Each has a folder of that name.
  if (!tasks.every(Number.isSafeInteger)) return `batch ${seq} names a task that has no number`;
  if (new Set(tasks).size < tasks.length) return `${what} names a task twice`;
  if (gang.length > 1) {
    return tasks.length === 1 && slots === 1
      ? undefined
      : `${what} in ${slots} slots spans ${gang.length} hosts, where only one task runs at a time. Send one task a batch.`;
  }
  const gpus = popCount(maskOn(order));
  return slots >= 1 && gpusPerTask >= 1 && slots * gpusPerTask <= gpus
    ? undefined
    : `${what} needs ${slots} slots of ${gpusPerTask} GPUs, and its lease has ${gpus} GPUs there`;
}
