/**
 * @file The fleet that a storm goes over: a Temporal server of its own, workers and agents as real processes, each behind a
 * network of its own.
 *
 * Clusters: `alpha`, whose hosts have an agent each; `beta`, one agent for all hosts; `probe`, which only the storm's probes use
 * and whose agent is left alone, so that a first grant after an outage has somewhere to go. Its silences are short.
 */

import { Client, Connection, type ClientInterceptors } from "@temporalio/client";
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { startFleet } from "../../cli/up/fleet-start.ts";
import { fleetRun } from "../../activities/fleet-run.ts";
import { OrbweaverClient } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import { DEFAULT_NAMESPACE, isolatedConnection } from "../../workers/connection.ts";
import {
  provideServerBinary,
  startServer,
  withoutTemporal,
  type RunningServer,
} from "../../workers/server/index.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { commandLine } from "../../workers/server/package-root.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import { FLEET_WORKFLOW, WORD_ROLES } from "../../protocol/messages.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { insist } from "./insistence.ts";
import { keep, type Supervisor } from "./supervisor.ts";
import { openProxy, type Proxy } from "./proxy.ts";

export const SILENCE_MS = 3_000;
export const FENCE_MS = 6_000;
export const GPUS_PER_HOST = 2;
export const PROBE_CLUSTER = "probe";
/** Where the jobs of the storm may run. */
export const WORK_CLUSTERS = ["alpha", "beta"] as const;

/** What the storm floods with is believed. */
const believed = (env: Environment): ClientInterceptors => ({
  workflow: [signingInterceptor(wordProver(WORD_ROLES, env))],
});

const STORM_FLEET = `
name: storm
clusters:
${[
  { name: "alpha", hosts: "a[1-2]" },
  { name: "beta", hosts: "b[1-2]" },
  { name: PROBE_CLUSTER, hosts: "p1" },
]
  .map(
    ({ name, hosts }) => `  - name: ${name}
    site: here
    jurisdiction: EU
    simulated: true
    silence: ${SILENCE_MS / 1000}s
    fence: ${FENCE_MS / 1000}s
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "${hosts}", gpus: ${GPUS_PER_HOST}, type: H100 }`,
  )
  .join("\n")}
`;

export interface Agent {
  readonly supervisor: Supervisor;
  readonly proxy: Proxy;
  readonly hosts: readonly HostId[];
}

export interface Site {
  readonly folder: string;
  readonly stateDir: string;
  readonly fleet: string;
  readonly client: Client;
  readonly orbweaver: OrbweaverClient;
  readonly hosts: readonly HostId[];
  /** First of the ports of the GPUs. */
  readonly port: number;
  readonly fleetWorker: Supervisor;
  readonly jobsWorker: Supervisor;
  /** Those that the storm may harm. */
  readonly agents: readonly Agent[];
  readonly supervisors: readonly Supervisor[];
  readonly killServer: () => Promise<void>;
  /** Starts the server again on its database and address; resolves when it answers. */
  readonly bootServer: () => Promise<void>;
  readonly close: () => Promise<void>;
}

interface SiteSetting {
  readonly folder: string;
  /** Pauses before a process is started again. */
  readonly restartPauseMs: () => number;
  readonly env: Environment;
  /** The fleet begins with the rules before the newest. */
  readonly isToBeUpgraded: boolean;
}

