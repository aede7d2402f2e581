/**
 * @file Finds how a batch of array tasks ended: each task by the rules of a launch of its own (`run-report.ts`), and the batch. Pure.
 *
 * A batch is `completed` when all its tasks have had their turn, whatever their results; a task that an order to stop named has had its
 * turn. Only an end that the task caused itself, its time limit included, is its failure. A task was stopped when its batch was stopped, its
 * host was cut off, its shim was killed, or the machine could not start its process.
 */

import type { RunCause, RunReport, TaskBatch, TaskEnd } from "../../protocol/agent-contract.ts";
import { packEnds } from "../../protocol/packed-ends.ts";
import type { StopNote } from "../folder/launch-files.ts";
import type { FinalPhase } from "./local-run.ts";
import { verdict, type Facts } from "./run-report.ts";
import { orphanedHead, unfinishedTail } from "../system/utf8-cut.ts";
import type { TaskTurn, TaskTurns } from "../folder/slot-journal.ts";

export interface BatchFacts extends Omit<Facts, "lastLines"> {
  readonly batch: TaskBatch;
  readonly turns: TaskTurns;
  lastLines(task: number, rank: number): string;
}

/** Of a failed task's message, its last lines included. */
const MESSAGE_BYTES = 512;
const CUT = "\n…";

export function batchReport(facts: BatchFacts): RunReport {
  const { order, phase, batch, turns, nowMs } = facts;
  const status = phase.kind === "revoked" ? undefined : phase.status;
  const found = batch.tasks.map((task) => taskFinding(facts, task, turns.get(task)));
  const starts = [...turns.values()].flatMap(({ startedAtMs }) => startedAtMs ?? []);
  const ends = found.map(({ end }) => end);
  const isThrough = found.every(({ hasHadTurn }) => hasHadTurn);
  return {
    host: order.host,
    hasStarted: starts.length > 0,
    ...(starts.length > 0 && { startedAtMs: Math.min(...starts) }),
    endedAtMs: status?.endedAtMs ?? nowMs,
    ranks: [],
    ...(isThrough ? { end: "completed" } : interruption(facts, found)),
    ...(batch.mostTexts === undefined
      ? { tasks: ends }
      : { packedTasks: packEnds(ends, batch.mostTexts) }),
  };
}

interface TaskFinding {
  readonly end: TaskEnd;
  /** Its batch's end does not make it run again. */
  readonly hasHadTurn: boolean;
  /** The machine could not start it, or failed under it. */
  readonly hostCause?: RunCause;
}

function taskFinding(facts: BatchFacts, task: number, turn: TaskTurn | undefined): TaskFinding {
  if (turn === undefined) return { end: { task, end: "not-run" }, hasHadTurn: false };
  if (turn.startedAtMs === undefined) {
    const message = turn.stop?.reason ?? "";
    return { end: { task, end: "stopped", message }, hasHadTurn: true };
  }
  const { order, stop } = facts;
  const { end, cause } = verdict(
    {
      ...facts,
      order: { ...order, jobName: `${order.jobName}[${task}]` },
      phase: phaseOfTask(facts.phase, turn),
      stop: earliest(stop, turn),
      lastLines: (rank) => facts.lastLines(task, rank),
    },
    turn.status,
  );
  const isHosts = cause?.code === "HOST_LOST" || cause?.code === "HOST_REFUSED";
  const isOwn = end === "completed" || (end === "failed" && !isHosts);
  const how = cause?.code === undefined || !isOwn ? firstEnd(turn) : cause;
  const text = cause === undefined ? "" : [cause.message, cause.lastLines ?? ""].join("\n").trim();
  return {
    end: {
      task,
      end: end === "failed" && !isOwn ? "stopped" : end,
      startedAtMs: turn.startedAtMs,
      endedAtMs: turn.status?.endedAtMs ?? facts.nowMs,
      ...(how?.exitCode !== undefined && { exitCode: how.exitCode }),
      ...(how?.signal !== undefined && { signal: how.signal }),
      ...(text !== "" && { message: shortened(text) }),
    },
    hasHadTurn: isOwn || turn.stop !== undefined,
    ...(cause !== undefined && isHosts && { hostCause: cause }),
  };
}

/** The batch's end as that of a launch without a final status: a stop, a fence, a lost shim. */
function interruption(
  facts: BatchFacts,
  found: readonly TaskFinding[],
): Pick<RunReport, "end" | "cause"> {
  const { phase, stop, order } = facts;
  const hostCause = found.find((task) => task.hostCause !== undefined)?.hostCause;
  // Also where another host of the task failed of it first, and this one was stopped for that.
  const isOfFault = facts.fault !== undefined && order.gang.length > 1;
  const isUnstopped = stop === undefined && phase.kind === "ended";
  if (hostCause !== undefined && (isOfFault || isUnstopped))
    return { end: "failed", cause: hostCause };
  const cut: FinalPhase =
    phase.kind === "ended" ? { kind: "lost", shim: phase.shim, status: undefined } : phase;
  return verdict({ ...facts, phase: cut, lastLines: () => "" }, undefined);
}

/** A task is a launch of its own; one that the journal does not see to its end was cut off with its shim. */
function phaseOfTask(phase: FinalPhase, { isOver, status }: TaskTurn): FinalPhase {
  if (phase.kind === "revoked") return phase;
  const { shim } = phase;
  if (!isOver || status === undefined) return { kind: "lost", shim, status: undefined };
  return { kind: "ended", shim, status: { phase: "ended", ...status } };
}

function earliest(batchStop: StopNote | undefined, { stop }: TaskTurn): StopNote | undefined {
  if (stop === undefined) return batchStop;
  if (batchStop !== undefined && batchStop.atMs <= stop.atMs) return batchStop;
  return { ...stop, termAtMs: stop.atMs };
}

const firstEnd = ({ status }: TaskTurn) => status?.ranks[0]?.end;

/** Keeps the first line, which names the cause, and the end of the rest, the last output of the task. */
function shortened(text: string): string {
  if (Buffer.byteLength(text) <= MESSAGE_BYTES) return text;
  const [first = "", ...rest] = text.split("\n");
  const head = Buffer.from(first).subarray(0, MESSAGE_BYTES / 2);
  const whole = head.subarray(0, head.length - unfinishedTail(head));
  const tail = Buffer.from(rest.join("\n")).subarray(
    -(MESSAGE_BYTES - whole.length - Buffer.byteLength(CUT)),
  );
  return `${whole.toString()}${CUT}${tail.subarray(orphanedHead(tail)).toString()}`;
}
