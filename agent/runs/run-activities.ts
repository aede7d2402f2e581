/**
 * @file `run`: one host's part of a gang from the first check to the last process, as a Temporal activity.
 *
 * prepare → heartbeat `prepared` → barrier → commit → heartbeat `running`, again every 20 s → the report. Where nobody waits for these words, on the
 * one host of a gang, the first one comes after a second: each is a write of the server, and a short run ends without any. A second attempt
 * finds the folder of the launch and goes on where the first one was; a launch that is over is only reported. A user's mistake
 * is a report, never an error; an error means that nothing was started here, that this agent no longer watches, or that a GPU has broken.
 */

import type { JobClass } from "../../domain/job/job.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { isServing } from "../../domain/job/serving-env.ts";
import type {
  RunActivities,
  RunHeartbeat,
  RunOrder,
  RunReport,
} from "../../protocol/agent-contract.ts";
import type { ReadSecrets, SecretValues } from "../ports/secrets.ts";
import type { ActivityTask, GangWatcher } from "../ports/temporal.ts";
import { forgetUnstored, refOf, refuseOtherTasks, runOf, type AgentHost } from "./agent-host.ts";
import { secretNames } from "./rank-environment.ts";
import { readBandwidth } from "../folder/bandwidth-file.ts";
import { readNcclPlugins } from "../folder/nccl-file.ts";
import { readSteps } from "../folder/steps-file.ts";
import { watchProgress } from "./batch-progress.ts";
import { failure, stoppedWatching, staysOpen } from "../system/failures.ts";
import { refusedOrder } from "./run-report.ts";
import { faultOf } from "./told-fault.ts";
import { awaitGang, awaitSiblings } from "./gang-barrier.ts";
import { FINAL_KINDS, phaseOf, runKey, untilPhase } from "./local-run.ts";
import type { FinalPhase, LocalRun } from "./local-run.ts";
import { revoke, settleRun, stopRun } from "./run-end.ts";
import { fetchFolder } from "./folder-fetch.ts";
import { lookForWorkdir, runPrologue } from "./prepare-step.ts";
import { fetchImage } from "./image-fetch.ts";
import { commit, prepare, type StartPorts } from "./run-start.ts";
import { readServing, untilServing } from "../folder/serving-file.ts";
import { readJson } from "../folder/json-files.ts";

export interface RunPorts extends StartPorts {
  /** Why this host does not start the order for whoever submitted the job; undefined when it does. Fails when that cannot be found out. */
  readonly refusalOf: (order: RunOrder) => Promise<string | undefined>;
  readonly readSecrets: ReadSecrets;
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly gang: GangWatcher;
  /** The activity that is being executed. */
  readonly task: () => ActivityTask;
  /** On a gang's first host, once its processes run for the first time under a lease: how long after the grant. */
  readonly noteReady?: (jobClass: JobClass, seconds: number) => void;
  /** Watches a launch that may run on after this attempt, until another one comes. */
  readonly onUnattended: (host: AgentHost, run: LocalRun) => void;
}

/** Two of three heartbeats may be lost. */
const BEATS_PER_TIMEOUT = 3;
const HEARTBEAT_TIMEOUT_MS = 60_000;
/** A run that nobody waits for says nothing of itself before this. */
const FIRST_BEAT_MS = 1_000;
/** Between two questions whether a forgotten activity's workflow still lives. */
const ASK_MS = 5_000;

export function createRunActivities(ports: RunPorts): RunActivities {
  return {
    run: async (order) => {
      const task = ports.task();
      try {
        return await runHere(ports, order, task);
      } catch (error) {
        // The job may go on elsewhere: no attempt from before this one is to start here any more.
        ports.contact.noteAnswer(task.givenAtMs);
        throw error;
      }
    },
  };
}

async function runHere(ports: RunPorts, order: RunOrder, task: ActivityTask): Promise<RunReport> {
  const host = ports.hosts.get(order.host);
  if (host === undefined) {
    const served = [...ports.hosts.keys()].join(", ");
    throw failure("HOST_REFUSED", `this agent does not serve ${order.host}; it serves ${served}`);
  }
  const run = openRun(host, order);
  const earlier = readJson<RunReport>(host.system.files, run.files.report);
  if (earlier !== undefined) host.open.delete(runKey(run));
  refuseOtherTasks(run, order);
  return earlier ?? attempt(ports, { host, run, order, task });
}

