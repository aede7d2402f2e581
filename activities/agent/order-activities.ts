/**
 * @file Orders to a host, each short and idempotent by lease and token: checkpoint, stop (a lease, or tasks of it), and reading output.
 *
 * A stop revokes its token on disk before it does anything else, so a `run` that arrives later starts nothing. Reads that
 * wait for output are few at a time: the others answer at once, so that an order to stop never waits for a slot.
 */

import type { HostId } from "../../domain/ids.ts";
import type {
  LogChunk,
  LogQuery,
  OrderActivities,
  RunReport,
  StopOrder,
  StopReport,
} from "../agent-contract.ts";
import type { ActivityTask } from "./activity-task.ts";
import {
  forgetUnstored,
  maskOn,
  newestOrder,
  openRuns,
  runOf,
  type AgentHost,
} from "./agent-host.ts";
import { orderCheckpoint } from "./checkpoint-order.ts";
import { failure } from "./failures.ts";
import { watchFolder } from "./folder-watch.ts";
import { FINAL_KINDS, untilPhase, type LocalRun } from "./local-run.ts";
import { launchFiles } from "./launch.ts";
import { readLog } from "./log-reader.ts";
import { findOutput, type RankOutput } from "./rank-output.ts";
import { checkpointDirOf, settleRun, stopRun } from "./run-end.ts";
import { readFile } from "./state-files.ts";
import { stopTasks } from "./stop-tasks.ts";

export interface OrderPorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly task: () => ActivityTask;
  /** Reads that may wait for output at the same time. */
  readonly maxWaitingReads: number;
}

/** Two of three heartbeats may be lost; where nobody listens, one a minute is none too many. */
const BEATS_PER_TIMEOUT = 3;
const NO_BEAT_MS = 60_000;
/** An answer must fit into a payload with room to spare. */
const MOST_BYTES = 512 * 1024;
const MOST_WAIT_MS = 60_000;
/** Between two looks when no notification comes. */
const LOOK_MS = 250;

export function createOrderActivities(ports: OrderPorts): OrderActivities {
  let waitingReads = 0;
  const hostOf = (id: HostId): AgentHost => {
    const host = ports.hosts.get(id);
    if (host === undefined) throw failure("HOST_REFUSED", `this agent does not serve ${id}`);
    return host;
  };
  return {
    checkpoint: async (order) => {
      const host = hostOf(order.host);
      const run = openRuns(host, order.leaseId)
        .filter(({ stored }) => stored !== undefined)
        .at(-1);
      if (run?.stored === undefined || run.stored.order.jobId !== order.jobId) {
        return {
          host: host.id,
          isComplete: false,
          message: `${order.leaseId} of ${order.jobId} does not run on ${host.id}`,
        };
      }
      const signal = AbortSignal.any([run.hurry.signal, ports.task().cancelled]);
      return {
        host: host.id,
        ...(await orderCheckpoint(run, { checkpointDir: checkpointDirOf(host, run), signal })),
      };
    },

    stop: async (order) => {
      const host = hostOf(order.host);
      const task = ports.task();
      // A checkpoint may take minutes; that this agent has died is to be noticed sooner.
      const timeoutMs = task.heartbeatTimeoutMs ?? NO_BEAT_MS;
      const beats = setInterval(() => task.heartbeat(), timeoutMs / BEATS_PER_TIMEOUT);
      try {
        const stored = newestOrder(host, order.leaseId);
        await host.tokens.revoke(order.token, stored === undefined ? 0 : maskOn(stored));
        return { host: host.id, ...(await stopLease(host, order, task.cancelled)) };
      } finally {
        clearInterval(beats);
      }
    },

    stopTasks: (order) => stopTasks(hostOf(order.host), order, ports.task().cancelled),

    readLogs: async (query) => {
      const output = findOutput(hostOf(query.host), query);
      const { cancelled } = ports.task();
      const mayWait = query.waitMs > 0 && waitingReads < ports.maxWaitingReads;
      if (!mayWait) return readChunk(output, query);
      waitingReads += 1;
      try {
        return await awaitChunk(output, query, cancelled);
      } finally {
        waitingReads -= 1;
      }
    },
  };
}

async function stopLease(
  host: AgentHost,
  order: StopOrder,
  cancelled: AbortSignal,
): Promise<Omit<StopReport, "host">> {
  // What has a report is over; a lease that was never heard of is noted, so that its run starts nothing.
  if (newestOrder(host, order.leaseId) === undefined) runOf(host, order, order.jobId);
  const outcomes = await Promise.all(
    openRuns(host, order.leaseId).map((run) =>
      stopOne(host, runOf(host, run, order.jobId), { order, cancelled }),
    ),
  );
  const report = lastReport(host, order);
  const checkpoint = outcomes.flatMap((outcome) => outcome.checkpoint ?? []).at(-1);
  const newest = checkpoint ?? report?.checkpoint;
  return {
    hadProcesses: outcomes.some(({ hadProcesses }) => hadProcesses),
    ...(newest !== undefined && { checkpoint: newest }),
    ...(report !== undefined && { report }),
  };
}

/** Of a lease that runs no batches. */
function lastReport(host: AgentHost, { leaseId }: StopOrder): RunReport | undefined {
  const files = launchFiles(host.layout.leaseDir(leaseId));
  const report = readFile<RunReport>(files.report);
  return report?.hasStarted === true && report.tasks === undefined ? report : undefined;
}

async function stopOne(
  host: AgentHost,
  run: LocalRun,
  { order, cancelled }: { readonly order: StopOrder; readonly cancelled: AbortSignal },
): Promise<Omit<StopReport, "host">> {
  const stopping = stopRun(host, run, order);
  const outcome = await Promise.race([stopping, aborted(cancelled)]);
  if (outcome === undefined) {
    // It goes on without us; whoever asks again joins it.
    throw failure(
      "HOST_LOST",
      `the agent of ${host.id} ends before ${order.leaseId} has; order the stop again`,
    );
  }
  if (run.stored === undefined) {
    forgetUnstored(host, run);
    return outcome;
  }
  const end = await untilPhase(run.files, FINAL_KINDS);
  if (end === undefined) return outcome;
  const { checkpoint } = await settleRun(host, run, end);
  return { ...outcome, ...(checkpoint !== undefined && { checkpoint }) };
}

/** What is there now. */
function readChunk(output: RankOutput, { offset, maxBytes }: LogQuery): LogChunk {
  // Asked before the read: what is written after the end is none of the rank's own.
  const isFinal = output.hasEnded();
  const slice = readLog(output.dir, {
    offset,
    maxBytes: Math.min(maxBytes, MOST_BYTES),
    isFinal,
  });
  const { text, nextOffset, droppedBytes, totalBytes } = slice;
  return { text, nextOffset, droppedBytes, isEnd: isFinal && nextOffset >= totalBytes };
}

async function awaitChunk(
  output: RankOutput,
  query: LogQuery,
  cancelled: AbortSignal,
): Promise<LogChunk> {
  const untilMs = performance.now() + Math.min(query.waitMs, MOST_WAIT_MS);
  // The end of the run is no change of this folder, so the pause is what notices it.
  const folder = watchFolder(output.dir);
  try {
    for (;;) {
      const chunk = readChunk(output, query);
      const leftMs = untilMs - performance.now();
      if (chunk.text !== "" || chunk.isEnd || leftMs <= 0 || cancelled.aborted) return chunk;
      await folder.changed(Math.min(leftMs, LOOK_MS), cancelled);
    }
  } finally {
    folder.close();
  }
}

const aborted = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
