/** @file The batches of array tasks that run on a host: slots take one task after the other, and the disk keeps a journal of their turns. */

import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { sleep, type Task } from "../kernel/process.ts";
import { keyOf, type Launch } from "./disk.ts";
import type { Fate, Witness } from "./witness.ts";

interface BatchPorts {
  readonly kernel: Kernel;
  readonly wallMs: () => number;
  readonly witness: Witness;
  readonly host: HostId;
  readonly isRunning: (order: RunOrder) => boolean;
  /** The disk still has it. */
  readonly isNoted: (launch: Launch) => boolean;
  /** What a full disk refuses is tried again. */
  readonly whenItTakes: (write: () => void) => void;
  /** All of its tasks have had their turn. */
  readonly onOver: (order: RunOrder) => void;
}

export interface Batches {
  readonly begin: (launch: Launch, fateOf: (task: number) => Fate) => void;
  /** Its processes are gone; `launch` as far as the disk knows it. */
  readonly drop: (order: RunOrder, launch: Launch | undefined) => void;
  /** Ends one task that runs. */
  readonly kill: (launch: Launch, task: number) => Task<void>;
}

interface Running {
  readonly active: Set<number>;
  readonly fateOf: (task: number) => Fate;
}

const KILL_MS = 200;

export function createBatches(ports: BatchPorts): Batches {
  const { kernel, wallMs, witness, host, isRunning, isNoted, whenItTakes, onOver } = ports;
  const batches = new Map<string, Running>();

  function over(
    launch: Launch | undefined,
    of: { readonly order: RunOrder; readonly task: number },
    how: "completed" | "failed" | "stopped",
  ): void {
    const turn = launch?.turns.get(of.task);
    if (turn !== undefined) launch?.turns.set(of.task, { ...turn, endedAtMs: wallMs(), end: how });
    batches.get(keyOf(of.order))?.active.delete(of.task);
    witness.taskEnded(host, of, how);
  }

  /** Free slots take the next tasks, once the journal may say so. */
  const next = (launch: Launch): void => whenItTakes(() => take(launch));

  function take(launch: Launch): void {
    const { order, turns, unwanted } = launch;
    const { slots = 0, tasks = [] } = order.taskBatch ?? {};
    const batch = batches.get(keyOf(order));
    if (batch === undefined || !isRunning(order)) return;
    const { active, fateOf } = batch;
    // A supervisor that has lost its journal starts no more.
    for (const task of isNoted(launch) ? tasks : []) {
      if (active.size >= slots) return;
      if (turns.has(task)) continue;
      if (unwanted.has(task)) {
        turns.set(task, {});
        continue;
      }
      turns.set(task, { startedAtMs: wallMs() });
      active.add(task);
      witness.taskStarted(host, order, task);
      const fate = fateOf(task);
      kernel.after(fate.afterMs, () => {
        if (!isRunning(order) || !active.has(task)) return;
        over(launch, { order, task }, fate.isGood ? "completed" : "failed");
        next(launch);
      });
    }
    if (active.size === 0) onOver(order);
  }

  return {
    begin: (launch, fateOf) => {
      batches.set(keyOf(launch.order), { active: new Set(), fateOf });
      next(launch);
    },
    drop: (order, launch) => {
      for (const task of batches.get(keyOf(order))?.active ?? [])
        over(launch, { order, task }, "stopped");
      batches.delete(keyOf(order));
    },
    *kill(launch, task) {
      const { order } = launch;
      yield* sleep(kernel, kernel.random.exponential(KILL_MS) + 1);
      if (!isRunning(order) || batches.get(keyOf(order))?.active.has(task) !== true) return;
      over(launch, { order, task }, "stopped");
      next(launch);
    },
  };
}
