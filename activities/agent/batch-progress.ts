/** @file How far a batch of array tasks is, from its journal, for the heartbeats of `run`: said when it changes, not more often than every second. */

import type { RunHeartbeat } from "../agent-contract.ts";
import { readTurns, type TaskTurns } from "./turn-journal.ts";

export type BatchProgress = NonNullable<RunHeartbeat["tasks"]>;

const LOOK_MS = 1_000;

/** Says it at once and then at each change, until the returned function is called. */
export function watchProgress(journal: string, say: (progress: BatchProgress) => void): () => void {
  let said = "";
  const look = (): void => {
    const progress = progressOf(readTurns(journal));
    const text = JSON.stringify(progress);
    if (text === said) return;
    said = text;
    say(progress);
  };
  look();
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
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
