/**
 * @file A whole small installation for a bench: a Temporal server of our own with a database file, and a client of it.
 *
 * Everything lies in a temporary folder and on loopback, and nothing of the user's Temporal settings is read.
 */

import type { Client } from "@temporalio/client";
import type { ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeLeftPools } from "../../agent/system/weights-pool.ts";
import { OrbweaverClient } from "../../client/index.ts";
import { startFleet } from "../../cli/up/fleet-start.ts";
import { untilHostsKnown } from "../../cli/up/agents.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import { isolatedConnection, openClient } from "../../workers/connection.ts";
import {
  ensureSearchAttributes,
  provideServerBinary,
  startServer,
  withoutTemporal,
  type DynamicConfig,
} from "../../workers/server/index.ts";
import type { BenchRequest } from "../bench.ts";
import { killLeft } from "./left-processes.ts";
import { openProcesses, type Processes } from "./processes.ts";

export interface BenchWorld {
  readonly fleet: string;
  readonly address: string;
  readonly dir: string;
  readonly temporal: Client;
  readonly orbweaver: OrbweaverClient;
  readonly processes: Processes;
  /** Of the server that we have started. */
  readonly serverPid?: number;
  /** Address of the server's metrics; absent for a server that is not ours. */
  readonly metricsUrl?: string;
  /** Starts a role of the product, as `orbweaver worker --role …`. */
  startRole(role: "fleet" | "jobs" | "solver" | "agent", cluster?: string): Promise<void>;
  /** Starts the agent of one host, named as its process. */
  startHost(
    name: string,
    at: { readonly cluster: string; readonly host: string },
  ): Promise<ChildProcess>;
  /** Starts the fleet's workflow under this description. */
  startFleet(fleetYaml: string): Promise<Fleet>;
  /** Fails when the bench was interrupted. */
  check(): void;
  stop(): Promise<void>;
}

export interface WorldOptions {
  readonly request: BenchRequest;
  readonly metricsPort?: number;
  readonly extraDynamicConfig?: DynamicConfig;
}

const NAMESPACE = "default";

export async function openWorld(options: WorldOptions): Promise<BenchWorld> {
  const { request, metricsPort, extraDynamicConfig } = options;
  const dir = await mkdtemp(join(tmpdir(), "orbweaver-bench-"));
  const closing: (() => unknown)[] = [
    () => removeLeftPools(),
    () => rm(dir, { recursive: true, force: true }),
    () => killLeft(dir),
  ];
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).reverse()) await close();
  };
  try {
    const given = request.text("address");
    let address = given;
    let serverPid: number | undefined;
    if (address === undefined) {
      const binary = await provideServerBinary({ env: request.env });
      const server = await startServer({
        binary: binary.path,
        logFile: join(dir, "temporal.log"),
        dbFile: join(dir, "temporal.db"),
        searchAttributes: SEARCH_ATTRIBUTES,
        headless: true,
        ...(metricsPort !== undefined && { metricsPort }),
        ...(extraDynamicConfig !== undefined && { extraDynamicConfig }),
      });
      closing.push(() => server.stop());
      ({ address, pid: serverPid } = server);
    }
    const connection = isolatedConnection({ address, namespace: NAMESPACE });
    const { client: temporal, close } = await openClient(connection);
    closing.push(close);
    await ensureSearchAttributes(temporal.connection, NAMESPACE, SEARCH_ATTRIBUTES);
    const fleet = `bench-${Date.now().toString(36)}`;
    const env = {
      ...withoutTemporal(request.env),
      ORBWEAVER_STATE_DIR: join(dir, "state"),
      ORBWEAVER_FLEET: fleet,
      NO_COLOR: "1",
    };
    const processes = openProcesses(join(dir, "logs"), env);
    closing.push(() => processes.stop());
    const orbweaver = new OrbweaverClient(temporal, { fleet });
    const server = ["--isolated", "--address", address, "--namespace", NAMESPACE];
    const worker = (role: string): readonly string[] => [
      "worker",
      "--role",
      role,
      "--fleet",
      fleet,
      ...server,
    ];
    return {
      fleet,
      address,
      dir,
      temporal,
      orbweaver,
      processes,
      ...(serverPid !== undefined && { serverPid }),
      ...(given === undefined &&
        metricsPort !== undefined && {
          metricsUrl: `http://127.0.0.1:${String(metricsPort)}/metrics`,
        }),
      startRole: async (role, cluster) => {
        const place = cluster === undefined ? [] : ["--cluster", cluster];
        await processes.start(role, "cli/main.js", [...worker(role), ...place]);
      },
      startHost: (name, { cluster, host }) => {
        const place = ["--cluster", cluster, "--host", host, "--host-address", "127.0.0.1"];
        return processes.start(name, "cli/main.js", [...worker("agent"), ...place]);
      },
      startFleet: async (fleetYaml) => {
        const described = fleetOf(fleetYaml);
        await startFleet(temporal, { name: fleet, fleet: described, detailsHash: undefined });
        if (given !== undefined) closing.push(() => endAll(temporal, fleet));
        return described;
      },
      check: () => {
        request.interrupted.throwIfAborted();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A fleet with its workers and agents, all hosts known: what most parts are measured on. */
export async function openQuietFleet(
  options: WorldOptions,
  fleetYaml: string,
): Promise<BenchWorld> {
  const world = await openWorld(options);
  try {
    const { shape } = await world.startFleet(fleetYaml);
    await Promise.all([world.startRole("fleet"), world.startRole("jobs")]);
    for (const { id } of shape.clusters) await world.startRole("agent", id);
    const hosts = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
    await untilHostsKnown(world.orbweaver, hosts, Date.now);
    return world;
  } catch (error) {
    await world.stop();
    throw error;
  }
}

export function fleetOf(fleetYaml: string): Fleet {
  const parsed = parseFleetYaml(fleetYaml, {
    file: "bench.yaml",
    read: (file) => ({ kind: "missing", reason: file }),
  });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet;
}

/** On a server that goes on running nothing of ours may stay behind. */
async function endAll(temporal: Client, fleet: string): Promise<void> {
  const ours = [
    `OrbweaverFleet = "${fleet}"`,
    ...[fleet, `orbweaver-fleet-${fleet}`, `orbweaver-presence-${fleet}`].map(
      (start) => `WorkflowId STARTS_WITH "${start}"`,
    ),
  ];
  const open = temporal.workflow.list({
    query: `(${ours.join(" OR ")}) AND ExecutionStatus = "Running"`,
  });
  for await (const { workflowId, runId } of open) {
    await temporal.workflow
      .getHandle(workflowId, runId)
      .terminate("end of the bench")
      .catch(() => undefined);
  }
}
