/**
 * @file The agent's role. The fleet's description tells which hosts it serves, so a host needs no fleet file.
 *
 * It waits for its fleet. In a simulated cluster it serves all hosts; otherwise the named host, or the one with this machine's
 * name.
 */

import type { NativeConnection } from "@temporalio/worker";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { driverView, type DriverView } from "../../agent/system/gpu-driver.ts";
import { gpuNodes, namedGpus } from "../../agent/system/gpu-nodes.ts";
import { isDivided, migNodes } from "../../agent/system/mig-nodes.ts";
import type { HostGpu } from "../../agent/containment/host-gpus.ts";
import {
  machineDevices,
  withInstances,
  type MachineDevices,
} from "../../agent/system/machine-devices.ts";
import { asked } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { ClusterShape, FleetShape, HostShape } from "../../domain/fleet/fleet.ts";
import { differenceText, machineDifferences } from "../../domain/fleet/machine-differences.ts";
import { parseDeviceQuery, type MachineGpu } from "../../domain/fleet/parse-device-query.ts";
import { clusterId } from "../../domain/values/ids.ts";
import { tellLinkMonitor } from "../../workers/fleet-notice.ts";
import { readHealthRules } from "../../workers/health-file.ts";
import { hostResources, hostWeightsBytes } from "../../workers/host-resources.ts";
import { runAgent } from "../../workers/agent.ts";
import { trustText } from "../../workers/submitter-check.ts";
import { openNative, type ConnectionConfig } from "../../workers/connection.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { stateRoot } from "../../workers/state.ts";
import { clientOver } from "../../workers/workflow-worker.ts";
import { unpackLedger } from "../../scheduling/ledger/codec.ts";
import { fleetWorkflowId, ledgerQuery } from "../../protocol/messages.ts";
import type { CommandContext } from "./command-context.ts";
import { hostTrust, type TrustName } from "./host-trust.ts";

export interface AgentRole {
  readonly connection: ConnectionConfig;
  readonly logger: Logger;
  readonly fleet: string;
  readonly onReady: () => void;
}

export interface AgentSettings {
  readonly cluster?: string;
  readonly host?: string;
  readonly hostAddress?: string;
  readonly trust?: TrustName;
  readonly policy?: string;
}

const LOOPBACK = "127.0.0.1";
const ASK_AGAIN_MS = 1_000;
const ASK_WITHIN_MS = 10_000;

export async function runAgentRole(
  context: CommandContext,
  settings: AgentSettings,
  role: AgentRole,
): Promise<void> {
  const { connection, logger, fleet, onReady } = role;
  const trust = hostTrust(settings, context.io);
  const native = await openNative(connection);
  try {
    const shape = await fleetShape(context, native, role);
    const { cluster, hosts } = hostsToServe(shape, fleet, settings);
    const view = driverView(context.io.env, packageRoot());
    const shown = cluster.isSimulated ? undefined : await machineDevices(view);
    const differences = differencesHere(hosts, shown);
    for (const each of differences)
      logger.warn({ difference: each }, `not as in the fleet file: ${differenceText(each)}`);
    const agentClient = clientOver(native, connection, ["agent"]);
    const agent = await runAgent({
      connection: native,
      client: agentClient,
      namespace: connection.namespace,
      dataConverter: connection.workerPayloads.dataConverter,
      fleet,
      cluster: cluster.id,
      hosts: hosts.map((host) => ({
        id: host.id,
        gpuCount: host.gpuCount,
        resources: hostResources(host, cluster),
        weightsBytes: hostWeightsBytes(host, cluster),
        gpuType: host.gpuType,
        ...(shown !== undefined && {
          gpus: gpusOf(host, shown.gpus),
          gpusIn: (answer) => gpusIn(host, answer, view),
        }),
      })),
      stateDir: stateRoot(context.io.env),
      trust,
      differences,
      health: readHealthRules(context.io.env),
      address: settings.hostAddress ?? (cluster.isSimulated ? LOOPBACK : hostname()),
      onRegistered: ({ epoch }) => {
        logger.info(
          { epoch, hosts: hosts.length, trust: trustText(trust) },
          "the fleet has registered this agent",
        );
        onReady();
        // With one site there is no link to probe.
        if (new Set(shape.clusters.map(({ site }) => site)).size > 1)
          void tellLinkMonitor(agentClient, fleet).catch((error: unknown) => {
            logger.warn(
              { error: String(error) },
              "the link monitor could not be told of this agent",
            );
          });
      },
      onNote: (note) => {
        logger.warn(note);
      },
    });
    await agent.ended;
  } finally {
    await native.close();
  }
}