/** Throws HOST_REFUSED where the folder of the launch cannot be made, as on a disk that has become read-only. */
function openRun(host: AgentHost, order: RunOrder): LocalRun {
  try {
    return runOf(host, refOf(order), order.jobId);
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
    throw failure(
      "HOST_REFUSED",
      `${host.id} refuses ${order.leaseId} of ${order.jobName}: it cannot write to ${host.layout.dir} (${error.message}). Mend the disk.`,
    );
  }
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
  const { clock } = run.system;
  const endBeats = clock.every(timeoutMs / BEATS_PER_TIMEOUT, () =>
    task.heartbeat(withMeasured(beat, run)),
  );
  let endProgress = (): void => undefined;
  const over = new AbortController();
  run.attempts += 1;
  try {
    let barrierAtMs: number | undefined;
    if (phaseOf(run).kind === "unclaimed") {
      // Before anything is noted or stopped for the order's token: it may be forged.
      const refusal = await submitterRefusal(ports, of);
      if (refusal !== undefined) return refusal;
      const secrets = await lookUpSecrets(ports, of);
      if ("report" in secrets) return secrets.report;
      const isReady = await start(ports, of, { say, secrets: secrets.values });
      if (!isReady) return await reportNotStarted(ports, of);
      barrierAtMs = clock.elapsedMs();
    } else if (phaseOf(run).kind === "revoked" && run.stopping === undefined) {
      throw failure(
        "STALE_TOKEN",
        `${order.leaseId} was stopped on ${order.host} before it started, and may not start any more`,
      );
    }
    const report = await keepContact(ports, of, (startedAtMs) => {
      if (barrierAtMs !== undefined) noteReady(ports, order, startedAtMs);
      const running = {
        phase: "running",
        ...(startedAtMs !== undefined && { startedAtMs }),
      } as const;
      if (beat === undefined && isAwaitedByNone(order))
        endProgress = clock.after(FIRST_BEAT_MS, () => say(running));
      else if (order.taskBatch === undefined) say(running);
      else endProgress = watchProgress(run, (tasks) => say({ ...running, tasks }));
      if (!isServing(order.run.command)) return;
      // The service's callers must not wait for the next periodic heartbeat.
      void untilServing(run.system, run.files.dir, over.signal).then((served) => {
        if (served === undefined) return;
        task.heartbeat(withMeasured(beat, run));
        // What it has left may be more than the host keeps.
        of.host.weights?.trim(clock.nowMs());
      });
    });
    // After a failure or a stop the siblings are about to be stopped: the report must not wait for them.
    if (barrierAtMs !== undefined && report.end === "completed") {
      await awaitSiblings(order, {
        gang: ports.gang,
        clock,
        signal: task.cancelled,
        barrierAtMs,
      });
    }
    run.isReported = true;
    return report;
  } finally {
    run.attempts -= 1;
    over.abort();
    endProgress();
    endBeats();
  }
}

/** By two clocks, the host's and the fleet's. */
function noteReady(
  ports: RunPorts,
  { gang, host, holder, taskBatch }: RunOrder,
  startedAtMs: number | undefined,
): void {
  const isFirst = gang[0]?.host === host && (taskBatch === undefined || taskBatch.seq === 1);
  if (startedAtMs === undefined || !isFirst) return;
  ports.noteReady?.(holder.class, Math.max(0, startedAtMs - holder.grantedAtMs) / 1_000);
}

/** It has no sibling at a barrier, and reports neither tasks nor the address of a service. */
const isAwaitedByNone = ({ gang, taskBatch, run: { command } }: RunOrder): boolean =>
  gang.length === 1 && taskBatch === undefined && !isServing(command);

/** Adds what is known of its processes so far: bandwidth, step, what NCCL has loaded, and the address of its service. */
function withMeasured(
  beat: RunHeartbeat | undefined,
  { files, system }: LocalRun,
): RunHeartbeat | undefined {
  if (beat?.phase !== "running" || beat.tasks !== undefined) return beat;
  const measuredGbs = readBandwidth(system.files, files.dir)?.gbs;
  const stepMs = readSteps(system.files, files.dir);
  const ncclPlugins = readNcclPlugins(system.files, files.dir);
  const served = readServing(system.files, files.dir);
  return {
    ...beat,
    ...(measuredGbs !== undefined && { measuredGbs }),
    ...(stepMs !== undefined && { stepMs }),
    ...(ncclPlugins !== undefined && { ncclPlugins }),
    ...(served !== undefined && { served }),
  };
}

/** The report of an order that its submitter may not give on this host. The job ends with it: no other run would be allowed here. */
async function submitterRefusal(
  ports: RunPorts,
  { host, run, order }: Attempt,
): Promise<RunReport | undefined> {
  const forget = (): void => forgetUnstored(host, run);
  const why = await ports.refusalOf(order).catch((error: unknown) => {
    forget();
    throw error;
  });
  if (why === undefined) return undefined;
  forget();
  const message = `${host.id} does not start ${order.jobName}: ${why}`;
  return refusedOrder(order, { code: "NOT_ALLOWED", message }, run.system.clock.nowMs());
}

