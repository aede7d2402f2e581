/**
 * @file A whole small fleet for one test file: real worker and agent processes of the build, on the run's Temporal server.
 *
 * Every process is the compiled product started as a user would start it; tests may kill and start any of them.
 */

import { Connection, Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { LAUNCH_MARK } from "../../agent/folder/launch-files.ts";
import { fleetRun } from "../../activities/fleet-run.ts";
import { OrbweaverClient } from "../../client/index.ts";
import { mayBeAnsweredYet } from "../../client/waking.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { DEFAULT_POLICY, type Fleet, type FleetShape } from "../../domain/fleet/fleet.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger/codec.ts";
import { SIGNED_RULES, type Ledger } from "../../scheduling/ledger/ledger.ts";
import { orbweaverCodecs } from "../../workers/codec/index.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import { withoutTemporal } from "../../workers/server/index.ts";
import {
  FLEET_WORKFLOW,
  fleetWorkflowId,
  ledgerQuery,
  presenceWorkflowId,
  WORD_ROLES,
  USER,
} from "../../protocol/messages.ts";

import { kill, pidsWith } from "./processes.ts";
import { recordHistories } from "./record-histories.ts";
import { removeFolder } from "./remove-folder.ts";

/** The server's deadline of a query, `DEADLINE_EXCEEDED`. */
const isUnanswered = (error: unknown): boolean =>
  error instanceof Error && (error.cause as { readonly code?: unknown } | undefined)?.code === 4;

/** What a test waits for comes within seconds on a quiet machine; one with ten times its work has taken minutes. */
export const PATIENCE_MS = 300_000;
const LOOK_EVERY_MS = 250;

export const ROOT = path.resolve(import.meta.dirname, "../..");
const CLI = path.join(ROOT, "dist/cli/main.js");

export interface World {
  readonly fleet: string;
  readonly address: string;
  readonly stateDir: string;
  readonly temporal: Client;
  readonly orbweaver: OrbweaverClient;
  /** Environment in which the command line talks to this world. */
  readonly env: Readonly<Record<string, string>>;
  /** Starts a process of the fleet and waits until it says that it is ready; `name` is how tests call it. */
  start(name: string, args: readonly string[]): Promise<ChildProcess>;
  startAgent(cluster: string): Promise<ChildProcess>;
  process(name: string): ChildProcess;
  /** Ends a process as `kill -9` does and waits until it is gone. */
  kill(name: string): Promise<void>;
  ledger(): Promise<Ledger>;
  /** Waits until the ledger is as asked; fails after `withinMs` with the last one. */
  until(what: string, check: (ledger: Ledger) => boolean, withinMs?: number): Promise<Ledger>;
  cli(
    args: readonly string[],
    input?: string,
  ): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>;
  stop(): Promise<void>;
}

export interface WorldOptions {
  readonly address: string;
  readonly fleetYaml: string;
  /** Requests that may wait inside; fewer than a fleet file may say. */
  readonly places?: number;
  /** What the fleet's first run begins with, made of an empty ledger. */
  readonly ledger?: (empty: Ledger) => Ledger;
  /** Payload codecs for every process and for the test's own client. */
  readonly codec?: { readonly file: string; readonly payloadCodecs: PayloadCodec[] };
  /** Encryption keys for every process and for the test's own client. */
  readonly keyFile?: string;
  /** Further arguments of its agents, e.g. whose jobs they start. */
  readonly agentArgs?: readonly string[];
}

export const SMALL_FLEET = `
name: small
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "a[1-3]", gpus: 4, type: H100 }
`;

export async function startWorld({
  address,
  fleetYaml,
  places,
  ledger: filled = (empty) => empty,
  codec,
  keyFile,
  agentArgs = [],
}: WorldOptions): Promise<World> {
  const stateDir = await mkdtemp(path.join(tmpdir(), "orbweaver-world-"));
  const fleet = `t${randomBytes(4).toString("hex")}`;
  const connection = await Connection.connect({ address });
  const temporal = new Client({
    connection,
    dataConverter: {
      payloadCodecs: [
        ...orbweaverCodecs({ ...(keyFile !== undefined && { keyFile }) }),
        ...(codec?.payloadCodecs ?? []),
      ],
    },
    // A test may say what a worker of the control plane says, and order what its user may.
    interceptors: { workflow: [signingInterceptor(wordProver([...WORD_ROLES, USER]))] },
  });
  const orbweaver = new OrbweaverClient(temporal, { fleet });
  const processes = new Map<string, ChildProcess>();
  const env = {
    ...withoutTemporal(process.env),
    ORBWEAVER_STATE_DIR: stateDir,
    ORBWEAVER_FLEET: fleet,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_CONFIG_FILE: path.join(stateDir, "no-such-profile.toml"),
    NO_COLOR: "1",
    ...(codec !== undefined && { ORBWEAVER_CODEC: codec.file }),
    ...(keyFile !== undefined && { ORBWEAVER_ENCRYPTION_KEYS: keyFile }),
  };
  const described = fleetOf(fleetYaml);
  const first = filled(emptyLedger(withPlaces(described.shape, places)));
  const areWordsSigned = first.applyVersion >= SIGNED_RULES;
  await temporal.workflow.start(
    FLEET_WORKFLOW,
    fleetRun({
      name: fleet,
      ledger: packLedger(first),
      ...(areWordsSigned && { areWordsSigned }),
    }),
  );

  const world: World = {
    fleet,
    address,
    stateDir,
    temporal,
    orbweaver,
    env,
    async start(name, args) {
      const child = spawn(process.execPath, [CLI, ...args], {
        env,
        stdio: ["ignore", "ignore", "pipe"],
      });
      processes.set(name, child);
      await readyLine(name, child);
      return child;
    },
    startAgent: (cluster) =>
      world.start(`agent-${cluster}`, [
        "worker",
        "--role",
        "agent",
        "--cluster",
        cluster,
        ...agentArgs,
      ]),
    process(name) {
      const child = processes.get(name);
      if (child === undefined) throw new Error(`no process ${name}`);
      return child;
    },
    async kill(name) {
      const child = world.process(name);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
    ledger: () => ledgerOf(temporal, fleet),
    async until(what, check, withinMs = PATIENCE_MS) {
      for (const endAtMs = Date.now() + withinMs; ; await sleep(LOOK_EVERY_MS)) {
        const ledger = await world.ledger();
        if (check(ledger)) return ledger;
        if (Date.now() > endAtMs)
          throw new Error(
            `${what} did not come true; the ledger is ${JSON.stringify(packLedger(ledger))}`,
          );
      }
    },
    async cli(args, input) {
      const child = spawn(process.execPath, [CLI, ...args], {
        env,
        stdio: ["pipe", "pipe", "pipe"],
      });
      child.stdin.end(input ?? "");
      const [stdout, stderr, [code]] = await Promise.all([
        textOf(child.stdout),
        textOf(child.stderr),
        once(child, "close"),
      ]);
      return { code: code as number | null, stdout, stderr };
    },
    async stop() {
      // First the processes: whoever has something to say to a terminated fleet starts it again.
      await Promise.all([...processes.keys()].map((name) => world.kill(name)));
      killLaunches(stateDir);
      const presences = described.shape.clusters.map(({ id }) => presenceWorkflowId(fleet, id));
      await recordHistories(temporal, fleet);
      const open = temporal.workflow.list({
        query: `OrbweaverFleet = "${fleet}" AND ExecutionStatus = "Running"`,
      });
      for await (const { workflowId, runId } of open)
        await temporal.workflow
          .getHandle(workflowId, runId)
          .terminate("end of test")
          .catch(() => undefined);
      await temporal.workflow
        .getHandle(fleetWorkflowId(fleet))
        .terminate("end of test")
        .catch(() => undefined);
      for (const id of presences)
        await temporal.workflow
          .getHandle(id)
          .terminate("end of test")
          .catch(() => undefined);
      await connection.close();
      removeFolder(stateDir);
    },
  };
  await Promise.all([
    world.start("fleet", ["worker", "--role", "fleet"]),
    world.start("jobs", ["worker", "--role", "jobs"]),
  ]);
  for (const { id } of described.shape.clusters) await world.startAgent(id);
  const hostCount = described.shape.clusters.flatMap((cluster) => cluster.hosts).length;
  await world.until(
    "every host has an agent",
    (ledger) =>
      [...ledger.hosts.values()].filter((host) => host.agent !== undefined).length === hostCount,
  );
  return world;
}

/** Asks again where a worker that was frozen, or has just been started, leaves the question open for longer than the server waits. */
export async function ledgerOf(temporal: Client, fleet: string): Promise<Ledger> {
  for (const endAtMs = Date.now() + PATIENCE_MS; ; await sleep(LOOK_EVERY_MS))
    try {
      return unpackLedger(
        await temporal.workflow.getHandle(fleetWorkflowId(fleet)).query(ledgerQuery),
      );
    } catch (error) {
      const mayAnswer = isUnanswered(error) || mayBeAnsweredYet(error);
      if (Date.now() > endAtMs || !mayAnswer) throw error;
    }
}

/** Agents that are killed leave their launches running, and a job that waits for a file of a folder that is removed waits for ever. */
const killLaunches = (stateDir: string): void =>
  pidsWith(`${LAUNCH_MARK}=${stateDir}/`).forEach((pid) => kill(pid));

const withPlaces = (shape: FleetShape, places: number | undefined): FleetShape =>
  places === undefined
    ? shape
    : { ...shape, policy: { ...(shape.policy ?? DEFAULT_POLICY), places } };

export function fleetOf(fleetYaml: string): Fleet {
  const parsed = parseFleetYaml(fleetYaml, {
    file: "fleet.yaml",
    read: (file) => ({ kind: "missing", reason: file }),
  });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet;
}

/** A worker says so on stderr once it polls; what it said before is quoted when it ends first. */
export async function readyLine(name: string, child: ChildProcess): Promise<void> {
  let text = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr?.setEncoding("utf8");
    child.stderr?.on("data", (chunk: string) => {
      text = (text + chunk).slice(-20_000);
      if (/\bready\b/.test(text)) resolve();
    });
    child.once("exit", (code, signal) =>
      reject(new Error(`${name} ended (${code ?? signal}) before it was ready:\n${text}`)),
    );
  });
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  let text = "";
  for await (const chunk of stream) text += String(chunk);
  return text;
}
