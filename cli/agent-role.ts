/**
 * @file The agent's role: which hosts it serves is what the fleet says of its cluster, so no fleet file is needed on a host.
 *
 * It waits for its fleet. On a simulated cluster it serves all hosts; else the one that is named, or that has this
 * machine's name.
 */

import type { NativeConnection } from "@temporalio/worker";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { asked } from "../client/index.ts";
import { OrbweaverError } from "../domain/failure.ts";
import type { ClusterShape, FleetShape, HostShape } from "../domain/fleet.ts";
import { clusterId } from "../domain/ids.ts";
import { tellLinkMonitor } from "../workers/fleet-notice.ts";
import { runAgent } from "../workers/agent.ts";
import { openNative, type ConnectionConfig } from "../workers/connection.ts";
import { stateRoot } from "../workers/state.ts";
import { clientOver, installRuntime } from "../workers/workflow-worker.ts";
import { fleetWorkflowId, ledgerQuery, unpackLedger } from "../workflows/messages.ts";
import type { Kit } from "./kit.ts";

export interface AgentRole {
  readonly connection: ConnectionConfig;
  readonly logger: Logger;
  readonly fleet: string;
  readonly onReady: () => void;
}

export interface AgentWish {
  readonly cluster?: string;
  readonly host?: string;
  readonly hostAddress?: string;
}

const LOOPBACK = "127.0.0.1";
const ASK_AGAIN_MS = 1_000;
const ASK_WITHIN_MS = 10_000;

export async function runAgentRole(kit: Kit, wish: AgentWish, role: AgentRole): Promise<void> {
  const { connection, logger, fleet, onReady } = role;
  installRuntime(logger, true, { isSilent: true });
  const native = await openNative(connection);
  try {
    const shape = await fleetShape(kit, native, role);
    const { cluster, hosts } = hostsToServe(shape, wish, fleet);
    const agentClient = clientOver(native, connection);
    const agent = await runAgent({
      connection: native,
      client: agentClient,
      namespace: connection.namespace,
      dataConverter: connection.workerPayloads.dataConverter,
      fleet,
      cluster: cluster.id,
      hosts: hosts.map(({ id, gpuCount }) => ({ id, gpuCount })),
      stateDir: stateRoot(kit.io.env),
      address: wish.hostAddress ?? (cluster.isSimulated ? LOOPBACK : hostname()),
      onHello: ({ epoch }) => {
        logger.info({ epoch, hosts: hosts.length }, "the fleet knows this agent");
        onReady();
        // With one site there is no link to look at.
        if (new Set(shape.clusters.map(({ site }) => site)).size > 1)
          void tellLinkMonitor(agentClient, fleet).catch((error: unknown) => {
            logger.warn({ error: String(error) }, "the link monitor did not hear of this agent");
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

/** Asks until the fleet answers: on a machine that has just booted the agent may be the first to be there. */
async function fleetShape(
  kit: Kit,
  native: NativeConnection,
  { connection, logger, fleet }: AgentRole,
): Promise<FleetShape> {
  const client = clientOver(native, connection);
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  for (let told = ""; ;) {
    try {
      const subject = `fleet ${fleet}`;
      const packed = await asked(client, subject, () => workflow.query(ledgerQuery), ASK_WITHIN_MS);
      return unpackLedger(packed).shape;
    } catch (error) {
      if (!(error instanceof OrbweaverError) || kit.io.interrupted.aborted) throw error;
      if (error.message !== told) logger.warn(`waiting for fleet ${fleet}: ${error.message}`);
      told = error.message;
    }
    await sleep(ASK_AGAIN_MS);
  }
}

interface Served {
  readonly cluster: ClusterShape;
  readonly hosts: readonly HostShape[];
}

/** The cluster may be left out where the fleet has only one. */
export function hostsToServe(
  shape: FleetShape,
  wish: AgentWish,
  fleet: string,
  machine: string = hostname(),
): Served {
  const ids = shape.clusters.map(({ id }) => id);
  const [only] = shape.clusters;
  if (wish.cluster === undefined && (only === undefined || ids.length > 1)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `fleet ${fleet} has the clusters ${ids.join(", ")}; say with --cluster which one this host belongs to.`,
    );
  }
  const wanted = wish.cluster === undefined ? only?.id : clusterId(wish.cluster);
  const cluster = shape.clusters.find(({ id }) => id === wanted);
  if (cluster === undefined) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `fleet ${fleet} has no cluster ${String(wanted)}; it has ${ids.join(", ")}`,
    );
  }
  if (cluster.isSimulated && wish.host === undefined) return { cluster, hosts: cluster.hosts };
  const name = wish.host ?? machine;
  const host = cluster.hosts.find(({ id }) => id === `${cluster.id}/${name}`);
  if (host === undefined) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `cluster ${cluster.id} has no host ${name}. Name one of its hosts with --host, or add this one to the fleet file.`,
    );
  }
  return { cluster, hosts: [host] };
}
