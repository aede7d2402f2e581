/**
 * @file Runs a batch of array tasks in the slots of one lease: a slot that is free takes the next task at once.
 *
 * A task is a small launch of its own: its ranks stop each other, its time limit is its own, and only when nothing of it is
 * left does its slot go on. A task that fails fails only itself. Nothing starts once `stop.json` is there.
 * Cost: about 2 ms of processor time a task, nearly all of it for starting the process. Needs nothing but Node.
 */

import { existsSync, watch } from "node:fs";
import { freePort } from "./free-port.ts";
import { rankDir, taskDir } from "./launch.ts";
import type {
  BatchPlan,
  LaunchFiles,
  LaunchPlan,
  LaunchStatus,
  RankGroupStatus,
  StopNote,
  TaskPlan,
  TaskStop,
} from "./launch.ts";
import { watchLeftovers } from "./leftovers.ts";
import { startRanks, type RankGroup } from "./rank-group.ts";
import { readFile } from "./state-files.ts";
import { ranksOfTask } from "./task-environment.ts";
import { stopsReader } from "./task-stop.ts";
import { openJournal } from "./turn-journal.ts";

/** Between two looks for tasks that are to stop, when no notification comes. */
const LOOK_MS = 1_000;

export interface BatchRun {
  readonly files: LaunchFiles;
  readonly plan: LaunchPlan;
  readonly batch: BatchPlan;
  writeStatus(status: LaunchStatus): void;
}

export function superviseBatch({ files, plan, batch, writeStatus }: BatchRun): void {
  const leftovers = watchLeftovers(files.dir);
  const newStops = stopsReader(files);
  const stops = new Map<number, TaskStop>();
  const named = new Set(batch.tasks.map(({ task }) => task));
  const freeSlots = batch.slots.map((_, slot) => slot);
  const groups = new Map<number, RankGroup>();
  const ports = new Set<number>();
  let next = 0;
  let startedAtMs: number | undefined;
  let isEnded = false;

  const isHalted = (): boolean => existsSync(files.stop);
  const fill = (): void => {
    takeStops();
    while (freeSlots.length > 0 && !journal.isBehind() && !isHalted()) {
      const task = batch.tasks[next];
      if (task === undefined) break;
      next += 1;
      if (stops.has(task.task)) continue;
      const slot = freeSlots.shift() ?? 0;
      void takeTurn(task, slot).then(() => {
        freeSlots.push(slot);
        freeSlots.sort((a, b) => a - b);
        fill();
      });
    }
    endWhenDone();
  };
  const journal = openJournal(files.journal, fill);

  const endWhenDone = (): void => {
    if (isEnded || freeSlots.length < batch.slots.length || journal.isBehind()) return;
    if (next < batch.tasks.length && !isHalted()) return;
    isEnded = true;
    clearInterval(looks);
    watcher?.close();
    writeStatus({
      phase: "ended",
      ...(startedAtMs !== undefined && { startedAtMs }),
      endedAtMs: Date.now(),
      ranks: [],
    });
  };

  const takeStops = (): void => {
    for (const { task, stop } of newStops()) {
      if (!named.has(task) || stops.has(task)) continue;
      stops.set(task, stop);
      const group = groups.get(task);
      if (group !== undefined) group.end();
      else if (!turned.has(task)) journal.write({ kind: "skip", task, stop });
    }
  };
  /** Tasks that were started. */
  const turned = new Set<number>();

  const takeTurn = async (of: TaskPlan, slot: number): Promise<void> => {
    const { task } = of;
    const masterPort = batch.isPortAgreed ? undefined : await ownPort(ports);
    takeStops();
    if (!stops.has(task) && !isHalted()) {
      turned.add(task);
      const atMs = Date.now();
      journal.write({ kind: "start", task, slot, atMs });
      if (startedAtMs === undefined) {
        startedAtMs = atMs;
        writeStatus({ phase: "running", startedAtMs, ranks: [] });
      }
      const ranks = ranksOfTask(batch.slots[slot] ?? [], {
        plan: of,
        count: batch.count,
        launchDir: files.dir,
        ...(masterPort !== undefined && { masterPort }),
      });
      const status = await runTask(task, ranks);
      await leftovers.clear(task);
      const stop = stops.get(task);
      journal.write({ kind: "end", task, status, ...(stop !== undefined && { stop }) });
    }
    if (masterPort !== undefined) ports.delete(masterPort);
  };

  const runTask = (task: number, ranks: LaunchPlan["ranks"]): Promise<RankGroupStatus> =>
    new Promise((resolve) => {
      const dir = taskDir(batch.leaseDir, task);
      const group = startRanks(
        { ...plan, ranks },
        {
          logDirOf: (rank) => rankDir(dir, rank),
          isTold: () => readFile<StopNote>(files.stop)?.termAtMs !== undefined,
          onChange: () => undefined,
          onEnd: () => {
            groups.delete(task);
            resolve(withoutProcesses(group.status()));
          },
        },
      );
      groups.set(task, group);
      const { ranks: started } = group.status();
      leftovers.note(
        task,
        started.flatMap((rank) => rank.process ?? []),
      );
      journal.write({ kind: "ranks", task, ranks: started });
    });

  // Persistent handles would keep a shim alive that has nothing to do.
  const looks = setInterval(takeStops, LOOK_MS);
  looks.unref();
  let watcher: ReturnType<typeof watch> | undefined;
  try {
    watcher = watch(files.dir, { persistent: false }, takeStops);
    watcher.on("error", () => watcher?.close());
  } catch {
    // The looks alone do it, more slowly.
  }
  fill();
}

/** An ended task's processes are of no use to anybody, and the journal is read often. */
const withoutProcesses = (status: RankGroupStatus): RankGroupStatus => ({
  ...status,
  ranks: status.ranks.map(({ rank, end }) => ({ rank, ...(end !== undefined && { end }) })),
});

/** A port that no other running task was given; it stays reserved in `taken`. None on a machine that has none to give. */
async function ownPort(taken: Set<number>): Promise<number | undefined> {
  for (;;) {
    const port = await freePort().catch(() => undefined);
    if (port === undefined) return undefined;
    if (taken.has(port)) continue;
    taken.add(port);
    return port;
  }
}
