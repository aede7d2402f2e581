/**
 * @file The tasks of a batch that are not wanted any more: noted by the agent, carried out by the shim.
 *
 * The note is there before anything is promised. The shim reads it before each start and whenever its folder changes; what it
 * did about a task stands in the journal, and only that counts: a task that has not started when the note is written may have
 * started when it is read. A batch that has not come yet finds the note when it comes.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { statSync } from "node:fs";
import type { LaunchFiles, StopTasksNote, TaskStop } from "./launch.ts";
import { readFile, replaceFile } from "./state-files.ts";

/** Adds to the note; the first reason for a task stays. */
export function noteStops(files: LaunchFiles, tasks: readonly number[], stop: TaskStop): void {
  const noted = readFile<StopTasksNote>(files.stopTasks)?.tasks ?? [];
  const known = new Set(noted.map(({ task }) => task));
  const added = tasks.filter((task) => !known.has(task)).map((task) => ({ task, stop }));
  if (added.length === 0) return;
  replaceFile(files.stopTasks, { tasks: [...noted, ...added] } satisfies StopTasksNote);
}

/** Gives what was noted since the last call; cheap when nothing was. */
export function stopsReader(files: LaunchFiles): () => StopTasksNote["tasks"] {
  let count = 0;
  let sizeBytes = 0;
  return () => {
    // Notes only grow.
    const size = statSync(files.stopTasks, { throwIfNoEntry: false })?.size ?? 0;
    if (size === sizeBytes) return [];
    sizeBytes = size;
    const added = (readFile<StopTasksNote>(files.stopTasks)?.tasks ?? []).slice(count);
    count += added.length;
    return added;
  };
}
