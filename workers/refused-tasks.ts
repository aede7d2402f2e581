/**
 * @file What the workers of the control plane on this machine have refused to do for workflows, a row for each sender, in a private file for each task queue:
 * `<state folder>/refused/<queue>.json`.
 *
 * Such a worker has no heartbeat, and the history of the workflow that asked is its sender's, who can delete it. Written at once, then once a second at most, and
 * sixteen rows long, so that a flood fills neither the disk nor the audit. Workers of one queue add to one file; of two that write in the same
 * moment one may lose a count.
 */

import { join } from "node:path";
import { readJson, replaceJson } from "../agent/folder/json-files.ts";
import type { Clock } from "../agent/ports/clock.ts";
import type { Files } from "../agent/ports/files.ts";
import { addRefusal, refusedRows, type RefusedOrder } from "../domain/lease/refused-order.ts";
import { hasErrorCode } from "../lib/error-code.ts";

export interface RefusedTask {
  /** The id of the workflow that asked, by the server's word. */
  readonly sender: string;
  /** The activity. */
  readonly order: string;
  readonly why: string;
}

export interface RefusedTasks {
  note(task: RefusedTask): void;
}

interface RefusedTasksSetting {
  /** Of the fleet. */
  readonly stateDir: string;
  readonly taskQueue: string;
  readonly onTrouble: (why: string) => void;
}

const WRITE_EVERY_MS = 1_000;
const END = ".json";

const folderIn = (stateDir: string): string => join(stateDir, "refused");

export function refusedTasks(
  { files, clock }: { readonly files: Files; readonly clock: Clock },
  { stateDir, taskQueue, onTrouble }: RefusedTasksSetting,
): RefusedTasks {
  const folder = folderIn(stateDir);
  const file = join(folder, `${taskQueue}${END}`);
  /** Since the last write. */
  let fresh: readonly RefusedOrder[] = [];
  let isPaused = false;
  const write = (): void => {
    let isWritten = false;
    try {
      files.makeFolder(folder);
      const former = refusedRows(readJson(files, file));
      replaceJson(files, file, fresh.reduce(addRefusal, former));
      fresh = [];
      isWritten = true;
    } catch (error) {
      // The task is refused all the same, and the next refusal tries again.
      onTrouble(`what was refused cannot be written to ${file}: ${String(error)}`);
    }
    isPaused = true;
    clock.after(WRITE_EVERY_MS, () => {
      isPaused = false;
      if (isWritten && fresh.length > 0) write();
    });
  };
  return {
    note(task) {
      fresh = addRefusal(fresh, { ...task, atMs: clock.nowMs() });
      if (!isPaused) write();
    },
  };
}

/** What workers on this machine have refused, by their task queue. Nothing where this user may not read it. */
export function readRefusedTasks(
  files: Files,
  stateDir: string,
): readonly (readonly [taskQueue: string, rows: readonly RefusedOrder[]])[] {
  const folder = folderIn(stateDir);
  try {
    const names = files.list(folder).filter((name) => name.endsWith(END));
    return names
      .sort()
      .map((name) => [
        name.slice(0, -END.length),
        refusedRows(readJson(files, join(folder, name))),
      ]);
  } catch (error) {
    if (hasErrorCode(error, "EACCES")) return [];
    throw error;
  }
}
