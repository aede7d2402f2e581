/**
 * @file An agent: serves one host, or all hosts of a simulated cluster, from two task queues, until it is stopped.
 *
 * Start: lock, a new epoch, running launches from the state folder, two workers; it announces itself until its presence's heartbeat activity starts. Queues have the
 * epoch in their names, so no agent takes an earlier one's tasks; `run` comes again and adopts launches. End: polling stops, it deregisters, the shims go on.
 */

import { setMaxListeners } from "node:events";
import { fileURLToPath } from "node:url";
import { activityInfo } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import type { DataConverter } from "@temporalio/common";
import { Worker, type NativeConnection } from "@temporalio/worker";
import type { HostTrust } from "../access/host-trust.ts";
import { liveTrust } from "../access/live-trust.ts";
import { temporalTask } from "../agent/system/activity-task.ts";
import {
  findRun,
  maskOn,
  openHost,
  refOf,
  startedRuns,
  type AgentHost,
} from "../agent/runs/agent-host.ts";
import { leaveGroups } from "../agent/runs/host-groups.ts";
import { reportCheckpoints } from "../agent/telemetry/checkpoint-report.ts";
import type { ContainerKind } from "../agent/containment/container.ts";
import { findNative, nativeFile, SUPERVISOR_VARIABLE } from "../agent/system/native-supervisor.ts";
import { openContactStore, type ContactStore } from "../agent/presence/contact-store.ts";
import { onlyInContact } from "../agent/presence/contact-gate.ts";
import { createFence, watchFence } from "../agent/presence/fence.ts";
import { createGangWatcher, isLeaseOver } from "../agent/system/gang-watcher.ts";
import { createLinkActivities } from "../agent/link-probe/link-activities.ts";
import { takeHostLocks } from "../agent/system/host-lock.ts";
import type { LogLimits } from "../agent/folder/launch-files.ts";
import type { LocalRun } from "../agent/runs/local-run.ts";
import {
  reportCollectives,
  type CollectivesReports,
} from "../agent/telemetry/collectives-report.ts";
import {
  reportMeasured,
  type MeasureReports,
  type TellModel,
} from "../agent/telemetry/measure-report.ts";
import { nodeSystem } from "../agent/system/node-system.ts";
import { createOrderActivities } from "../agent/orders/order-activities.ts";
import { createSessionActivities } from "../agent/sessions/session-activities.ts";
import { temporalHeartbeatTask } from "../agent/system/heartbeat-task.ts";
import { openPresence } from "../agent/presence/presence.ts";
import { createRunActivities } from "../agent/runs/run-activities.ts";
import { readyMeter } from "./ready-meter.ts";
import { hostSecrets } from "../agent/system/host-secrets.ts";
import { openStarter } from "../agent/system/starter.ts";
import { hostLayout } from "../agent/system/state-layout.ts";
import { watchUnattended } from "../agent/runs/unattended-run.ts";
import type { AskTuner } from "../protocol/collective-files.ts";
import { tunerOver } from "../activities/launch-extras/collectives.ts";
import type { PresenceActivities, RunActivities, RunOrder } from "../protocol/agent-contract.ts";
import type { ClusterId, HostId } from "../domain/values/ids.ts";
import type { AgentAddress, InboxEntry } from "../domain/lease/inbox-entry.ts";
import { MIN_FREE_BYTES } from "../agent/health/disk-check.ts";
import { newAddress } from "./agent-address.ts";
import type { HealthRules } from "./health-file.ts";
import { watchHealth } from "./host-health.ts";
import { hostContainment } from "./host-containment.ts";
import { hostImages } from "./host-images.ts";
import { hostPool, withWeights, type ServedHost } from "./host-resources.ts";
import { placedBy } from "./placed-hosts.ts";
import { endAndSayStrays, healTokens, hostOwners } from "./lost-state.ts";
import { ownPollerIdentity } from "./own-identity.ts";
import { linkMonitorWorkflowId, presenceWorkflowId } from "../protocol/messages.ts";
import { removeOldOutput } from "./old-output.ts";
import { onlyFrom, onlyFromItsJob, orderCheck } from "./order-check.ts";
import { sessionCheck } from "./session-check.ts";
import { refusalTally, type RefusalTally } from "./refusal-tally.ts";
import { packageRoot } from "./server/package-root.ts";
import {
  fleetKeysOf,
  jobUidOf,
  notingBatches,
  ownUserTrust,
  runAsOf,
  submitterCheck,
  trustWord,
} from "./submitter-check.ts";
import { usedNumbersOf } from "./used-numbers.ts";
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
  readonly hosts: readonly ServedHost[];
  /** Folder of all agents of this machine; see `agent/system/state-layout.ts`. */
  readonly stateDir: string;
  /** The address that the other hosts of a gang connect to. */
  readonly address: string;
  /** Sends an entry to the fleet, or fails; by default a signal of this client. */
  readonly tellFleet?: TellFleet;
  /** Sends measurements of jobs to the bandwidth model of a cluster, or fails; by default a signal of this client. */
  readonly tellModel?: TellModel;
  /** Sends step times of jobs to a tuner of collectives and returns its answer; by default an update of this client. */
  readonly askTuner?: AskTuner<AbortSignal>;
  /** Called once, when the heartbeat activity starts; the fleet has the agent's report by then. */
  readonly onRegistered?: (agent: AgentAddress) => void;
  /** The log for operators. */
  readonly onNote?: (note: string) => void;
  /** The compiled entry of the shim, when it is not beside this file. */
  readonly shimPath?: string;
  readonly log?: LogLimits;
  readonly minFreeBytes?: number;
  /** Whose jobs the hosts start; by default those of this process's user. */
  readonly trust?: HostTrust;
  /** How the machine differs from the host's description, in words of `domain/fleet/machine-differences.ts`. */
  readonly differences?: readonly string[];
  /** How the health of the hosts is watched; by default not at all. */
  readonly health?: HealthRules;
  /** The kinds of containers to try for launches, the best first; by default all. */
  readonly containers?: readonly ContainerKind[];
}

