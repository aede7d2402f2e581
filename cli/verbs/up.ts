/**
 * @file `orbweaver up`: a fleet on this machine, from nothing to ready: server, workers, agents; what runs already stays.
 *
 * The state file is written after every process that was started, so that an `up` that is interrupted half-way leaves
 * nothing that `down` does not know; and not before the server has answered, so that a wrong address changes nothing.
 */

import { Option, type Command } from "commander";
import type { Client } from "@temporalio/client";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { isAlive } from "../../activities/agent/process-identity.ts";
import { OrbweaverClient } from "../../client/index.ts";
import { SEARCH_ATTRIBUTES } from "../../domain/search-attributes.ts";
import { keyFileOf, openClient, type ConnectionConfig } from "../../workers/connection.ts";
import { ensureSearchAttributes } from "../../workers/server/index.ts";
import { DEFAULT_IDLE_MS } from "../../workers/on-demand/setting.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import {
  fleetStateDir,
  readUpState,
  writeUpState,
  type UpControl,
  type UpState,
  type UpWorker,
} from "../../workers/state.ts";
import {
  addConnectionOptions,
  connectionFlags,
  type ConnectionOptionValues,
} from "../connection-options.ts";
import { counted, durationText } from "../duration.ts";
import { readFleet } from "../fleet-files.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { wholeNumber } from "../option-values.ts";
import { fleetNamed, tellOtherName } from "../session.ts";
import { placeAgents, untilHostsKnown, type AgentPlace } from "../up/agents.ts";
import { tellModels } from "../measuring/tell-model.ts";
import { configureFleet, discardOldDetails, startFleet, storeDetails } from "../up/fleet-start.ts";
import { oneAtATime } from "../up/one-at-a-time.ts";
import { logFileOf } from "../up/places.ts";
import { codecServerArgs } from "../up/codec-server.ts";
import {
  controlMode,
  prepareSupervised,
  startByController,
  stopController,
  stopOnDemand,
  type OnDemandPlace,
} from "../up/control-plane.ts";
import { provideServer } from "../up/server.ts";
import { endAll, takeDown } from "../up/take-down.ts";
import { workerSurroundings, type WorkerSurroundings } from "../up/worker-environment.ts";
import { nameOf, startWorker } from "../up/worker-process.ts";

interface UpValues extends ConnectionOptionValues {
  readonly name?: string;
  readonly db?: string;
  readonly uiPort?: number;
  readonly alwaysOn?: boolean;
  readonly onDemand?: boolean;
  readonly idle?: number;
  readonly foreground?: boolean;
  readonly json?: boolean;
}

export function upVerb(kit: Kit): Command {
  const verb = kit
    .verb("up")
    .summary("start a fleet on this machine")
    .description(
      "Starts what is missing of a fleet: a Temporal server (unless one is configured), the workers of the control\n" +
        "plane, and the agents of simulated clusters and of this machine. All of it outlives the terminal.\n" +
        "Without a file it is a small simulated fleet.",
    )
    .argument("[fleet.yaml]", "the fleet's description; given again, it changes the running fleet")
    .option("--name <name>", "name of the fleet; the same as --fleet")
    .option("--db <file>", "database of the Temporal server (else in the state folder)")
    .option(
      "--ui-port <port>",
      "port of Temporal's Web UI (else a free one)",
      wholeNumber("--ui-port", 1),
    )
    .addOption(
      new Option("--always-on", "keep the workers of the control plane running").conflicts(
        "onDemand",
      ),
    )
    .option("--on-demand", "start them when there is work (usual on a server of our own)")
    .option(
      "--idle <seconds>",
      "workers on demand end after so long without work (else 15)",
      wholeNumber("--idle", 1),
    )
    .option("--foreground", "stay, and take everything down at Ctrl-C")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver up", "a small simulated fleet, to look around"],
        ["orbweaver up fleet.yaml", "your own, or a changed description of it"],
        ["orbweaver up --always-on", "never wait for a worker to start; costs two processes"],
        ["TEMPORAL_ADDRESS=temporal.example:7233 orbweaver up fleet.yaml", "on your own Temporal"],
      ]),
    )
    .action(async (file: string | undefined, values: UpValues) => {
      const fleet = values.name ?? fleetNamed(values, kit.io.env);
      const stateDir = fleetStateDir(kit.io.env, fleet);
      const up = await oneAtATime(kit, stateDir, () => bringUp(kit, { ...values, fleet }, file));
      if (values.json === true) kit.printJson(summaryOf(up));
      else tellSummary(kit, up);
      if (values.foreground === true) {
        kit.endsByItself();
        kit.say("Ctrl-C takes the fleet down");
        await untilAborted(kit.io.interrupted);
        await oneAtATime(kit, stateDir, () => takeDown(kit, stateDir));
      }
    });
  return addConnectionOptions(verb);
}

interface Up {
  readonly fleet: string;
  readonly stateDir: string;
  readonly connection: ConnectionConfig;
  readonly control: UpControl;
  readonly workers: readonly UpWorker[];
  readonly hosts: number;
  readonly elsewhere: readonly string[];
  readonly startedCount: number;
}

