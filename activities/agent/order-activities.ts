/**
 * @file Orders to a host, each short and idempotent by lease and token: checkpoint, stop, and reading a rank's output.
 *
 * A stop revokes its token on disk before it does anything else, so a `run` that arrives later starts nothing. Reads that
 * wait for output are few at a time: the others answer at once, so that an order to stop never waits for a slot.
 */

import { existsSync } from "node:fs";
import type { HostId } from "../../domain/ids.ts";
import type { LogChunk, LogQuery, OrderActivities, StopOrder } from "../agent-contract.ts";
import type { ActivityTask } from "./activity-task.ts";
import { forgetUnstored, maskOn, runOf, type AgentHost } from "./agent-host.ts";
import { orderCheckpoint } from "./checkpoint-order.ts";
import { failure } from "./failures.ts";
import { watchFolder } from "./folder-watch.ts";
import {
  launchFiles,
  rankDir,
  type LaunchFiles,
  type LaunchPlan,
  type StoredOrder,
} from "./launch.ts";
import { FINAL_KINDS, phaseOf, untilPhase } from "./local-run.ts";
import { readLog } from "./log-reader.ts";
import { checkpointDirOf, settleRun, stopRun } from "./run-end.ts";
import { readFile } from "./state-files.ts";

export interface OrderPorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly task: () => ActivityTask;
  /** Reads that may wait for output at the same time. */
  readonly maxWaitingReads: number;
}

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
      const run = host.open.get(order.leaseId);
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
      const files = launchFiles(host.layout.leaseDir(order.leaseId));
      const stored = readFile<StoredOrder>(files.order);
      await host.tokens.revoke(order.token, stored === undefined ? 0 : maskOn(stored.order));
      if (existsSync(files.report)) return { host: host.id, hadProcesses: false };
      return { host: host.id, ...(await stopLease(host, order, ports.task().cancelled)) };
    },

    stopTasks: (order) => {
      throw failure("NOT_ALLOWED", `${order.leaseId} is no batch of array tasks`);
    },

    readLogs: async (query) => {
      const files = launchFiles(hostOf(query.host).layout.leaseDir(query.leaseId));
      checkRank(files, query);
      const { cancelled } = ports.task();
      const mayWait = query.waitMs > 0 && waitingReads < ports.maxWaitingReads;
      if (!mayWait) return readChunk(files, query);
      waitingReads += 1;
      try {
        return await awaitChunk(files, query, cancelled);
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
): Promise<{ hadProcesses: boolean }> {
  const run = runOf(host, order.leaseId, order);
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

function checkRank(files: LaunchFiles, query: LogQuery): void {
  const stored = readFile<StoredOrder>(files.order);
  if (stored?.order.jobId !== query.jobId) {
    throw failure(
      "RUN_UNKNOWN",
      `${query.host} knows no run of ${query.jobId} under ${query.leaseId}; its output may have been removed for its age`,
    );
  }
  const plan = readFile<LaunchPlan>(files.plan);
  if (plan !== undefined && !plan.ranks.some(({ rank }) => rank === query.rank)) {
    const ranks = plan.ranks.map(({ rank }) => rank).join(", ");
    throw failure(
      "RUN_UNKNOWN",
      `rank ${query.rank} of ${query.jobId} does not run on ${query.host}; ranks ${ranks} do`,
    );
  }
}

/** What is there now. */
function readChunk(files: LaunchFiles, { rank, offset, maxBytes }: LogQuery): LogChunk {
  // Asked before the read: what is written after the end is none of the rank's own.
  const isFinal = FINAL_KINDS.some((kind) => kind === phaseOf(files).kind);
  const slice = readLog(rankDir(files.dir, rank), {
    offset,
    maxBytes: Math.min(maxBytes, MOST_BYTES),
    isFinal,
  });
  const { text, nextOffset, droppedBytes, totalBytes } = slice;
  return { text, nextOffset, droppedBytes, isEnd: isFinal && nextOffset >= totalBytes };
}

async function awaitChunk(
  files: LaunchFiles,
  query: LogQuery,
  cancelled: AbortSignal,
): Promise<LogChunk> {
  const untilMs = performance.now() + Math.min(query.waitMs, MOST_WAIT_MS);
  // The end of the run is no change of this folder, so the pause is what notices it.
  const folder = watchFolder(rankDir(files.dir, query.rank));
  try {
    for (;;) {
      const chunk = readChunk(files, query);
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
