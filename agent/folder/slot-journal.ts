/**
 * @file The journal of a batch of array tasks: the tasks that were started, and how each ended.
 *
 * One line of JSON an event, appended by one write, so it survives a shim that is killed right after. A start is
 * written before the process starts: a task that the journal does not name has never run. A last line that is cut off (a full
 * disk, a crash of the machine) does not count. Cost: about 10 µs a line; reading it costs about 1 ms for 500 tasks.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { dirname } from "node:path";
import type { RankGroupStatus, RankStatus, TaskStop } from "./launch-files.ts";
import type { Appender, Files } from "../ports/files.ts";
import type { System } from "../ports/system.ts";

export type TurnLine =
  /** It is about to start. */
  | { readonly kind: "start"; readonly task: number; readonly slot: number; readonly atMs: number }
  /** Its processes, once they are there. */
  | { readonly kind: "ranks"; readonly task: number; readonly ranks: readonly RankStatus[] }
  /** It has ended and nothing of it is left; `stop`: an order named it while it ran. */
  | {
      readonly kind: "end";
      readonly task: number;
      readonly status: RankGroupStatus;
      readonly stop?: TaskStop;
    }
  /** An order named it before its turn: it never starts. */
  | { readonly kind: "skip"; readonly task: number; readonly stop: TaskStop };

/** One task by the journal. */
export interface TaskTurn {
  /** Absent when it never started. */
  readonly startedAtMs?: number;
  readonly slot?: number;
  readonly isOver: boolean;
  readonly status?: RankGroupStatus;
  readonly stop?: TaskStop;
}

export type TaskTurns = ReadonlyMap<number, TaskTurn>;

export interface Journal {
  write(line: TurnLine): void;
  /** A line is not on the disk yet: no task may start. */
  isBehind(): boolean;
}

const RETRY_MS = 500;

/** `onCaughtUp` is called when a disk that refused lines has taken them all. */
export function openJournal(
  { files, clock }: Pick<System, "files" | "clock">,
  path: string,
  onCaughtUp: () => void,
): Journal {
  let appender: Appender | undefined;
  let pending = Buffer.alloc(0);
  let isRetryDue = false;
  const flush = (): void => {
    try {
      if (appender === undefined) {
        files.makeFolder(dirname(path));
        appender = files.openAppender(path);
      }
      while (pending.length > 0) pending = pending.subarray(appender.write(pending));
    } catch {
      if (isRetryDue) return;
      isRetryDue = true;
      clock.after(RETRY_MS, () => {
        isRetryDue = false;
        flush();
        if (pending.length === 0) onCaughtUp();
      });
    }
  };
  return {
    write: (line) => {
      pending = Buffer.concat([pending, Buffer.from(`${JSON.stringify(line)}\n`)]);
      if (!isRetryDue) flush();
    },
    isBehind: () => pending.length > 0,
  };
}

/** The tasks by the journal as it is now; none without a journal. */
export const readTurns = (files: Files, path: string): TaskTurns =>
  foldTurns(files.readText(path) ?? "");

function foldTurns(text: string): TaskTurns {
  const turns = new Map<number, TaskTurn>();
  for (const line of text.split("\n")) {
    const read = parseLine(line);
    if (read === undefined) continue;
    const known = turns.get(read.task) ?? { isOver: false };
    turns.set(read.task, after(known, read));
  }
  return turns;
}

function after(turn: TaskTurn, line: TurnLine): TaskTurn {
  switch (line.kind) {
    case "start":
      return { ...turn, startedAtMs: line.atMs, slot: line.slot };
    case "ranks":
      return { ...turn, status: { ranks: line.ranks } };
    case "end":
      return {
        ...turn,
        isOver: true,
        status: line.status,
        ...(line.stop !== undefined && { stop: line.stop }),
      };
    case "skip":
      return { ...turn, isOver: true, stop: line.stop };
  }
}

/** The ranks of the tasks that run. */
export const runningRanks = (turns: TaskTurns): readonly RankStatus[] =>
  [...turns.values()].flatMap(({ isOver, status }) => (isOver ? [] : (status?.ranks ?? [])));

function parseLine(line: string): TurnLine | undefined {
  if (line === "") return undefined;
  try {
    // Only the shim writes the journal, and only lines of this type.
    return JSON.parse(line) as TurnLine;
  } catch {
    return undefined;
  }
}