const DEFAULT_FLEET_FILE = join("data", "fleets", "small.yaml");

async function bringUp(
  kit: Kit,
  values: UpValues & { readonly fleet: string },
  file: string | undefined,
): Promise<Up> {
  const { io } = kit;
  const { fleet } = values;
  const flags = connectionFlags(values);
  const stateDir = fleetStateDir(io.env, fleet);
  const former = await readUpState(stateDir);
  // The file is judged before anything is started.
  const fleetFile = resolve(
    io.cwd,
    file ?? former?.fleetFile ?? join(packageRoot(), DEFAULT_FLEET_FILE),
  );
  const description = readFleet(file ?? fleetFile, io.cwd);
  if (file !== undefined) tellOtherName(kit, fleet, description.name);

  const { connection, server, isNew } = await provideServer(io, {
    flags,
    stateDir,
    former,
    ...(values.db !== undefined && { databaseFile: resolve(io.cwd, values.db) }),
    ...(values.uiPort !== undefined && { uiPort: values.uiPort }),
  });
  const keyFile = keyFileOf(flags, io) ?? former?.encryptionKeys;
  const alive = (former?.workers ?? []).filter(isAlive);
  const mode = controlMode(
    { isAlwaysOn: values.alwaysOn === true, isOnDemand: values.onDemand === true },
    {
      isOwnServer: server !== undefined,
      former: former && { ...former, workers: alive },
    },
  );
  const idleMs =
    values.idle === undefined ? (former?.control?.idleMs ?? DEFAULT_IDLE_MS) : values.idle * 1_000;
  let state: UpState = {
    fleet,
    fleetFile,
    control: { mode, idleMs },
    ...(keyFile !== undefined && { encryptionKeys: keyFile }),
    ...(server === undefined ? configuredPlace(former, connection.address) : { server }),
    workers: alive,
  };
  // Workers become ready in any order; their notes are written one after the other.
  let writing = Promise.resolve();
  const note = async (workers: readonly UpWorker[]): Promise<void> => {
    state = { ...state, workers: [...state.workers, ...workers] };
    const next = state;
    writing = writing.then(() => writeUpState(stateDir, next));
    await writing;
  };
  if (isNew) await note([]);
  kit.say(`temporal server: ${connection.address}${isNew ? ", started" : ""}`);

  const { client, close } = await openClient(connection);
  try {
    await ensureSearchAttributes(client.connection, connection.namespace, SEARCH_ATTRIBUTES);
    await note([]);
    const detailsHash = await storeDetails(description, stateDir);
    const start = { name: fleet, fleet: description, detailsHash };
    const surroundings = workerSurroundings(connection, { flags, env: io.env, keyFile });
    const place = { connection, stateDir, cwd: io.cwd, env: surroundings.env, idleMs };
    const control = await provideControl(kit, client, {
      mode,
      place,
      isOwnServer: server !== undefined,
    });
    if (control !== mode) state = { ...state, control: { mode: control, idleMs } };
    const isNewFleet = await startFleet(client, start);

    let startedCount = 0;
    const ensure = async (wish: ProcessWish): Promise<void> => {
      const running = state.workers.find((worker) => isSame(worker, wish));
      if (running !== undefined) return;
      const { worker, ready } = startWorker(workerCommand(wish, { fleet, stateDir, surroundings }));
      startedCount += 1;
      await Promise.all([note([worker]), ready]);
      kit.say(`${nameOf(worker)}: ready`);
    };
    const codecArgs = codecServerArgs(server, fleet);
    const processes = [
      ...controlWishes(control, { fleet, surroundings }).map(ensure),
      ...(codecArgs === undefined ? [] : [ensure({ role: "codec", args: codecArgs })]),
    ];
    // Of a fleet that ran before only its own worker knows what it looks like now.
    if (!isNewFleet) await Promise.all(processes);
    if (!isNewFleet && file !== undefined) {
      await configureFleet(client, start);
      await discardOldDetails(stateDir, detailsHash, io.nowMs());
      kit.say(`fleet ${fleet}: described anew by ${file}`);
    }
    if (isNewFleet || file !== undefined) await tellModels(client, fleet, description.interHost);
    const orbweaver = new OrbweaverClient(client, { fleet });
    const shape = isNewFleet ? description.shape : (await orbweaver.fleet()).shape;
    const { here, elsewhere } = placeAgents(shape, hostname());
    await Promise.all([...processes, ...here.map((place) => ensure(agentWish(place)))]);
    const hosts = here.flatMap((place) => place.serves);
    await untilHostsKnown(orbweaver, hosts, io.nowMs);
    // Those of the former mode ended when they were not needed any more; what is left of them is a line in the notes.
    const outdated = state.workers.filter(
      ({ role }) =>
        !controlWishes(control, { fleet, surroundings }).some((wish) => wish.role === role) &&
        isControl(role),
    );
    await endAll(kit, outdated);
    state = { ...state, workers: state.workers.filter((worker) => !outdated.includes(worker)) };
    await note([]);
    return {
      control: { mode: control, idleMs },
      fleet,
      stateDir,
      connection,
      workers: state.workers,
      hosts: hosts.length,
      elsewhere,
      startedCount,
    };
  } finally {
    await close();
  }
}

