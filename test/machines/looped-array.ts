/**
 * @file A job array in the loop of fleet and lobbies: its own machine, hosts that run its tasks, and messages that take random times.
 *
 * Each of its tasks runs for the same time; the first starts of some fail, and their tasks are started again.
 */

import { scheduledPart } from "../../domain/lease/gang-request.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import type { ArrayCommand, ArrayEvent, JobArray } from "../../machines/array/array-state.ts";
import { arrayMachine, openArray } from "../../machines/array/job-array.ts";
import type { GangCommand } from "../../machines/gang/gang-commands.ts";
import { NOT_AMENDED } from "../../machines/job/amended.ts";
import { NO_FOLLOWERS } from "../../machines/job/followers.ts";
import type { Step, Tick } from "../../machines/machine.ts";
import type { TaskEnd } from "../../protocol/agent-contract.ts";
import { JOB_RULES } from "../../protocol/control-contract.ts";
import type { LobbyExit } from "../../protocol/lobby-contract.ts";
import type { LeaseId } from "../../domain/values/ids.ts";
import { specOf } from "../domain/job-text.ts";

export interface LoopTasks {
  readonly count: number;
  readonly parallel: number;
  /** Tasks with a lower number fail at their first start. */
  readonly failing: number;
}

/** What an array of the loop reaches. */
export interface ArrayWorld {
  readonly now: () => number;
  /** After a random time, or after this one. */
  readonly later: (run: () => void, afterMs?: number) => void;
  readonly below: (most: number) => number;
  readonly tellFleet: (entry: InboxEntry) => void;
  readonly leaveLobby: (exit: LobbyExit) => void;
  readonly othersWait: () => boolean;
  readonly hasStarted: () => void;
  readonly isOver: () => void;
}

export interface LoopedArray {
  readonly feed: (event: ArrayEvent) => void;
  readonly dueAtMs: () => number;
  readonly tick: () => void;
  /** Undefined until its first request was taken. */
  readonly state: () => JobArray | undefined;
}

interface LoopedJob {
  readonly request: GangRequest;
  readonly runMs: number;
  readonly tasks: LoopTasks;
}

/** Sends its first request, and is an array once the fleet has that. */
export function loopArray(
  world: ArrayWorld,
  { request, runMs, tasks: { count, parallel, failing } }: LoopedJob,
): LoopedArray {
  const { jobId, runId, tenant, class: name, priority, gang, submittedAtMs } = request;
  const spec = specOf({
    name: "array",
    tenant,
    class: name,
    priority,
    gang: gang.gpus,
    run: { command: ["true"] },
    array: { count, parallel },
    retry: { attempts: 2, backoff: "1s" },
  });
  let array: JobArray | undefined;
  const early: ArrayEvent[] = [];
  const failed = new Set<number>();
  const running = new Map<string, () => void>();

  const submittedWith: InboxEntry = {
    kind: "request",
    request: {
      ...scheduledPart(spec),
      jobId,
      runId,
      seq: 1,
      submittedAtMs,
      requestedAtMs: submittedAtMs,
    },
  };
  world.tellFleet(submittedWith);
  world.later(() => {
    const step = openArray(
      {
        rules: JOB_RULES,
        jobId,
        runId,
        fleet: "default",
        spec,
        rule: { count, parallel },
        submittedAtMs,
        entered: { kind: "delivered" },
        isHeld: false,
        isAsked: false,
        junkSignals: 0,
        marks: 0,
        followers: NO_FOLLOWERS,
        amended: NOT_AMENDED,
      },
      world.now(),
    );
    follow(step);
    for (const event of early.splice(0)) feed(event);
  });

  function follow({ state, commands }: Step<JobArray, ArrayCommand>): void {
    const wasOver = array?.phase.kind === "over";
    array = state;
    if (array.tasks.counts.completed > 0) world.hasStarted();
    if (array.phase.kind === "over" && !wasOver) world.isOver();
    for (const command of commands) carryOut(command);
  }

  function feed(event: ArrayEvent | Tick): void {
    if (array !== undefined) follow(arrayMachine.step(array, event, world.now()));
    else if (event.kind !== "tick") early.push(event);
  }

  function carryOut(command: ArrayCommand): void {
    switch (command.kind) {
      case "tell":
      case "leave-lobby": {
        const { id, exit } = command;
        if (command.kind === "tell") world.tellFleet(command.entry);
        if (exit !== undefined) world.leaveLobby(exit);
        // Not before the fleet can have it, as its next message must not overtake this one.
        world.later(
          () => feed({ kind: "told", id, result: { kind: "delivered" } }),
          ACKNOWLEDGED_MS,
        );
        return;
      }
      case "ask-others":
        return world.later(() =>
          feed({ kind: "others-wait", id: command.id, doWait: world.othersWait() }),
        );
      case "gang":
        return toHost(command.lease, command.command);
      case "stop-tasks":
      case "tell-followers":
      case "refuse-followers":
      case "mark":
      case "memo":
      case "proofs":
        return undefined;
    }
  }

  function toHost(lease: LeaseId, command: GangCommand): void {
    if (command.kind === "stop-watching") return;
    const { id, host } = command;
    const answer = (event: Extract<ArrayEvent, { readonly kind: "gang" }>["answer"]): void =>
      feed({ kind: "gang", lease, answer: event });
    if (command.kind === "find-host") {
      world.later(() => answer({ kind: "found", id, host, agent: null }));
    } else if (command.kind === "stop") {
      world.later(() => {
        running.get(`${lease} ${host}`)?.();
        const outcome = { kind: "confirmed", report: { host, hadProcesses: true } } as const;
        answer({ kind: "stopped", id, host, outcome });
      });
    } else {
      const { tasks = [], slots = 1 } = command.order.taskBatch ?? {};
      const key = `${lease} ${host}`;
      const startedAtMs = world.now();
      const finish = (isStopped: boolean): void => {
        if (!running.delete(key)) return;
        const endedAtMs = world.now();
        const ends = tasks.map((task): TaskEnd => {
          if (isStopped) return { task, end: "not-run" };
          const isFailure = task < failing && !failed.has(task);
          if (isFailure) failed.add(task);
          const end = isFailure ? ("failed" as const) : ("completed" as const);
          return { task, end, startedAtMs, endedAtMs, exitCode: isFailure ? 1 : 0 };
        });
        const end = isStopped ? "stopped" : "completed";
        const report = { host, hasStarted: true, endedAtMs, ranks: [], tasks: ends, end } as const;
        answer({ kind: "ran", id, host, outcome: { kind: "reported", report } });
      };
      running.set(key, () => finish(true));
      world.later(() => finish(false), runMs * Math.ceil(tasks.length / slots));
    }
  }

  return {
    feed,
    dueAtMs: () => (array === undefined ? Infinity : arrayMachine.dueAtMs(array)),
    tick: () => {
      while (array !== undefined && arrayMachine.dueAtMs(array) <= world.now())
        feed({ kind: "tick" });
    },
    state: () => array,
  };
}

/** A word to the fleet takes at most this long. */
const ACKNOWLEDGED_MS = 400;
