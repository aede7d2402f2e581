/**
 * @file Runs the tasks of a batch, each in the slot that it is given, and carries out orders to stop tasks.
 *
 * A task is a small launch of its own: its ranks stop each other, its time limit is its own, and its failure fails no other task. It is over
 * when no process of it is left. Loaded by the shim, so it needs nothing but Node.
 */

import { readContainer } from "../containment/container.ts";
import { readJson } from "../folder/json-files.ts";
import {
  rankDir,
  taskDir,
  type BatchPlan,
  type LaunchPlan,
  type RankGroupStatus,
  type StopNote,
  type TaskPlan,
  type TaskStop,
} from "../folder/launch-files.ts";
import type { Journal } from "../folder/slot-journal.ts";
import type { Launch } from "../runs/local-run.ts";
import { watchOrphans } from "./orphan-processes.ts";
import { startRanks, type RankGroup, type RankGroupPorts } from "./rank-group.ts";
import { ranksOfTask } from "./task-environment.ts";
import { stopsReader } from "./task-stop.ts";

export interface TaskRunPorts {
  readonly launch: Launch;
  readonly plan: LaunchPlan;
  readonly batch: BatchPlan;
  readonly journal: Journal;
  /** The whole batch is being stopped. */
  readonly isHalted: () => boolean;
  /** A task starts now. */
  readonly onStart: (atMs: number) => void;
}

export interface TaskRuns {
  /** Carries out the orders to stop tasks that have come since the last call. */
  takeStops(): void;
  isStopped(task: number): boolean;
  /** Resolves when the task is over, or when it was stopped before its start. */
  run(of: TaskPlan, slot: number): Promise<void>;
}

export function openTaskRuns(ports: TaskRunPorts): TaskRuns {
  const { launch, batch, journal, isHalted } = ports;
  const { files, system } = launch;
  const container = readContainer(system.files, files);
  const orphans = watchOrphans(files.dir, system);
  const newStops = stopsReader(launch);
  const named = new Set(batch.tasks.map(({ task }) => task));
  const stops = new Map<number, TaskStop>();
  const started = new Set<number>();
  const groups = new Map<number, RankGroup>();
  /** Of the running tasks. */
  const masterPorts = new Set<number>();

  const takeStops = (): void => {
    for (const { task, stop } of newStops()) {
      if (!named.has(task) || stops.has(task)) continue;
      stops.set(task, stop);
      const group = groups.get(task);
      if (group !== undefined) group.end();
      else if (!started.has(task)) journal.write({ kind: "skip", task, stop });
    }
  };

  const runRanks = (task: number, ranks: LaunchPlan["ranks"]): Promise<RankGroupStatus> =>
    new Promise((resolve) => {
      const dir = taskDir(batch.leaseDir, task);
      const groupPorts: RankGroupPorts = {
        logDirOf: (rank) => rankDir(dir, rank),
        isNotified: () => readJson<StopNote>(system.files, files.stop)?.termAtMs !== undefined,
        onChange: () => undefined,
        onEnd: () => {
          groups.delete(task);
          resolve(withoutProcesses(group.status()));
        },
      };
      const group = startRanks({ ...ports.plan, container, ranks }, groupPorts, system);
      groups.set(task, group);
      const { ranks: up } = group.status();
      orphans.note(
        task,
        up.flatMap((rank) => rank.process ?? []),
      );
      journal.write({ kind: "ranks", task, ranks: up });
    });

  return {
    takeStops,
    isStopped: (task) => stops.has(task),
    run: async (of, slot) => {
      const { task } = of;
      const masterPort = batch.isPortAgreed ? undefined : await ownPort(masterPorts, system);
      takeStops();
      if (!stops.has(task) && !isHalted()) {
        started.add(task);
        const atMs = system.clock.nowMs();
        journal.write({ kind: "start", task, slot, atMs });
        ports.onStart(atMs);
        const ranks = ranksOfTask(batch.slots[slot] ?? [], {
          plan: of,
          count: batch.count,
          launchDir: files.dir,
          ...(masterPort !== undefined && { masterPort }),
        });
        const status = await runRanks(task, ranks);
        await orphans.clear(task);
        const stop = stops.get(task);
        journal.write({ kind: "end", task, status, ...(stop !== undefined && { stop }) });
      }
      if (masterPort !== undefined) masterPorts.delete(masterPort);
    },
  };
}

/** The identities of ended processes have no reader, and the journal is read often. */
const withoutProcesses = (status: RankGroupStatus): RankGroupStatus => ({
  ...status,
  ranks: status.ranks.map(({ rank, end }) => ({ rank, ...(end !== undefined && { end }) })),
});

/** A port that no other running task was given; it stays reserved in `taken`. Undefined on a machine without a free port. */
async function ownPort(
  taken: Set<number>,
  { freePort }: Pick<Launch["system"], "freePort">,
): Promise<number | undefined> {
  for (;;) {
    const port = await freePort().catch(() => undefined);
    if (port === undefined) return undefined;
    if (taken.has(port)) continue;
    taken.add(port);
    return port;
  }
}
