/**
 * @file `run`: one host's part of a gang from the first check to the last process, as a Temporal activity.
 *
 * prepare → heartbeat `prepared` → barrier → commit → heartbeat `running`, again every 20 s → the report. A second attempt
 * finds the folder of the launch and goes on where the first one was; what is already over is only reported. What users do
 * wrong is a report, never an error; an error means that nothing was started here, or that this agent no longer watches.
 */

import { CancelledFailure, CompleteAsyncError } from "@temporalio/activity";
import type { HostId } from "../../domain/ids.ts";
import { isServing } from "../../domain/serving-env.ts";
import type { RunActivities, RunHeartbeat, RunOrder, RunReport } from "../agent-contract.ts";
import type { ActivityTask } from "./activity-task.ts";
import { forgetUnstored, refOf, runOf, type AgentHost } from "./agent-host.ts";
import { readBandwidth } from "./bandwidth-file.ts";
import { watchProgress } from "./batch-progress.ts";
import { failure } from "./failures.ts";
import { awaitGang, awaitSiblings, type GangWatcher } from "./gang-barrier.ts";
import { FINAL_KINDS, phaseOf, runKey, untilPhase } from "./local-run.ts";
import type { FinalPhase, LocalRun } from "./local-run.ts";
import { pause } from "./process-end.ts";
import { revoke, settleRun, stopRun } from "./run-end.ts";
import { commit, prepare, type StartPorts } from "./run-start.ts";
import { readServing, untilServing } from "./serving-file.ts";
import { readFile } from "./state-files.ts";

export interface RunPorts extends StartPorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly gang: GangWatcher;
  /** The activity that is being executed. */
  readonly task: () => ActivityTask;
  /** Takes over what may run on after this attempt, until another one comes. */
  readonly onUnattended: (host: AgentHost, run: LocalRun) => void;
}

/** Two of three heartbeats may be lost. */
const BEATS_PER_TIMEOUT = 3;
const HEARTBEAT_TIMEOUT_MS = 60_000;
/** Between two questions whether a forgotten activity's workflow still lives. */
const ASK_MS = 5_000;

export function createRunActivities(ports: RunPorts): RunActivities {
  return {
    run: async (order) => {
      const host = ports.hosts.get(order.host);
      if (host === undefined) {
        const served = [...ports.hosts.keys()].join(", ");
        throw failure(
          "HOST_REFUSED",
          `this agent does not serve ${order.host}; it serves ${served}`,
        );
      }
      const run = runOf(host, refOf(order), order.jobId);
      const earlier = readFile<RunReport>(run.files.report);
      if (earlier !== undefined) {
        host.open.delete(runKey(run));
        return earlier;
      }
      return attempt(ports, { host, run, order, task: ports.task() });
    },
  };
}

interface Attempt {
  readonly host: AgentHost;
  readonly run: LocalRun;
  readonly order: RunOrder;
  readonly task: ActivityTask;
}

async function attempt(ports: RunPorts, of: Attempt): Promise<RunReport> {
  const { run, order, task } = of;
  let beat: RunHeartbeat | undefined;
  const say = (next: Pick<RunHeartbeat, "phase" | "startedAtMs" | "tasks">): void => {
    // The port is in every beat: a sibling that looks seldom may never see this host as `prepared`.
    const masterPort = run.stored?.masterPort;
    beat = {
      ...next,
      host: order.host,
      token: order.token,
      ...(masterPort !== undefined && { masterPort }),
      ...(run.stored?.tuner !== undefined && { tuner: run.stored.tuner }),
    };
    task.heartbeat(beat);
  };
  const timeoutMs = task.heartbeatTimeoutMs ?? HEARTBEAT_TIMEOUT_MS;
  const beats = setInterval(
    () => task.heartbeat(withMeasured(beat, run)),
    timeoutMs / BEATS_PER_TIMEOUT,
  );
  let endProgress = (): void => undefined;
  const over = new AbortController();
  run.attempts += 1;
  try {
    let barrierAtMs: number | undefined;
    if (phaseOf(run.files).kind === "unclaimed") {
      const isReady = await start(ports, of, () => say({ phase: "prepared" }));
      if (!isReady) return await reportNotStarted(ports, of);
      barrierAtMs = performance.now();
    } else if (phaseOf(run.files).kind === "revoked" && run.stopping === undefined) {
      throw failure(
        "STALE_TOKEN",
        `${order.leaseId} was stopped on ${order.host} before it started, and may not start any more`,
      );
    }
    const report = await attend(ports, of, (startedAtMs) => {
      const running = {
        phase: "running",
        ...(startedAtMs !== undefined && { startedAtMs }),
      } as const;
      if (order.taskBatch === undefined) say(running);
      else endProgress = watchProgress(run.files.journal, (tasks) => say({ ...running, tasks }));
      if (!isServing(order.run.command)) return;
      // Whoever waits for the service must not wait for the next sign of life.
      void untilServing(run.files.dir, over.signal).then((served) => {
        if (served !== undefined) task.heartbeat(withMeasured(beat, run));
      });
    });
    // After a failure or a stop the siblings are about to be stopped: the word must not wait for them.
    if (barrierAtMs !== undefined && report.end === "completed") {
      await awaitSiblings(order, ports.gang, { signal: task.cancelled, barrierAtMs });
    }
    return report;
  } finally {
    run.attempts -= 1;
    over.abort();
    endProgress();
    clearInterval(beats);
  }
}

