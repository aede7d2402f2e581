/**
 * @file An agent: serves one host, or all hosts of a simulated cluster, from two task queues, until it is told to end.
 *
 * Start: lock, new epoch, what the state folder says still runs, two workers, then `here` until the cluster's presence attends it. The
 * epoch is in the queues' names, so tasks meant for an earlier life are never taken by this one; the job sends its `run` again, which
 * takes over. End (a signal, or `shutdown`): polling stops, the presence is told, and the shims run on.
 */

import { fileURLToPath } from "node:url";
import type { Client } from "@temporalio/client";
import type { DataConverter } from "@temporalio/common";
import { Worker, type NativeConnection } from "@temporalio/worker";
import { temporalTask } from "../activities/agent/activity-task.ts";
import {
  findRun,
  openHost,
  refOf,
  startedRuns,
  type AgentHost,
} from "../activities/agent/agent-host.ts";
import { reportCheckpoints } from "../activities/agent/checkpoint-report.ts";
import { openContactBook, type ContactBook } from "../activities/agent/contact-book.ts";
import { onlyInContact } from "../activities/agent/contact-gate.ts";
import { createFence, watchFence } from "../activities/agent/fence.ts";
import { createGangWatcher, isLeaseOver } from "../activities/agent/gang-watcher.ts";
import { createLinkActivities } from "../activities/agent/link-activities.ts";
import { takeHostLock } from "../activities/agent/host-lock.ts";
import type { LogLimits } from "../activities/agent/launch.ts";
import type { LocalRun } from "../activities/agent/local-run.ts";
import {
  reportCollectives,
  type CollectivesReports,
} from "../activities/agent/collectives-report.ts";
import {
  reportMeasured,
  type MeasureReports,
  type TellModel,
} from "../activities/agent/measure-report.ts";
import { sinceBootMs } from "../activities/agent/monotonic-clock.ts";
import { createOrderActivities } from "../activities/agent/order-activities.ts";
import { beginEpoch } from "../activities/agent/presence-epoch.ts";
import { temporalAttendTask } from "../activities/agent/presence-task.ts";
import { openPresence } from "../activities/agent/presence.ts";
import { DEFAULT_RETENTION, removeOldLaunches } from "../activities/agent/retention.ts";
import { createRunActivities } from "../activities/agent/run-activities.ts";
import { hostLayout } from "../activities/agent/state-layout.ts";
import { watchUnattended } from "../activities/agent/unattended-run.ts";
import type { AskTuner } from "../activities/collectives/run-files.ts";
import { tunerOver } from "../activities/outfit/collectives.ts";
import type { PresenceActivities, RunActivities } from "../activities/agent-contract.ts";
import type { ClusterId, HostId } from "../domain/ids.ts";
import type { AgentAddress, InboxEntry } from "../scheduling/ledger.ts";
import {
  farewell,
  sayGone,
  sayHere,
  signalFleet,
  signalModel,
  tellUntilHeard,
  type TellFleet,
} from "./fleet-notice.ts";

export interface AgentOptions {
  readonly connection: NativeConnection;
  readonly client: Client;
  readonly namespace?: string;
  readonly dataConverter?: DataConverter;
  readonly fleet: string;
  readonly cluster: ClusterId;
  readonly hosts: readonly { readonly id: HostId; readonly gpuCount: number }[];
  /** Folder of all agents of this machine; see `activities/agent/state-layout.ts`. */
  readonly stateDir: string;
  /** What the other hosts of a gang connect to. */
  readonly address: string;
  /** Brings an entry to the fleet, or fails; by default a signal of this client. */
  readonly tellFleet?: TellFleet;
  /** Brings what jobs measured to the bandwidth model of a cluster, or fails; by default a signal of this client. */
  readonly tellModel?: TellModel;
  /** Brings what the steps of jobs took to a tuner of collectives, and its answer back; by default an update of this client. */
  readonly askTuner?: AskTuner;
  /** Called once, when the agent is attended: the fleet has its report by then. */
  readonly onHello?: (agent: AgentAddress) => void;
  /** What a person on call would want to read. */
  readonly onNote?: (note: string) => void;
  /** The compiled entry of the shim, when it is not beside this file. */
  readonly shimPath?: string;
  readonly log?: LogLimits;
  readonly minFreeBytes?: number;
}

export interface RunningAgent {
  readonly agent: AgentAddress;
  /** Resolves when the agent has ended; fails when a worker did. */
  readonly ended: Promise<void>;
  /** Ends the agent and leaves what runs on its hosts alone. */
  shutdown(): Promise<void>;
}

