/**
 * @file Finds how a launch ended, from the notes of the shim and the agent. Pure.
 *
 * The first that holds: the time limit; a rank that ended badly before a stop was ordered (of a broken GPU that is the host's failure); all ranks ended with 0 before any
 * was told to (a run that ends during an order has ended); a fence; a stop; a shim that vanished without a final status.
 * The exit status of a rank after TERM is ignored: a trainer that saves and exits with 0 has not completed its work.
 */

import type { MeasuredFigure } from "../folder/bandwidth-file.ts";
import type { NcclPlugins } from "../../domain/bandwidth/collective-evidence.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type {
  CheckpointMark,
  RankEnd,
  RunCause,
  RunOrder,
  RunReport,
} from "../../protocol/agent-contract.ts";
import { amountText } from "../../domain/job/job-resources.ts";
import type { MemoryUse } from "../ports/groups.ts";
import type { RankFailure, RankGroupStatus, StopNote } from "../folder/launch-files.ts";
import { FAULT_AFTER_MS, FAULT_BEFORE_MS, type LaunchFault } from "../health/launch-fault.ts";
import type { FinalPhase } from "./local-run.ts";

export interface Facts {
  readonly order: RunOrder;
  readonly phase: FinalPhase;
  readonly stop: StopNote | undefined;
  readonly bootId: string;
  readonly checkpoint: CheckpointMark | undefined;
  /** Measured by the processes here; absent when they wrote no measurement. */
  readonly measured?: MeasuredFigure | undefined;
  /** Of a step, by the processes here; absent when they wrote none, or too few. */
  readonly stepMs?: number | undefined;
  /** What NCCL has loaded of the plugin here; absent when unknown. */
  readonly ncclPlugins?: NcclPlugins | undefined;
  /** Of its GPUs, where the driver has told of one. */
  readonly fault?: LaunchFault | undefined;
  /** Of the launch's group, where its memory is limited. */
  readonly memory?: (MemoryUse & { readonly limitBytes: number }) | undefined;
  lastLines(rank: number): string;
  readonly nowMs: number;
}

export function runReport(facts: Facts): RunReport {
  const { order, phase, checkpoint, measured, stepMs, ncclPlugins, memory, nowMs } = facts;
  const status = phase.kind === "revoked" ? undefined : phase.status;
  const ranks = (status?.ranks ?? []).flatMap(({ rank, end }): RankEnd[] => {
    if (end === undefined) return [];
    const { atMs, ...how } = end;
    return [{ rank, ...how, endedAtMs: atMs }];
  });
  return {
    host: order.host,
    hasStarted: status?.startedAtMs !== undefined,
    ...(status?.startedAtMs !== undefined && { startedAtMs: status.startedAtMs }),
    endedAtMs: status?.endedAtMs ?? nowMs,
    ranks,
    ...verdict(facts, status),
    ...(checkpoint !== undefined && { checkpoint }),
    ...(measured !== undefined && { measuredGbs: measured.gbs }),
    ...(measured?.messages !== undefined && { messages: measured.messages }),
    ...(stepMs !== undefined && { stepMs }),
    ...(ncclPlugins !== undefined && { ncclPlugins }),
    ...(memory?.peakBytes !== undefined && { peakMemoryBytes: memory.peakBytes }),
  };
}

