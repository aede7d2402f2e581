/**
 * @file Runs a batch of array tasks in the slots of one lease: a slot that is free takes the next task at once.
 *
 * A slot goes on only when no process of its task is left (`task-run.ts`). No task starts once `stop.json` is there, or while the journal is
 * not on the disk.
 * Cost: about 2 ms of processor time a task, nearly all of it for starting the process. Needs nothing but Node.
 */

import { openJournal } from "../folder/slot-journal.ts";
import type { BatchPlan, LaunchPlan, LaunchStatus } from "../folder/launch-files.ts";
import type { Launch } from "../runs/local-run.ts";
import { openTaskRuns } from "./task-run.ts";

/** Between two looks for tasks that are to stop, when no notification comes. */
const LOOK_MS = 1_000;

export interface BatchRun {
  readonly launch: Launch;
  readonly plan: LaunchPlan;
  readonly batch: BatchPlan;
  writeStatus(status: LaunchStatus): void;
}

export function superviseBatch({ launch, plan, batch, writeStatus }: BatchRun): void {
  const { files, system } = launch;
  const freeSlots = batch.slots.map((_, slot) => slot);
  let next = 0;
  let startedAtMs: number | undefined;
  let isEnded = false;

  const isHalted = (): boolean => system.files.stat(files.stop) !== undefined;
  const fill = (): void => {
    tasks.takeStops();
    while (freeSlots.length > 0 && !journal.isBehind() && !isHalted()) {
      const task = batch.tasks[next];
      if (task === undefined) break;
      next += 1;
      if (tasks.isStopped(task.task)) continue;
      const slot = freeSlots.shift() ?? 0;
      void tasks.run(task, slot).then(() => {
        freeSlots.push(slot);
        freeSlots.sort((a, b) => a - b);
        fill();
      });
    }
    endWhenDone();
  };
  const journal = openJournal(system, files.journal, fill);
  const tasks = openTaskRuns({
    launch,
    plan,
    batch,
    journal,
    isHalted,
    onStart: (atMs) => {
      if (startedAtMs !== undefined) return;
      startedAtMs = atMs;
      writeStatus({ phase: "running", startedAtMs, ranks: [] });
    },
  });

  const endWhenDone = (): void => {
    if (isEnded || freeSlots.length < batch.slots.length || journal.isBehind()) return;
    if (next < batch.tasks.length && !isHalted()) return;
    isEnded = true;
    endLooks();
    endWatch();
    writeStatus({
      phase: "ended",
      ...(startedAtMs !== undefined && { startedAtMs }),
      endedAtMs: system.clock.nowMs(),
      ranks: [],
    });
  };

  // Idle: a timer that counts would keep a shim alive whose work is done.
  const endLooks = system.clock.every(LOOK_MS, tasks.takeStops, { isIdle: true });
  const endWatch = system.files.watch(files.dir, tasks.takeStops);
  fill();
}
