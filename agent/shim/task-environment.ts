/**
 * @file The environment of each process of an array task: its slot's, and the task's own variables.
 *
 * Most array scripts read `ARRAY_INDEX` and `ARRAY_COUNT`; the same values stand under our own prefix for scripts that use those names otherwise.
 * The slot's part (`rank-environment.ts`) is made once a batch. Loaded by the shim, so it needs nothing but Node.
 */

import { TASK_MARK, taskMark, type RankPlan, type TaskPlan } from "../folder/launch-files.ts";

export interface TaskPlace {
  readonly plan: TaskPlan;
  /** Tasks of the whole array. */
  readonly count: number;
  readonly launchDir: string;
  /** Of rank 0; absent where the hosts of the task have agreed on one. */
  readonly masterPort?: number;
}

/** What a task may have beside its slot's. */
export const TASK_VARIABLES: readonly string[] = [
  "ARRAY_INDEX",
  "ARRAY_COUNT",
  "ORBWEAVER_ARRAY_INDEX",
  "ORBWEAVER_ARRAY_COUNT",
  "ORBWEAVER_CHECKPOINT_DIR",
  "ORBWEAVER_CHECKPOINT",
  TASK_MARK,
];

export function ranksOfTask(slot: readonly RankPlan[], place: TaskPlace): readonly RankPlan[] {
  const { plan, count, launchDir, masterPort } = place;
  const own = {
    ARRAY_INDEX: String(plan.task),
    ARRAY_COUNT: String(count),
    ORBWEAVER_ARRAY_INDEX: String(plan.task),
    ORBWEAVER_ARRAY_COUNT: String(count),
    ORBWEAVER_CHECKPOINT_DIR: plan.checkpointDir,
    ...(plan.checkpoint !== undefined && { ORBWEAVER_CHECKPOINT: plan.checkpoint }),
    [TASK_MARK]: taskMark(launchDir, plan.task),
  };
  return slot.map(({ rank, env }) => ({
    rank,
    env: {
      ...env,
      ...own,
      ...(masterPort !== undefined && { MASTER_PORT: String(masterPort) }),
      // torchrun's own variable, where the slot has it.
      ...(masterPort !== undefined &&
        env["PET_MASTER_PORT"] !== undefined && { PET_MASTER_PORT: String(masterPort) }),
    },
  }));
}