/** Before the gang starts anywhere. A run that is called off meanwhile needs none. */
async function lookUpSecrets(
  ports: RunPorts,
  { host, run, order, task }: Attempt,
): Promise<{ readonly values: SecretValues } | { readonly report: RunReport }> {
  if (secretNames(order).length === 0) return { values: {} };
  const signal = AbortSignal.any([task.cancelled, run.halt.signal]);
  const reading = await ports.readSecrets(order, signal);
  if (reading.kind === "read") return reading;
  if (signal.aborted) return { values: {} };
  forgetUnstored(host, run);
  const message = `${host.id} cannot look up a secret of ${order.jobName}: ${reading.why}. Put it there, or correct run.env.`;
  const atMs = run.system.clock.nowMs();
  return { report: refusedOrder(order, { code: "SECRET_UNAVAILABLE", message }, atMs) };
}

/** Both phases of the start. False when an order to stop or the cancellation came first. */
async function start(
  ports: RunPorts,
  { host, run, order, task }: Attempt,
  {
    say,
    secrets,
  }: {
    readonly say: (next: Pick<RunHeartbeat, "phase">) => void;
    readonly secrets: SecretValues;
  },
): Promise<boolean> {
  const signal = AbortSignal.any([task.cancelled, run.halt.signal]);
  const { clock } = run.system;
  const startedMs = clock.elapsedMs();
  const ownPort = await prepare(host, run, { order, ports }).catch((error: unknown) => {
    forgetUnstored(host, run);
    throw error;
  });
  let gang;
  try {
    await fetchImage(host, run, {
      ...{ order, ports, signal },
      sayPulling: () => say({ phase: "pulling" }),
    });
    await fetchFolder(host, run, { order, ports, signal });
    await lookForWorkdir({ host, run, order, ports, signal });
    await runPrologue(host, { order, signal });
    const isInDoubt = ports.contact.isInDoubt(host.id, task.givenAtMs);
    if (!signal.aborted && (isInDoubt || !isAwaitedByNone(order))) say({ phase: "prepared" });
    const timeoutMs = Math.max(0, order.prepareTimeoutMs - (clock.elapsedMs() - startedMs));
    gang = await awaitGang(order, {
      gang: ports.gang,
      clock,
      masterPort: ownPort,
      isInDoubt,
      tuner: run.stored?.tuner,
      signal,
      timeoutMs,
    });
  } catch (error) {
    revoke(run, "the gang was not ready");
    host.open.delete(runKey(run));
    throw error;
  }
  if (gang.kind === "halted") return false;
  const { masterPort, isTuned = false } = gang;
  await commit(host, run, { order, masterPort, isTuned, secrets, ports });
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
async function keepContact(
  ports: RunPorts,
  of: Attempt,
  sayRunning: (startedAtMs: number | undefined) => void,
): Promise<RunReport> {
  const { host, run, task } = of;
  const up = await untilPhase(run, ["running", ...FINAL_KINDS], task.cancelled);
  // Sent even when all is over by now: the siblings learn from it that this host has left the barrier.
  if (up !== undefined) sayRunning("status" in up ? up.status?.startedAtMs : undefined);
  const end =
    up !== undefined && up.kind !== "running"
      ? up
      : await untilPhase(run, FINAL_KINDS, AbortSignal.any([task.cancelled, run.fault.signal]));
  if (end !== undefined) return settleRun(host, run, end);
  if (!task.cancelled.aborted) {
    ports.onUnattended(host, run);
    throw faultOf(run);
  }
  await leave(ports, of);
  await stopRun(host, run, { reason: "the run was cancelled", isCheckpointFirst: true });
  return settle(host, run);
}

async function settle(host: AgentHost, run: LocalRun): Promise<RunReport> {
  const end: FinalPhase | undefined = await untilPhase(run, FINAL_KINDS);
  if (end === undefined) throw new Error(`${run.leaseId} was stopped and is not at its end`);
  return settleRun(host, run, end);
}

/**
 * The activity was cancelled. Returns when the processes must end and this attempt is to report it; throws when not.
 *
 * A server that has forgotten the attempt says nothing about the job, and takes no report. If the workflow lives it sends
 * another attempt, which takes over; if it is closed, the processes have no purpose any more.
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
      throw stoppedWatching(
        `${run.leaseId} goes on on ${host.id}; this attempt only stops watching`,
      );
    case "forgotten": {
      const isClosed = await isJobClosed(ports, run, order);
      // Not sooner: an end that the watch sees while this attempt still counts is left to it, and nobody takes its report.
      ports.onUnattended(host, run);
      if (isClosed) {
        // Not awaited: the watch over unattended runs sees to its end.
        stopRun(host, run, { reason: "its job is gone", isCheckpointFirst: false }).catch(
          () => undefined,
        );
      }
      throw staysOpen();
    }
  }
}

/** Asks until the server answers or the launch is over: no answer is no proof. */
async function isJobClosed({ gang }: RunPorts, run: LocalRun, order: RunOrder): Promise<boolean> {
  while (!FINAL_KINDS.some((kind) => kind === phaseOf(run).kind)) {
    try {
      return (await gang.look(order)).isClosed;
    } catch {
      await run.system.clock.pause(ASK_MS);
    }
  }
  return false;
}