/** How a launch, or one array task, ended; `status` holds the known facts of its ranks. */
export function verdict(
  facts: Facts,
  status: RankGroupStatus | undefined,
): Pick<RunReport, "end" | "cause"> {
  const { order, phase, stop } = facts;
  if (phase.kind === "revoked" && stop?.cutOffMs === undefined)
    return stopped(stop?.reason ?? phase.reason, stop?.atMs ?? phase.atMs);
  const failure = status?.failure;
  const limitAtMs = status?.limitAtMs;
  if (limitAtMs !== undefined && (stop === undefined || limitAtMs <= stop.atMs)) {
    const message = `${order.jobName} ran on ${order.host} for its whole time limit of ${(order.timeLimitMs ?? 0) / 1000} s and was stopped. Raise timeLimit, or make it checkpoint and retry.`;
    return { end: "failed", cause: { code: "TIME_LIMIT", message, atMs: limitAtMs } };
  }
  if (failure !== undefined && (stop === undefined || failure.atMs < stop.atMs)) {
    return { end: "failed", cause: failureUnder(facts, failure, status) };
  }
  const termAtMs = stop?.termAtMs ?? Infinity;
  const isComplete =
    phase.kind === "ended" &&
    phase.status.ranks.every(({ end }) => end?.exitCode === 0 && end.atMs <= termAtMs);
  if (isComplete) return { end: "completed" };
  if (stop?.cutOffMs !== undefined) return cutOff(order, stop, stop.cutOffMs);
  if (stop?.isHostFault === true) {
    // Ranks of other hosts may have failed of it before anybody looked here.
    const { atMs } = faultCause(facts, status, stop)?.cause ?? stop;
    return { end: "failed", cause: { code: "HOST_LOST", message: stop.reason, atMs } };
  }
  if (stop !== undefined) return faultCause(facts, status, stop) ?? stopped(stop.reason, stop.atMs);
  return { end: "failed", cause: lostCause(facts) };
}

const stopped = (reason: string, atMs: number): Pick<RunReport, "end" | "cause"> => ({
  end: "stopped",
  cause: { code: "STOPPED", message: reason, atMs },
});

/**
 * A launch that is stopped, as because another host of its gang has failed: of a GPU that broke here those often fail first.
 */
function faultCause(
  { fault, order }: Facts,
  status: RankGroupStatus | undefined,
  { atMs }: { readonly atMs: number },
): Pick<RunReport, "end" | "cause"> | undefined {
  if (fault === undefined || !isDuring(fault, status, atMs)) return undefined;
  const message = `${order.jobName} was stopped on ${order.host} after a GPU of it broke: ${fault.text}`;
  return {
    end: "failed",
    cause: { code: "HOST_LOST", message, atMs: Math.min(fault.atMs, atMs) },
  };
}

/** What its own processes cannot have caused. */
function failureUnder(
  facts: Facts,
  failure: RankFailure,
  status: RankGroupStatus | undefined,
): RunCause {
  const cause = failureCause(facts, failure);
  const { fault } = facts;
  const isProcess = cause.code === "PROCESS_EXITED" || cause.code === "PROCESS_SIGNALLED";
  if (!isProcess || fault === undefined || !isDuring(fault, status, cause.atMs)) return cause;
  const message = `${cause.message}, after a GPU of it broke: ${fault.text}`;
  return { ...cause, code: "HOST_LOST", message, atMs: Math.min(fault.atMs, cause.atMs) };
}

const isDuring = (
  { atMs }: LaunchFault,
  status: RankGroupStatus | undefined,
  endedAtMs: number,
): boolean =>
  status?.startedAtMs !== undefined &&
  atMs >= status.startedAtMs - FAULT_BEFORE_MS &&
  atMs <= endedAtMs + FAULT_AFTER_MS;

function cutOff(
  { host, jobName }: RunOrder,
  { atMs }: StopNote,
  silentMs: number,
): Pick<RunReport, "end" | "cause"> {
  const message = `${host} was cut off from the control plane for ${Math.round(silentMs / 1_000)} s, longer than its fence, so ${jobName} was stopped there: its GPUs may be granted again.`;
  return { end: "failed", cause: { code: "HOST_LOST", message, atMs } };
}

function failureCause({ order, memory, lastLines }: Facts, failure: RankFailure): RunCause {
  const { rank, kind, exitCode, signal, atMs } = failure;
  const lines = lastLines(rank);
  const common = {
    rank,
    ...(exitCode !== undefined && { exitCode }),
    ...(signal !== undefined && { signal }),
    atMs,
    ...(lines !== "" && { lastLines: lines }),
  };
  const who = `rank ${rank} of ${order.jobName} on ${order.host}`;
  if (memory !== undefined && isOutOfMemory(failure, { order, memory }))
    return { code: "OUT_OF_MEMORY", message: outOfMemoryMessage(who, memory), ...common };
  switch (kind) {
    case "exited":
      return {
        code: "PROCESS_EXITED",
        message: `${who} ended with exit code ${exitCode}`,
        ...common,
      };
    case "signalled":
      return {
        code: "PROCESS_SIGNALLED",
        message: `${who} was killed by ${signal}${hintFor(order, signal)}`,
        ...common,
      };
    case "not-found":
      return { code: "COMMAND_NOT_FOUND", message: notFoundMessage(order, failure), ...common };
    case "not-started":
      return {
        code: "HOST_REFUSED",
        message: `${order.host} could not start ${who}: ${failure.message ?? "unknown"}`,
        ...common,
      };
  }
}

