/**
 * @file Orders to a host, each short and idempotent by lease and token: checkpoint, stop (a lease, or tasks of it), and reading output.
 *
 * A stop revokes its token on disk before anything else, so a `run` that arrives later starts nothing. Few reads at a time may
 * wait for output: the others answer at once, so an order to stop never waits for a slot.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type {
  LeaseOrder,
  LogChunk,
  LogQuery,
  OrderActivities,
  RunReport,
  StopOrder,
  StopReport,
} from "../../protocol/agent-contract.ts";
import type { OrderCheck } from "../ports/order-check.ts";
import type { ActivityTask } from "../ports/temporal.ts";
import {
  forgetUnstored,
  maskOn,
  newestOrder,
  openRuns,
  runOf,
  type AgentHost,
} from "../runs/agent-host.ts";
import { orderCheckpoint } from "../runs/checkpoint-order.ts";
import { failure } from "../system/failures.ts";
import { watchFolder } from "../folder/folder-watch.ts";
import { readJson } from "../folder/json-files.ts";
import type { System } from "../ports/system.ts";
import { FINAL_KINDS, untilPhase, type LocalRun } from "../runs/local-run.ts";
import { launchFiles } from "../folder/launch-files.ts";
import { readLog } from "../shim/log-reader.ts";
import { findOutput, type RankOutput } from "./rank-output.ts";
import { checkpointPlaceOf, settleRun, stopRun } from "../runs/run-end.ts";
import { stopTasks } from "./stop-tasks.ts";

export interface OrderPorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly task: () => ActivityTask;
  readonly check: OrderCheck;
  /** Reads that may wait for output at the same time. */
  readonly maxWaitingReads: number;
}

/** Two of three heartbeats may be lost; without a timeout the server takes none, and one a minute costs little. */
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
  /** The host, if the sender may give orders about the lease. Before anything is noted: the order may be forged. */
  const allowed = async (order: LeaseOrder): Promise<AgentHost> => {
    const host = hostOf(order.host);
    const refusal = await ports.check.lease(order, newestOrder(host, order.leaseId));
    if (refusal !== undefined) throw refused(order, refusal);
    return host;
  };
  return {
    checkpoint: async (order) => {
      const host = await allowed(order);
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
        ...(await orderCheckpoint(run, { ...checkpointPlaceOf(host, run), signal })),
      };
    },

    stop: async (order) => {
      const host = await allowed(order);
      const task = ports.task();
      // A checkpoint may take minutes; that this agent has died is to be noticed sooner.
      const timeoutMs = task.heartbeatTimeoutMs ?? NO_BEAT_MS;
      const { clock } = host.system;
      const endBeats = clock.every(timeoutMs / BEATS_PER_TIMEOUT, () => task.heartbeat());
      try {
        const stored = newestOrder(host, order.leaseId);
        await host.tokens.revoke(order.token, stored === undefined ? 0 : maskOn(stored));
        return { host: host.id, ...(await stopLease(host, order, task.cancelled)) };
      } finally {
        endBeats();
      }
    },

    stopTasks: async (order) =>
      await stopTasks(await allowed(order), order, ports.task().cancelled),

    readLogs: async (query) => {
      const host = hostOf(query.host);
      const refusal = await ports.check.logs(query, newestOrder(host, query.leaseId));
      if (refusal !== undefined) throw refused(query, refusal);
      const output = findOutput(host, query);
      const { cancelled } = ports.task();
      const mayWait = query.waitMs > 0 && waitingReads < ports.maxWaitingReads;
      if (!mayWait) return readChunk(host.system, output, query);
      waitingReads += 1;
      try {
        return await awaitChunk(host.system, output, { query, cancelled });
      } finally {
        waitingReads -= 1;
      }
    },
  };
}

const refused = ({ host, leaseId }: Pick<LeaseOrder, "host" | "leaseId">, why: string): Error =>
  failure("NOT_ALLOWED", `${host} does not obey an order about ${leaseId}: ${why}`);

async function stopLease(
  host: AgentHost,
  order: StopOrder,
  cancelled: AbortSignal,
): Promise<Omit<StopReport, "host">> {
  // A launch with a report is over; an unknown lease is noted, so that its run starts nothing.
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
  const report = readJson<RunReport>(host.system.files, files.report);
  return report?.hasStarted === true && isOfGang(report) ? report : undefined;
}

const isOfGang = ({ tasks, packedTasks }: RunReport): boolean =>
  tasks === undefined && packedTasks === undefined;

async function stopOne(
  host: AgentHost,
  run: LocalRun,
  { order, cancelled }: { readonly order: StopOrder; readonly cancelled: AbortSignal },
): Promise<Omit<StopReport, "host">> {
  const stopping = stopRun(host, run, order);
  const outcome = await Promise.race([stopping, aborted(cancelled)]);
  if (outcome === undefined) {
    // The stop goes on; a second order joins it.
    throw failure(
      "HOST_LOST",
      `the agent of ${host.id} ends before ${order.leaseId} has; order the stop again`,
    );
  }
  if (run.stored === undefined) {
    forgetUnstored(host, run);
    return outcome;
  }
  const end = await untilPhase(run, FINAL_KINDS);
  if (end === undefined) return outcome;
  const { checkpoint } = await settleRun(host, run, end);
  return { ...outcome, ...(checkpoint !== undefined && { checkpoint }) };
}

/** The output that is there now. */
function readChunk(
  { files }: System,
  output: RankOutput,
  { offset, maxBytes }: LogQuery,
): LogChunk {
  // Before the read: output that comes after the end is not the rank's own.
  const isFinal = output.hasEnded();
  const slice = readLog(files, output.dir, {
    offset,
    maxBytes: Math.min(maxBytes, MOST_BYTES),
    isFinal,
  });
  const { text, nextOffset, droppedBytes, totalBytes } = slice;
  return { text, nextOffset, droppedBytes, isEnd: isFinal && nextOffset >= totalBytes };
}

async function awaitChunk(
  system: System,
  output: RankOutput,
  { query, cancelled }: { readonly query: LogQuery; readonly cancelled: AbortSignal },
): Promise<LogChunk> {
  const { clock } = system;
  const untilMs = clock.elapsedMs() + Math.min(query.waitMs, MOST_WAIT_MS);
  // The end of the run is no change of this folder; the pause notices it.
  const folder = watchFolder(system, output.dir);
  try {
    for (;;) {
      const chunk = readChunk(system, output, query);
      const leftMs = untilMs - clock.elapsedMs();
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