/** What its processes have measured so far goes along with the signs of life. */
function withMeasured(
  beat: RunHeartbeat | undefined,
  { files }: LocalRun,
): RunHeartbeat | undefined {
  if (beat?.phase !== "running" || beat.tasks !== undefined) return beat;
  const measuredGbs = readBandwidth(files.dir);
  const served = readServing(files.dir);
  return {
    ...beat,
    ...(measuredGbs !== undefined && { measuredGbs }),
    ...(served !== undefined && { served }),
  };
}

/** Both phases of the start. False when an order to stop or the cancellation came first. */
async function start(
  ports: RunPorts,
  { host, run, order, task }: Attempt,
  sayPrepared: () => void,
): Promise<boolean> {
  const signal = AbortSignal.any([task.cancelled, run.halt.signal]);
  const startedMs = performance.now();
  const ownPort = await prepare(host, run, { order, ports }).catch((error: unknown) => {
    forgetUnstored(host, run);
    throw error;
  });
  if (!signal.aborted) sayPrepared();
  const timeoutMs = Math.max(0, order.prepareTimeoutMs - (performance.now() - startedMs));
  let gang;
  try {
    gang = await awaitGang(order, {
      gang: ports.gang,
      masterPort: ownPort,
      tuner: run.stored?.tuner,
      signal,
      timeoutMs,
    });
  } catch (error) {
    revoke(run, "the gang was not ready in time");
    host.open.delete(runKey(run));
    throw error;
  }
  if (gang.kind === "halted") return false;
  const { masterPort, isTuned = false } = gang;
  await commit(host, run, { order, masterPort, isTuned, ports });
  return true;
}

/** The start was called off: makes that final, unless a later attempt is to go on. */
async function reportNotStarted(ports: RunPorts, of: Attempt): Promise<RunReport> {
  const { host, run, order, task } = of;
  if (!run.halt.signal.aborted && task.cancelled.aborted) await leave(ports, of);
  const reason = `${order.leaseId} was called off before it started on ${order.host}`;
  await stopRun(host, run, { reason, isCheckpointFirst: false });
  return settle(host, run);
}

/** From the claim to the report. */
async function attend(
  ports: RunPorts,
  of: Attempt,
  sayRunning: (startedAtMs: number | undefined) => void,
): Promise<RunReport> {
  const { host, run, task } = of;
  const up = await untilPhase(run.files, ["running", ...FINAL_KINDS], task.cancelled);
  // Said even when all is over by now: the siblings learn from it that this host has left the barrier.
  if (up !== undefined) sayRunning("status" in up ? up.status?.startedAtMs : undefined);
  const end =
    up !== undefined && up.kind !== "running"
      ? up
      : await untilPhase(run.files, FINAL_KINDS, task.cancelled);
  if (end !== undefined) return settleRun(host, run, end);
  await leave(ports, of);
  await stopRun(host, run, { reason: "the run was cancelled", isCheckpointFirst: true });
  return settle(host, run);
}

async function settle(host: AgentHost, run: LocalRun): Promise<RunReport> {
  const end: FinalPhase | undefined = await untilPhase(run.files, FINAL_KINDS);
  if (end === undefined) throw new Error(`${run.leaseId} was stopped and is not at its end`);
  return settleRun(host, run, end);
}

/**
 * The activity was cancelled. Returns when the processes must end and this attempt is to report it; throws when not.
 *
 * A server that has forgotten the attempt says nothing about the job, and takes no report. If the workflow lives it sends
 * another attempt, which takes over; if it is closed, nobody wants the processes any more.
 */
async function leave(ports: RunPorts, { host, run, order, task }: Attempt): Promise<void> {
  switch (task.reason()) {
    case "asked":
      return;
    case "shutdown":
      throw failure(
        "HOST_LOST",
        `the agent of ${host.id} ends; ${run.leaseId} goes on there when the next agent takes it over`,
      );
    case "paused":
      throw new CancelledFailure(
        `${run.leaseId} goes on on ${host.id}; this attempt only stops watching`,
      );
    case "forgotten":
      ports.onUnattended(host, run);
      if (await isJobClosed(ports, run, order)) {
        // Not awaited: who watches unattended runs sees the end of it, and makes sure of it.
        stopRun(host, run, { reason: "its job is gone", isCheckpointFirst: false }).catch(
          () => undefined,
        );
      }
      throw new CompleteAsyncError();
  }
}

/** Asks until the server answers or the launch is over: no answer is no proof. */
async function isJobClosed({ gang }: RunPorts, run: LocalRun, order: RunOrder): Promise<boolean> {
  while (!FINAL_KINDS.some((kind) => kind === phaseOf(run.files).kind)) {
    try {
      return (await gang.look(order)).isClosed;
    } catch {
      await pause(ASK_MS);
    }
  }
  return false;
}