/** A rank's output: 32 MiB in 4 parts. */
const LOG_LIMITS: LogLimits = Object.freeze({ partBytes: 8 * 2 ** 20, parts: 4 });
const MIN_FREE_BYTES = 64 * 2 ** 20;
/** Beyond those that orders can hold for long: for reads, reports and attendances, which are short. */
const SHORT_ORDER_SLOTS = 64;
/** Leaves most of them to the others. */
const MAX_WAITING_READS = 24;
const LEAST_RUN_SLOTS = 16;
/** One long poll a minute for each queue of an idle host; more while there is work. */
const POLLERS = { type: "autoscaling", minimum: 1, initial: 1, maximum: 5 } as const;
const SWEEP_MS = 3_600_000;

/** Starts an agent; returns as soon as it polls. Throws HOST_ALREADY_SERVED when another one serves one of the hosts. */
export async function runAgent(options: AgentOptions): Promise<RunningAgent> {
  const unlock = lockHosts(options);
  try {
    return await startAgent(options, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

async function startAgent(options: AgentOptions, unlock: () => void): Promise<RunningAgent> {
  const { fleet, stateDir, client, onNote = () => undefined } = options;
  const hosts = new Map(
    options.hosts.map(({ id, gpuCount }) => [id, openHost({ stateDir, fleet, id, gpuCount })]),
  );
  const clock = sinceBootMs;
  const contacts = openContactBook([...hosts.values()], clock);
  const agent = newAddress(options, hosts);
  const tellFleet = options.tellFleet ?? signalFleet(client, fleet);
  const closing = new AbortController();
  const onUnattended = (host: AgentHost, run: LocalRun): void => {
    const onVacated = (): void => {
      const vacated: InboxEntry = { kind: "vacated", lease: run.leaseId, hosts: [host.id] };
      void tellUntilHeard(tellFleet, vacated, closing.signal);
    };
    watchUnattended(host, run, {
      closing: closing.signal,
      isOver: (order) => isLeaseOver(client, order),
      onVacated,
    }).catch((error: unknown) => {
      onNote(`${run.leaseId} on ${host.id}: ${messageOf(error)}`);
    });
  };

  const fence = createFence({ hosts, contacts, clock, onNote });
  const presence = openPresence({
    agent,
    hosts,
    contacts,
    fence,
    clock,
    task: () => temporalAttendTask(client),
    sayHere: () => sayHere(client, options, { agent, hosts: [...hosts.keys()] }),
    closing: closing.signal,
    onAttended: () => options.onHello?.(agent),
  });
  const measured = reportMeasured({
    hosts: hosts.values(),
    tellModel: options.tellModel ?? signalModel(client, fleet),
    closing: closing.signal,
    nowMs: Date.now,
  });
  const collectives = reportCollectives({
    hosts: [...hosts.values()],
    ask: options.askTuner ?? tunerOver(client),
    closing: closing.signal,
    nowMs: Date.now,
  });
  const attending = presence.activities;
  const duty = { hosts, agent, contacts, onUnattended, measured, collectives, presence: attending };
  const workers = await createWorkers(options, { ...duty, closing: closing.signal });
  for (const host of hosts.values()) {
    for (const run of startedRuns(host)) onUnattended(host, run);
    removeOldOutput(host, closing.signal, onNote);
  }
  watchFence(fence, { hosts, contacts }, closing.signal);
  void reportCheckpoints({ hosts: hosts.values(), tellFleet, closing: closing.signal });
  const running = workers.map((worker) => worker.run());
  void presence.keep();

  const stopWorkers = (): void => {
    for (const worker of workers) if (worker.getState() === "RUNNING") worker.shutdown();
  };
  const end = async (): Promise<void> => {
    try {
      // The SDK stops all workers of the process on SIGTERM and SIGINT; if only one ends, the other has no use.
      await Promise.race(running);
      stopWorkers();
      await Promise.all(running);
    } finally {
      closing.abort();
      await farewell(() => Promise.all([sayGone(client, options, agent.epoch), presence.ended()]));
      unlock();
    }
  };
  const ended = end();
  // Whoever awaits `ended` or `shutdown` sees the failure; nobody has to.
  ended.catch(() => undefined);
  return {
    agent,
    ended,
    shutdown: () => {
      stopWorkers();
      return ended;
    },
  };
}

function lockHosts({ hosts, stateDir, fleet }: AgentOptions): () => void {
  const taken: (() => void)[] = [];
  const unlock = (): void => {
    for (const release of taken) release();
  };
  try {
    for (const { id } of hosts) taken.push(takeHostLock(hostLayout(stateDir, fleet, id).lock, id));
  } catch (error) {
    unlock();
    throw error;
  }
  return unlock;
}

function newAddress(
  { fleet, cluster, hosts, address }: AgentOptions,
  served: ReadonlyMap<HostId, AgentHost>,
): AgentAddress {
  const epoch = beginEpoch(
    [...served.values()].map(({ layout }) => layout.epoch),
    Date.now(),
  );
  const [only, ...others] = hosts;
  const host =
    only !== undefined && others.length === 0 ? `.${only.id.slice(only.id.indexOf("/") + 1)}` : "";
  const name = `${fleet}.${cluster}${host}.${epoch}`;
  return { epoch, runQueue: `run.${name}`, orderQueue: `order.${name}`, address };
}

interface Duty {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly agent: AgentAddress;
  readonly contacts: ContactBook;
  readonly onUnattended: (host: AgentHost, run: LocalRun) => void;
  readonly measured: MeasureReports;
  readonly collectives: CollectivesReports;
  readonly presence: PresenceActivities;
  readonly closing: AbortSignal;
}

async function createWorkers(options: AgentOptions, duty: Duty): Promise<readonly Worker[]> {
  const { hosts, agent, contacts, onUnattended, measured, collectives, presence } = duty;
  const { connection, client, namespace = client.options.namespace, dataConverter } = options;
  const common = {
    connection,
    namespace,
    ...(dataConverter !== undefined && { dataConverter }),
    activityTaskPollerBehavior: POLLERS,
    maxHeartbeatThrottleInterval: "100ms",
    defaultHeartbeatThrottleInterval: "100ms",
  } as const;
  const gpuCount = options.hosts.reduce((sum, host) => sum + host.gpuCount, 0);
  const { run } = createRunActivities({
    hosts,
    gang: createGangWatcher(client),
    task: temporalTask,
    onUnattended,
    shimPath: options.shimPath ?? defaultShimPath(),
    env: process.env,
    log: options.log ?? LOG_LIMITS,
    minFreeBytes: options.minFreeBytes ?? MIN_FREE_BYTES,
  });
  const runs: RunActivities = {
    run: async (order) => {
      const report = await run(order);
      measured.ended(order, report);
      void collectives.ended(order);
      return report;
    },
  };
  const orders = createOrderActivities({
    hosts,
    task: temporalTask,
    maxWaitingReads: MAX_WAITING_READS,
  });
  const links = createLinkActivities({
    hosts,
    address: agent.address,
    task: temporalTask,
    closing: duty.closing,
  });
  return Promise.all([
    Worker.create({
      ...common,
      taskQueue: agent.runQueue,
      activities: onlyInContact(runs, {
        contacts,
        clock: sinceBootMs,
        isKnown: (order) => {
          const host = hosts.get(order.host);
          return (
            host === undefined || findRun(host, refOf(order), order.jobId).stored !== undefined
          );
        },
        cancelled: () => temporalTask().cancelled,
      }),
      // Two a GPU: while one run ends the next one may already prepare.
      maxConcurrentActivityTaskExecutions: Math.max(LEAST_RUN_SLOTS, 2 * gpuCount),
    }),
    Worker.create({
      ...common,
      taskQueue: agent.orderQueue,
      activities: { ...orders, ...presence, ...links },
      // A stop, and a checkpoint before it, may last for as long as their graces: one of each a GPU.
      maxConcurrentActivityTaskExecutions: SHORT_ORDER_SLOTS + 2 * gpuCount,
    }),
  ]);
}

/** Beside this file once compiled; from the sources, what the last build made. */
function defaultShimPath(): string {
  const beside = import.meta.url.endsWith(".ts") ? "../dist/workers/shim.cjs" : "./shim.cjs";
  return fileURLToPath(new URL(beside, import.meta.url));
}

/** Clears old output away, now and every hour. */
function removeOldOutput(
  host: AgentHost,
  closing: AbortSignal,
  onNote: (note: string) => void,
): void {
  const sweep = (): void => {
    try {
      removeOldLaunches(host, DEFAULT_RETENTION, Date.now());
    } catch (error) {
      onNote(`old output of ${host.id}: ${messageOf(error)}`);
    }
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_MS);
  timer.unref();
  closing.addEventListener("abort", () => clearInterval(timer), { once: true });
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