export async function openSite(setting: SiteSetting): Promise<Site> {
  const { folder, restartPauseMs, env } = setting;
  const stateDir = join(folder, "state");
  const logs = join(folder, "logs");
  for (const dir of [stateDir, logs]) mkdirSync(dir, { recursive: true });
  const binary = await provideServerBinary({ env });
  const boot = (port?: number): Promise<RunningServer> =>
    startServer({
      binary: binary.path,
      dbFile: join(folder, "temporal.db"),
      logFile: join(logs, "temporal.log"),
      headless: true,
      searchAttributes: SEARCH_ATTRIBUTES,
      ...(port !== undefined && { port }),
    });
  let server = await boot();
  const serverPort = Number(server.address.split(":")[1]);
  const connection = await Connection.connect({ address: server.address });
  const { namespace, dataConverter } = isolatedConnection({
    address: server.address,
    namespace: DEFAULT_NAMESPACE,
  });
  const client = new Client({ connection, namespace, dataConverter, interceptors: believed(env) });
  const fleet = `storm-${randomBytes(3).toString("hex")}`;
  const described = describedFleet();
  const { shape } = described;
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  await (setting.isToBeUpgraded ? startFormerFleet : startNewestFleet)(client, fleet, described);

  const proxies: Proxy[] = [];
  const supervisors: Supervisor[] = [];
  const main = commandLine();
  const noProfile = join(folder, "no-profile.toml");
  const start = (name: string, args: readonly string[], address: string): Supervisor => {
    const supervisor = keep({
      name,
      argv: [main, "worker", ...args],
      env: {
        ...withoutTemporal(env),
        ORBWEAVER_STATE_DIR: stateDir,
        ORBWEAVER_FLEET: fleet,
        TEMPORAL_ADDRESS: address,
        TEMPORAL_CONFIG_FILE: noProfile,
        NO_COLOR: "1",
      },
      logFile: join(logs, `${name}.log`),
      pauseMs: restartPauseMs,
    });
    supervisors.push(supervisor);
    return supervisor;
  };
  const startAgent = async (cluster: string, served: readonly HostId[], host?: string) => {
    const proxy = await openProxy({ port: serverPort });
    proxies.push(proxy);
    const name = `agent-${host ?? cluster}`;
    const args = ["--role", "agent", "--cluster", cluster];
    const more = host === undefined ? [] : ["--host", host, "--host-address", "127.0.0.1"];
    return { supervisor: start(name, [...args, ...more], proxy.address), proxy, hosts: served };
  };

  const fleetWorker = start("fleet", ["--role", "fleet"], server.address);
  const jobsWorker = start("jobs", ["--role", "jobs"], server.address);
  const agents: Agent[] = [];
  for (const { id: cluster, hosts: served } of shape.clusters) {
    const ids = served.map(({ id }) => id);
    if (cluster === PROBE_CLUSTER) await startAgent(cluster, ids);
    else if (cluster === "alpha") {
      for (const id of ids) agents.push(await startAgent(cluster, [id], id.split("/")[1]));
    } else agents.push(await startAgent(cluster, ids));
  }

  const site: Site = {
    folder,
    stateDir,
    fleet,
    client,
    orbweaver: new OrbweaverClient(client, { fleet }),
    hosts,
    port: await freeBlock(hosts.length * GPUS_PER_HOST),
    fleetWorker,
    jobsWorker,
    agents,
    supervisors,
    killServer: async () => {
      await server.kill();
    },
    bootServer: async () => {
      server = await boot(serverPort);
    },
    close: async () => {
      await Promise.all(supervisors.map((supervisor) => supervisor.close()));
      await Promise.all(proxies.map((proxy) => proxy.close()));
      await connection.close();
      await server.kill();
    },
  };
  return await answering(site);
}

/** A storm that cannot begin leaves no processes. */
async function answering(site: Site): Promise<Site> {
  try {
    await untilAnswering(site);
    return site;
  } catch (error) {
    await site.close();
    throw error;
  }
}

const startNewestFleet = (client: Client, name: string, fleet: Fleet): Promise<unknown> =>
  startFleet(client, { name, fleet, detailsHash: undefined });

/** Of the release before this one, as far as a fleet shows it. */
const FORMER_RULES = NEWEST_RULES - 1;

/** None are committed, so that a storm can upgrade it. */
async function startFormerFleet(client: Client, name: string, { shape }: Fleet): Promise<void> {
  const ledger = { ...emptyLedger(shape), applyVersion: FORMER_RULES };
  await client.workflow.start(FLEET_WORKFLOW, fleetRun({ name, ledger: packLedger(ledger) }));
}

const READY_WITHIN_MS = 180_000;

/** Every process is ready and every host has an agent that answers. */
export async function untilAnswering(site: Site, withinMs = READY_WITHIN_MS): Promise<void> {
  const untilMs = performance.now() + withinMs;
  for (const supervisor of site.supervisors) {
    if (await supervisor.ready(untilMs - performance.now())) continue;
    const said = supervisor.ownEnds().at(-1) ?? "it says nothing";
    throw new OrbweaverError("HOST_LOST", `${supervisor.name} is not ready: ${said}`);
  }
  for (;;) {
    const ledger = await insist(site.client, () => site.orbweaver.fleet());
    const missing = site.hosts.filter((host) => {
      const status = ledger?.hosts.get(host);
      return (
        status?.agent === undefined ||
        status.silentSinceMs !== undefined ||
        status.isFenced === true
      );
    });
    if (missing.length === 0) return;
    if (performance.now() > untilMs) {
      throw new OrbweaverError("HOST_LOST", `no agent answers for ${missing.join(", ")}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

function describedFleet(): Fleet {
  const parsed = parseFleetYaml(STORM_FLEET, {
    file: "storm.yaml",
    read: (file) => ({ kind: "missing", reason: file }),
  });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet;
}

/** Below the ports that the system hands out to clients. */
const BLOCKS = { from: 20_000, to: 30_000, draws: 50 };

async function freeBlock(count: number): Promise<number> {
  for (let draw = 0; draw < BLOCKS.draws; draw += 1) {
    const start = BLOCKS.from + (randomBytes(2).readUInt16BE() % (BLOCKS.to - BLOCKS.from - count));
    const ports = Array.from({ length: count }, (_, index) => start + index);
    const free = await Promise.all(ports.map(isFree));
    if (free.every(Boolean)) return start;
  }
  throw new OrbweaverError("NOT_ALLOWED", `no ${count} ports in a row are free on this machine`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const bound = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen({ host: "127.0.0.1", port }, () => resolve(true));
  });
  if (bound) await new Promise((resolve) => server.close(resolve));
  return bound;
}
