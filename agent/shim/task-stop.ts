/**
 * @file The tasks of a batch that are to stop: noted by the agent, stopped by the shim.
 *
 * The note is on disk before the agent answers. The shim reads it before each start and whenever its folder changes. It writes the result
 * for each task to the journal, and only the journal counts: a task that has not started when the note is written may have
 * started when it is read. A batch that comes later finds the note.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { readJson, replaceJson } from "../folder/json-files.ts";
import type { StopTasksNote, TaskStop } from "../folder/launch-files.ts";
import type { Launch } from "../runs/local-run.ts";

/** Adds to the note; the first reason for a task stays. */
export function noteStops(
  { files, system }: Launch,
  tasks: readonly number[],
  stop: TaskStop,
): void {
  const noted = readJson<StopTasksNote>(system.files, files.stopTasks)?.tasks ?? [];
  const known = new Set(noted.map(({ task }) => task));
  const added = tasks.filter((task) => !known.has(task)).map((task) => ({ task, stop }));
  if (added.length === 0) return;
  const next: StopTasksNote = { tasks: [...noted, ...added] };
  replaceJson(system.files, files.stopTasks, next);
}

/** Returns the stops that were noted since the last call; cheap when there are none. */
export function stopsReader({ files, system }: Launch): () => StopTasksNote["tasks"] {
  let count = 0;
  let sizeBytes = 0;
  return () => {
    // Notes only grow.
    const size = system.files.stat(files.stopTasks)?.sizeBytes ?? 0;
    if (size === sizeBytes) return [];
    sizeBytes = size;
    const added = (readJson<StopTasksNote>(system.files, files.stopTasks)?.tasks ?? []).slice(
      count,
    );
    count += added.length;
    return added;
  };
}