/** Brings about the mode, or what is possible instead; says so. */
async function provideControl(
  kit: Kit,
  client: Client,
  {
    mode,
    place,
    isOwnServer,
  }: {
    readonly mode: UpControl["mode"];
    readonly place: OnDemandPlace;
    readonly isOwnServer: boolean;
  },
): Promise<UpControl["mode"]> {
  if (mode === "controller") {
    const started = await startByController(client, place);
    if (started.kind === "started") return mode;
    kit.say(`workers on demand are not possible here: ${started.reason}; they stay on`);
  }
  if (mode === "supervisor") {
    prepareSupervised(place);
    return mode;
  }
  // Deployments on a server of somebody else's are somebody else's.
  if (isOwnServer) await stopController(client, place.stateDir);
  else await stopOnDemand(place.stateDir);
  return "always-on";
}

/** The processes of the control plane that `up` starts itself. */
function controlWishes(
  mode: UpControl["mode"],
  { fleet, surroundings }: { readonly fleet: string; readonly surroundings: WorkerSurroundings },
): readonly ProcessWish[] {
  switch (mode) {
    case "always-on":
      return [{ role: "fleet" }, { role: "jobs" }, { role: "solver" }];
    case "supervisor":
      return [{ role: "supervisor", args: ["--fleet", fleet, ...surroundings.args] }];
    case "controller":
      return [];
  }
}

const isControl = (role: UpWorker["role"]): boolean =>
  role === "fleet" || role === "jobs" || role === "solver" || role === "supervisor";

/** On a configured server; what our own one was stays noted, for its database is the fleet's history there. */
function configuredPlace(
  former: UpState | undefined,
  address: string,
): Pick<UpState, "server" | "configuredAddress"> {
  const server = former?.server;
  return { configuredAddress: address, ...(server !== undefined && { server }) };
}

type WorkerWish = Pick<UpWorker, "role" | "cluster" | "host">;
/** `args` in place of a worker's. */
type ProcessWish = WorkerWish & { readonly args?: readonly string[] };

function agentWish({ cluster, host }: AgentPlace): WorkerWish {
  return { role: "agent", cluster, ...(host !== undefined && { host }) };
}

function isSame(worker: UpWorker, wish: WorkerWish): boolean {
  return worker.role === wish.role && worker.cluster === wish.cluster && worker.host === wish.host;
}

function workerCommand(
  wish: ProcessWish,
  at: {
    readonly fleet: string;
    readonly stateDir: string;
    readonly surroundings: WorkerSurroundings;
  },
): Parameters<typeof startWorker>[0] {
  const { role, cluster, host } = wish;
  const place = [
    ...(cluster === undefined ? [] : ["--cluster", cluster]),
    ...(host === undefined ? [] : ["--host", host]),
  ];
  const name = [role, cluster, host].filter((part) => part !== undefined).join("-");
  return {
    ...wish,
    args: wish.args ?? ["--role", role, ...place, "--fleet", at.fleet, ...at.surroundings.args],
    env: at.surroundings.env,
    logFile: logFileOf(at.stateDir, name),
  };
}

function summaryOf(up: Up): object {
  const { fleet, stateDir, connection, control, workers, hosts, elsewhere } = up;
  const { address, namespace, uiUrl } = connection;
  return {
    fleet,
    address,
    namespace,
    ...(uiUrl !== undefined && { ui: uiUrl }),
    stateDir,
    hosts,
    elsewhere,
    control,
    workers,
  };
}

function tellSummary(kit: Kit, up: Up): void {
  const { fleet, connection, control, hosts, elsewhere, startedCount } = up;
  const what = startedCount === 0 ? "was up already" : "is up";
  kit.print(
    `fleet ${fleet} ${what}: ${counted(hosts, "host")} ready here, Temporal at ${connection.address}`,
  );
  if (connection.uiUrl !== undefined) kit.print(`Temporal's Web UI: ${connection.uiUrl}`);
  if (control.mode !== "always-on") {
    kit.print(
      `The control plane's workers start when there is work and end after ${durationText(control.idleMs)} without.`,
    );
  }
  if (elsewhere.length > 0) {
    const [example = ""] = elsewhere;
    const [cluster = "", host = ""] = example.split("/");
    kit.print(
      `${counted(elsewhere.length, "host")} wait for their agents. On each of them, with TEMPORAL_ADDRESS set, run e.g.\n` +
        `  orbweaver agent --fleet ${fleet} --cluster ${cluster} --host ${host}`,
    );
  }
  if (startedCount > 0)
    kit.print("Try: orbweaver submit --gpus 2 --follow -- sh -c 'echo rank $RANK; sleep 5'");
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => {
      resolve();
    });
    // Nothing else keeps this process alive.
    const heart = setInterval(() => undefined, 60_000);
    signal.addEventListener("abort", () => {
      clearInterval(heart);
    });
  });
}
