/** @file Reads the progress of a batch of array tasks from its journal, for the heartbeats of `run`: one at each change, at most one a second. */

import type { RunHeartbeat } from "../../protocol/agent-contract.ts";
import { readTurns, type TaskTurns } from "../folder/slot-journal.ts";
import type { Launch } from "./local-run.ts";

export type BatchProgress = NonNullable<RunHeartbeat["tasks"]>;

const LOOK_MS = 1_000;

/** Reports at once and then at each change, until the returned function is called. */
export function watchProgress(
  { files, system }: Launch,
  say: (progress: BatchProgress) => void,
): () => void {
  let said = "";
  const look = (): void => {
    const progress = progressOf(readTurns(system.files, files.journal));
    const text = JSON.stringify(progress);
    if (text === said) return;
    said = text;
    say(progress);
  };
  look();
  return system.clock.every(LOOK_MS, look);
}

export function progressOf(turns: TaskTurns): BatchProgress {
  const all = [...turns];
  const over = all.filter(([, { isOver }]) => isOver);
  const failed = over.filter(
    ([, { status, stop }]) =>
      stop === undefined && (status?.failure !== undefined || status?.limitAtMs !== undefined),
  );
  return {
    running: all.flatMap(([task, { isOver }]) => (isOver ? [] : [task])),
    ended: over.length,
    failed: failed.length,
  };
}