/**
 * A rank may end by itself because the kernel killed a process of its own. The tasks of a batch share one limit, so of them only one that was
 * killed itself counts.
 */
function isOutOfMemory(
  { kind, signal }: RankFailure,
  { order, memory }: { readonly order: RunOrder; readonly memory: MemoryUse },
): boolean {
  if (memory.oomKills === 0) return false;
  return signal === "SIGKILL" || (kind === "exited" && order.taskBatch === undefined);
}

function outOfMemoryMessage(
  who: string,
  { oomKills, limitBytes, peakBytes = limitBytes }: NonNullable<Facts["memory"]>,
): string {
  const [most, peak] = [limitBytes, peakBytes].map((bytes) => amountText("memoryBytes", bytes));
  return `${who} ran out of memory: the job may use ${most} there, it came to ${peak}, and the kernel killed ${oomKills} of its processes. Raise resources, or use less memory.`;
}

function hintFor({ run }: RunOrder, signal: string | undefined): string {
  const rule = run.checkpoint?.order;
  if (rule?.kind === "signal" && rule.signal === signal) {
    return `, the signal of its own checkpoint order: it does not handle it. Handle ${signal}, or order checkpoints by a command.`;
  }
  return signal === "SIGKILL"
    ? ". Orbweaver did not send it: check the log of the kernel's out-of-memory killer."
    : ".";
}

function notFoundMessage({ run, host }: RunOrder, { exitCode, message }: RankFailure): string {
  const what = exitCode === 127 ? "does not exist" : "may not be executed";
  const where = `in ${run.workdir ?? (run.folder === undefined ? "the scratch folder of the lease" : "the copy of its submitter's folder")} with PATH=${run.env["PATH"] ?? "the PATH of the agent"}`;
  return `the command ${JSON.stringify(run.command[0] ?? "")} ${what} on ${host} (${message ?? "not found"}), looked for ${where}. Give its full path, or install it there.`;
}

function lostCause({ order, phase, bootId, nowMs }: Facts): RunCause {
  const isReboot = "shim" in phase && phase.shim.bootId !== bootId;
  return {
    code: "HOST_LOST",
    message: isReboot
      ? `${order.host} was restarted while ${order.jobName} ran there.`
      : `the process that watched ${order.jobName} on ${order.host} was killed, so it is not known how its ranks ended; the processes that were left were stopped.`,
    atMs: nowMs,
  };
}

/** What a run reports that was never started here. */
export function neverStarted(host: HostId, reason: string, nowMs: number): RunReport {
  return { host, hasStarted: false, endedAtMs: nowMs, ranks: [], ...stopped(reason, nowMs) };
}

/** Of messages of tasks: at most 512 bytes, of which a character takes up to three. */
const TASK_MESSAGE_CHARS = 170;

/** What is reported of an order that this host does not start for a reason of the job's own. */
export function refusedOrder(
  { host, taskBatch }: RunOrder,
  { code, message }: Pick<RunCause, "code" | "message">,
  nowMs: number,
): RunReport {
  const none = { host, hasStarted: false, endedAtMs: nowMs, ranks: [] } as const;
  if (taskBatch === undefined)
    return { ...none, end: "failed", cause: { code, message, atMs: nowMs } };
  const text = message.slice(0, TASK_MESSAGE_CHARS);
  if (code === "SECRET_UNAVAILABLE") {
    // Another start may find it: tasks that have not run wait again, each time for longer, and fail at their tenth.
    const waiting = taskBatch.tasks.map((task) => ({ task, end: "not-run" }) as const);
    return { ...none, end: "failed", cause: { code, message: text, atMs: nowMs }, tasks: waiting };
  }
  // A failed task does not fail its batch.
  const tasks = taskBatch.tasks.map(
    (task) => ({ task, end: "failed", endedAtMs: nowMs, message: text }) as const,
  );
  return { ...none, end: "completed", tasks };
}