/** Asks until the fleet answers: after a restart of the whole site, the agent may be up first. */
async function fleetShape(
  context: CommandContext,
  native: NativeConnection,
  { connection, logger, fleet }: AgentRole,
): Promise<FleetShape> {
  const client = clientOver(native, connection, []);
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  for (let lastMessage = ""; ;) {
    try {
      const subject = `fleet ${fleet}`;
      const packed = await asked(client, subject, () => workflow.query(ledgerQuery), {
        withinMs: ASK_WITHIN_MS,
      });
      return unpackLedger(packed).shape;
    } catch (error) {
      if (!(error instanceof OrbweaverError) || context.io.interrupted.aborted) throw error;
      if (error.message !== lastMessage)
        logger.warn(`waiting for fleet ${fleet}: ${error.message}`);
      lastMessage = error.message;
    }
    await sleep(ASK_AGAIN_MS);
  }
}

/** Between this machine and its host's description; made-up GPUs are on no machine. */
function differencesHere(
  [host]: readonly HostShape[],
  shown: MachineDevices | undefined,
): readonly string[] {
  return shown === undefined || host === undefined ? [] : machineDifferences(host, shown);
}

async function gpusIn(
  host: HostShape,
  answer: string,
  view: DriverView,
): Promise<readonly HostGpu[]> {
  const gpus = parseDeviceQuery(answer);
  if (gpus === undefined) throw new Error("the driver gives an answer of another form");
  const found = gpusOf(host, await withInstances(gpus, view));
  if (found.length === 0 && gpus.length > 0)
    throw new Error("the driver does not say which GPUs there are");
  return found;
}

function gpusOf({ gpuType }: HostShape, gpus: readonly MachineGpu[]): readonly HostGpu[] {
  const whole = gpuNodes();
  if (isDivided(gpus)) return migNodes(gpus, whole, { type: gpuType });
  return whole.length > 0 ? whole : namedGpus(gpus);
}

interface Served {
  readonly cluster: ClusterShape;
  readonly hosts: readonly HostShape[];
}

/** The cluster's name is optional where the fleet has only one. */
function hostsToServe(shape: FleetShape, fleet: string, settings: AgentSettings): Served {
  const ids = shape.clusters.map(({ id }) => id);
  const [only] = shape.clusters;
  if (settings.cluster === undefined && (only === undefined || ids.length > 1)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `fleet ${fleet} has the clusters ${ids.join(", ")}. Name the cluster of this host with --cluster.`,
    );
  }
  const wanted = settings.cluster === undefined ? only?.id : clusterId(settings.cluster);
  const cluster = shape.clusters.find(({ id }) => id === wanted);
  if (cluster === undefined) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `fleet ${fleet} has no cluster ${String(wanted)}; it has ${ids.join(", ")}`,
    );
  }
  if (cluster.isSimulated && settings.host === undefined) return { cluster, hosts: cluster.hosts };
  const name = settings.host ?? hostname();
  const host = cluster.hosts.find(({ id }) => id === `${cluster.id}/${name}`);
  if (host === undefined) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `cluster ${cluster.id} has no host ${name}. Name one of its hosts with --host, or add this one to the fleet file.`,
    );
  }
  return { cluster, hosts: [host] };
}