export interface RunningAgent {
  readonly agent: AgentAddress;
  /** Resolves when the agent has ended; fails when a worker did. */
  readonly ended: Promise<void>;
  /** Ends the agent; launches on its hosts continue. */
  shutdown(): Promise<void>;
}

/** A rank's output: 32 MiB in 4 parts. */
const LOG_LIMITS: LogLimits = Object.freeze({ partBytes: 8 * 2 ** 20, parts: 4 });
/** Slots beyond those that orders can hold for long: for reads, reports and heartbeats, which are short. */
const SHORT_ORDER_SLOTS = 64;
/** Most slots stay free for other tasks. */
const MAX_WAITING_READS = 24;
const LEAST_RUN_SLOTS = 16;
/** One long poll a minute for each queue of an idle host; more while there is work. */
const POLLERS = { type: "autoscaling", minimum: 1, initial: 1, maximum: 5 } as const;

/** Starts an agent; returns when it polls. Throws HOST_ALREADY_SERVED when another agent serves one of the hosts. */
export async function runAgent(options: AgentOptions): Promise<RunningAgent> {
  const { stateDir, fleet } = options;
  const lockOf = (id: HostId): string => hostLayout(nodeSystem.files, { stateDir, fleet, id }).lock;
  const unlock = takeHostLocks(options.hosts.map(({ id }) => ({ id, lock: lockOf(id) })));
  try {
    return await startAgent(options, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

async function startAgent(given: AgentOptions, unlock: () => void): Promise<RunningAgent> {
  const { fleet, stateDir, client, onNote = () => undefined } = given;
  const options = { ...given, hosts: given.hosts.map(placedBy({ fleet, stateDir, onNote })) };
  const native = findNative(nativeFile(packageRoot()), process.env[SUPERVISOR_VARIABLE]);
  const { containment, word } = hostContainment(options, native);
  const closing = new AbortController();
  setMaxListeners(0, closing.signal); // Each of the agent's watches listens for its end.
  const minFreeBytes = options.minFreeBytes ?? MIN_FREE_BYTES;
  const health = watchHealth({ ...options, minFreeBytes }, closing.signal);
  const ownerOf = await hostOwners(client, fleet);
  const heal = (host: Parameters<typeof healTokens>[0]): Promise<void> =>
    healTokens(host, { client, fleet, closing: closing.signal, onNote });
  const trust = liveTrust(options.trust ?? ownUserTrust(), { say: onNote });
  const all = { stateDir, fleet, containment, heal, jobUid: jobUidOf(trust()) };
  const hosts = new Map(
    options.hosts.map((host) => {
      const { id } = host;
      const own = { owner: ownerOf(id), ...health.on(id), ...hostPool(host, stateDir, fleet) };
      return [id, openHost({ ...host, ...own, ...all }, nodeSystem)];
    }),
  );
  await endAndSayStrays([...hosts.values()], onNote);
  const { clock } = nodeSystem;
  const contacts = openContactStore([...hosts.values()], nodeSystem);
  const agent = newAddress(options, hosts);
  const tellFleet = options.tellFleet ?? signalFleet(client, fleet);
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
      const why = error instanceof Error ? error.message : String(error);
      onNote(`${run.leaseId} on ${host.id}: ${why}`);
    });
  };

  const refusals = refusalTally(hosts, onNote);
  const fence = createFence({ hosts, contacts, clock, onNote });
  const presence = openPresence({
    agent,
    hosts,
    contacts,
    fence,
    clock,
    task: () => temporalHeartbeatTask(client),
    givenAtMs: () => temporalTask().givenAtMs,
    announce: () => sayHere(client, options, { agent, hosts: [...hosts.keys()] }),
    closing: closing.signal,
    onHeartbeat: () => options.onRegistered?.(agent),
    beat: () => refusals.withRefusals(withWeights(health.beat(), hosts.values())),
  });
  const measured = reportMeasured({
    hosts: hosts.values(),
    tellModel: options.tellModel ?? signalModel(client, fleet),
    closing: closing.signal,
    system: nodeSystem,
  });
  const collectives = reportCollectives({
    hosts: [...hosts.values()],
    ask: options.askTuner ?? tunerOver(client),
    closing: closing.signal,
    system: nodeSystem,
  });
  const workers = await createWorkers(options, {
    ...{ hosts, agent, contacts, onUnattended, measured, collectives, native, containment: word },
    ...{ refusals, trust },
    presence: presence.activities,
    closing: closing.signal,
  });
  for (const host of hosts.values()) {
    for (const run of startedRuns(host)) onUnattended(host, run);
    removeOldOutput(host, closing.signal, onNote);
  }
  watchFence(fence, { hosts, contacts, clock }, closing.signal);
  void reportCheckpoints({ hosts: hosts.values(), clock, tellFleet, closing: closing.signal });
  await health.begin([...hosts.values()]);
  const running = workers.map((worker) => worker.run());
  void presence.keep();

  const stopWorkers = (): void => {
    for (const worker of workers) if (worker.getState() === "RUNNING") worker.shutdown();
  };
  const end = async (): Promise<void> => {
    try {
      // The SDK stops all workers of the process on SIGTERM and SIGINT; when one ends, the other must end too.
      await Promise.race(running);
      stopWorkers();
      await Promise.all(running);
    } finally {
      closing.abort();
      await farewell(() => Promise.all([sayGone(client, options, agent.epoch), presence.ended()]));
      for (const host of hosts.values()) leaveGroups(host);
      unlock();
    }
  };
  const ended = end();
  // `ended` and `shutdown` report the failure; awaiting them is optional.
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

interface Duty {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly agent: AgentAddress;
  readonly contacts: ContactStore;
  readonly onUnattended: (host: AgentHost, run: LocalRun) => void;
  readonly measured: MeasureReports;
  readonly collectives: CollectivesReports;
  readonly presence: PresenceActivities;
  readonly refusals: RefusalTally;
  readonly trust: () => HostTrust;
  readonly native: string | undefined;
  readonly containment: string;
  readonly closing: AbortSignal;
}

async function createWorkers(options: AgentOptions, duty: Duty): Promise<readonly Worker[]> {
  const { hosts, agent, contacts, onUnattended, measured, collectives, presence, native, trust } =
    duty;
  const { connection, client, namespace = client.options.namespace, dataConverter } = options;
  const access = { fleet: options.fleet, trust, believed: fleetKeysOf(trust) };
  const images = hostImages(trust, native);
  const common = {
    ...{ connection, namespace },
    identity: ownPollerIdentity({
      trust: trustWord(trust()),
      containment: duty.containment,
      differences: options.differences ?? [],
      images: images.tools.map(({ runtime }) => runtime),
    }),
    ...(dataConverter !== undefined && { dataConverter }),
    interceptors: duty.refusals.interceptors,
    activityTaskPollerBehavior: POLLERS,
    maxHeartbeatThrottleInterval: "100ms",
    defaultHeartbeatThrottleInterval: "100ms",
  } as const;
  const gpuCount = options.hosts.reduce((sum, host) => sum + host.gpuCount, 0);
  const asWhom = runAsOf(trust, { stateDir: options.stateDir, native });
  const mayStart = submitterCheck(
    client,
    access,
    (order) => hosts.get(order.host)?.tokens.isNewest(order.token, maskOn(order)) === true,
  );
  const { run } = createRunActivities({
    hosts,
    gang: createGangWatcher(client),
    contact: contacts,
    task: temporalTask,
    refusalOf: notingBatches(mayStart, duty.refusals),
    onUnattended,
    noteReady: readyMeter(),
    runAsOf: asWhom,
    readSecrets: hostSecrets({ runAsOf: asWhom, env: process.env }),
    shimPath: options.shimPath ?? defaultShimPath(),
    nativePath: native,
    starter: native === undefined ? undefined : openStarter(native, duty.closing),
    images,
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
    check: orderCheck(client, access),
    maxWaitingReads: MAX_WAITING_READS,
  });
  const numbersOf = usedNumbersOf(hosts);
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
      activities: onlyFromItsJob(
        onlyInContact(runs, {
          contacts,
          clock: nodeSystem.clock,
          isKnown: (order) => isStored(hosts.get(order.host), order),
          cancelled: () => temporalTask().cancelled,
        }),
        { client, hosts },
      ),
      // Two for each GPU, because the next run may prepare while one ends.
      maxConcurrentActivityTaskExecutions: Math.max(LEAST_RUN_SLOTS, 2 * gpuCount),
    }),
    Worker.create({
      ...common,
      taskQueue: agent.orderQueue,
      activities: {
        ...orders,
        ...createSessionActivities({
          ...{ hosts, closing: duty.closing, check: sessionCheck(access, numbersOf) },
          refusals: () => duty.refusals.later(activityInfo()),
        }),
        ...onlyFrom(presenceWorkflowId(options.fleet, options.cluster), presence),
        ...onlyFrom(linkMonitorWorkflowId(options.fleet), links),
      },
      // A stop, and a checkpoint before it, may last as long as their grace times: one of each for each GPU.
      maxConcurrentActivityTaskExecutions: SHORT_ORDER_SLOTS + 2 * gpuCount,
    }),
  ]);
}

const isStored = (host: AgentHost | undefined, order: RunOrder): boolean =>
  host === undefined || findRun(host, refOf(order), order.jobId).stored !== undefined;

/** Beside this file when compiled; sources use the copy of the last build. */
function defaultShimPath(): string {
  const beside = import.meta.url.endsWith(".ts") ? "../dist/workers/shim.cjs" : "./shim.cjs";
  return fileURLToPath(new URL(beside, import.meta.url));
}
