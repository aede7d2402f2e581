/**
 * @file Brings a fleet up on this machine, from nothing to ready: server, control plane, fleet workflow, agents.
 *
 * Processes that run already stay. The state file is written after every process that was started, so that an `up` that is interrupted
 * half-way leaves nothing that `down` does not know; it is written only after the server has answered, so that a wrong address
 * changes nothing.
 */

import type { Client } from "@temporalio/client";
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import type { HostTrust } from "../../access/host-trust.ts";
import { isAlive } from "../../agent/system/process-identity.ts";
import { OrbweaverClient } from "../../client/index.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import {
  keyFileOf,
  openClient,
  type ConnectionConfig,
  type ConnectionFlags,
} from "../../workers/connection.ts";
import { DEFAULT_IDLE_MS } from "../../workers/on-demand/setting.ts";
import { ensureSearchAttributes } from "../../workers/server/index.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import {
  fleetStateDir,
  readUpState,
  type UpControl,
  type UpServer,
  type UpState,
  type UpWorker,
} from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import { readFleet } from "../command/fleet-files.ts";
import type { TrustName } from "../command/host-trust.ts";
import { warnOfOtherName } from "../command/fleet-name.ts";
import { tellModels } from "../measuring/tell-model.ts";
import { firstAnswer, placeAgents, untilHostsKnown } from "./agents.ts";
import { provideApi, type ApiPlace } from "./api-process.ts";
import { closeState } from "./close-state.ts";
import { trustArgs, upTrust } from "./host-trust.ts";
import { codecServerArgs } from "./codec-server.ts";
import { provideConsole } from "./console-process.ts";
import {
  controlMode,
  prepareSupervised,
  startByController,
  stopController,
  stopOnDemand,
  type ControlSettings,
  type OnDemandPlace,
} from "./control-plane.ts";
import { openNotes, type FleetNotes } from "./fleet-notes.ts";
import { configureFleet, endRun, startFleet, storeDetails } from "./fleet-start.ts";
import { agentSettings, controlSettings, createStarter, isControl } from "./processes.ts";
import { ownFleetFile } from "./own-fleet-file.ts";
import { UNFINISHED } from "./restore.ts";
import { provideServer } from "./server.ts";
import { endAll } from "./take-down.ts";
import { workerSurroundings, type WorkerSurroundings } from "./worker-environment.ts";

export interface UpRequest extends ControlSettings {
  readonly fleet: string;
  /** The fleet file of the command line. */
  readonly file: string | undefined;
  readonly flags: ConnectionFlags;
  readonly db: string | undefined;
  readonly uiPort: number | undefined;
  readonly idleMs: number | undefined;
  readonly trust: TrustName | undefined;
  readonly policy: string | undefined;
  readonly hasConsole: boolean;
}

/** A fleet that is up. */
export interface Up {
  readonly fleet: string;
  readonly stateDir: string;
  readonly connection: ConnectionConfig;
  readonly control: UpControl;
  readonly workers: readonly UpWorker[];
  readonly hosts: number;
  readonly elsewhere: readonly string[];
  /** Whose jobs the agents of this machine start. */
  readonly trust: HostTrust;
  readonly startedCount: number;
  /** Absent: there is none. */
  readonly consoleUrl: string | undefined;
  /** By which others submit; absent: there is none. */
  readonly api: ApiPlace | undefined;
}

const DEFAULT_FLEET_FILE = join("data", "fleets", "small.yaml");

export async function bringUp(context: CommandContext, request: UpRequest): Promise<Up> {
  const ground = await prepare(context, request);
  const { fleet, stateDir, connection, notes, trust } = ground;
  const { client, close } = await openClient(connection);
  try {
    await ensureSearchAttributes(client.connection, connection.namespace, SEARCH_ATTRIBUTES);
    await notes.write();
    await beginAnew(context, client, ground);
    const { control, surroundings } = await provideControl(context, client, ground);
    const at = { fleet, stateDir, surroundings };
    const { hosts, elsewhere, startedCount } = await startProcesses(context, client, {
      ground,
      mode: control.mode,
      surroundings,
    });
    const { hasConsole } = request;
    const consoleUrl = hasConsole ? await provideConsole(context, notes, at) : undefined;
    const { access } = ground.description;
    const api = await provideApi(context, notes, { ...at, ...(access && { access }) });
    await endOutdated(context, notes, [
      ...controlSettings(control.mode, at),
      ...(hasConsole ? [{ role: "console" as const }] : []),
      // Sessions may have started it (`own-service.ts`); without access it admits its owner alone.
      { role: "api" },
    ]);
    const { workers } = notes.state();
    return {
      ...{ fleet, stateDir, connection, control, workers, hosts, elsewhere, trust },
      ...{ startedCount, consoleUrl, api },
    };
  } finally {
    await close();
  }
}

/** Everything that is known before the first worker starts. */
interface Ground extends Pick<UpRequest, "fleet" | "file" | "flags"> {
  readonly stateDir: string;
  readonly description: Fleet;
  readonly connection: ConnectionConfig;
  /** Absent when the server is configured and not ours. */
  readonly server: UpServer | undefined;
  readonly keyFile: string | undefined;
  readonly control: UpControl;
  readonly trust: HostTrust;
  readonly notes: FleetNotes;
}

/** Reads the fleet file before anything is started, then finds or starts the server. */
async function prepare(
  context: CommandContext,
  { fleet, file, flags, db, uiPort, ...asked }: UpRequest,
): Promise<Ground> {
  const { io } = context;
  const stateDir = fleetStateDir(io.env, fleet);
  if (existsSync(join(stateDir, UNFINISHED)))
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `a restore of fleet ${fleet} was not finished. Run \`orbweaver restore --force FOLDER\` again.`,
    );
  const former = await readUpState(stateDir);
  closeState(stateDir, former);
  const { trust, noted: notedTrust } = upTrust(asked, io, former);
  const fleetFile = resolve(
    io.cwd,
    file ??
      former?.fleetFile ??
      (await ownFleetFile(context, stateDir)) ??
      join(packageRoot(), DEFAULT_FLEET_FILE),
  );
  const description = readFleet(file ?? fleetFile, io.cwd);
  if (file !== undefined) warnOfOtherName(context, fleet, description.name);

  const { connection, server, isNew } = await provideServer(io, {
    flags,
    stateDir,
    former,
    ...(db !== undefined && { databaseFile: resolve(io.cwd, db) }),
    ...(uiPort !== undefined && { uiPort }),
  });
  const keyFile = keyFileOf(flags, io) ?? former?.encryptionKeys;
  const alive = (former?.workers ?? []).filter(isAlive);
  const mode = controlMode(asked, {
    isOwnServer: server !== undefined,
    former: former && { ...former, workers: alive },
  });
  const control = { mode, idleMs: asked.idleMs ?? former?.control?.idleMs ?? DEFAULT_IDLE_MS };
  const notes = openNotes(stateDir, {
    fleet,
    fleetFile,
    control,
    ...(notedTrust !== undefined && { trust: notedTrust }),
    ...(keyFile !== undefined && { encryptionKeys: keyFile }),
    ...(former?.consoleUrl !== undefined && { consoleUrl: former.consoleUrl }),
    ...(former?.consoleFile !== undefined && { consoleFile: former.consoleFile }),
    ...(former?.apiUrl !== undefined && { apiUrl: former.apiUrl }),
    ...(former?.restoredFromMs !== undefined && { restoredFromMs: former.restoredFromMs }),
    ...(server === undefined ? configuredPlace(former, connection.address) : { server }),
    workers: alive,
  });
  if (isNew) await notes.write();
  context.say(`temporal server: ${connection.address}${isNew ? ", started" : ""}`);
  const place = { fleet, file, flags, stateDir, description };
  return { ...place, connection, server, keyFile, control, trust, notes };
}

/** On a configured server. Our own former server stays noted, because its database is the fleet's history there. */
function configuredPlace(
  former: UpState | undefined,
  address: string,
): Pick<UpState, "server" | "configuredAddress"> {
  const server = former?.server;
  return { configuredAddress: address, ...(server !== undefined && { server }) };
}

/** Brings the wanted mode of the control plane about, or the one that is possible here, and notes it. */
async function provideControl(
  context: CommandContext,
  client: Client,
  { connection, stateDir, flags, keyFile, server, control, trust, notes }: Ground,
): Promise<{ readonly control: UpControl; readonly surroundings: WorkerSurroundings }> {
  const { env, cwd } = context.io;
  const isNamespaceTrusted = trust.kind === "namespace";
  const surroundings = workerSurroundings(connection, { flags, env, keyFile, isNamespaceTrusted });
  const { idleMs } = control;
  const place = { connection, stateDir, cwd, env: surroundings.env, idleMs };
  const isOwnServer = server !== undefined;
  const mode = await provideMode(context, client, { mode: control.mode, place, isOwnServer });
  if (mode !== control.mode) notes.change({ control: { mode, idleMs } });
  return { control: { mode, idleMs }, surroundings };
}

async function provideMode(
  context: CommandContext,
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
    context.say(
      `workers cannot start on demand here: ${started.reason}; they are kept running instead`,
    );
  }
  if (mode === "supervisor") {
    prepareSupervised(place);
    return mode;
  }
  // Worker deployments on a configured server belong to its owner.
  if (isOwnServer) await stopController(client, place.stateDir);
  else await stopOnDemand(place.stateDir);
  return "always-on";
}

/** Ends the restored run of the fleet's workflow, once, so that the fleet goes on as after the loss of its ledger (decision 13). */
async function beginAnew(
  context: CommandContext,
  client: Client,
  { fleet, notes }: Pick<Ground, "fleet" | "notes">,
): Promise<void> {
  const { restoredFromMs, ...rest } = notes.state();
  if (restoredFromMs === undefined) return;
  const takenAt = new Date(restoredFromMs).toISOString();
  await endRun(client, fleet, `the fleet was restored from a backup of ${takenAt}`);
  notes.replace(rest);
  await notes.write();
  context.say(`fleet ${fleet}: starts anew from the backup of ${takenAt}`);
}

/** Starts the fleet's workflow, the processes of the control plane and the agents of this machine; returns when the fleet knows them. */
async function startProcesses(
  context: CommandContext,
  client: Client,
  {
    ground: { fleet, file, stateDir, description, server, notes },
    mode,
    surroundings,
  }: {
    readonly ground: Ground;
    readonly mode: UpControl["mode"];
    readonly surroundings: WorkerSurroundings;
  },
): Promise<Pick<Up, "hosts" | "elsewhere" | "startedCount">> {
  const { io } = context;
  const at = { fleet, stateDir, surroundings };
  const detailsHash = await storeDetails(description, stateDir);
  const start = { name: fleet, fleet: description, detailsHash };
  const isNewFleet = await startFleet(client, start);

  const { ensure, startedCount } = createStarter(context, notes, at);
  const codecArgs = codecServerArgs(server, fleet);
  const processes = [
    ...controlSettings(mode, at).map(ensure),
    ...(codecArgs === undefined ? [] : [ensure({ role: "codec", args: codecArgs })]),
  ];
  const orbweaver = new OrbweaverClient(client, { fleet });
  let { shape } = description;
  if (!isNewFleet) {
    // Only the worker of a fleet that ran before knows the fleet's present shape.
    await Promise.all(processes);
    ({ shape } = await firstAnswer(orbweaver, io.nowMs));
    if (file !== undefined) {
      await configureFleet(client, start);
      context.say(`fleet ${fleet}: changed to the description in ${file}`);
      ({ shape } = await orbweaver.fleet());
    }
  }
  if (isNewFleet || file !== undefined) await tellModels(client, fleet, description.interHost);
  const { here, elsewhere } = placeAgents(shape, hostname());
  const agentArgs = trustArgs(notes.state().trust);
  const agents = here.map((place) => ensure({ ...agentSettings(place), agentArgs }));
  await Promise.all([...processes, ...agents]);
  const hosts = here.flatMap((place) => place.serves);
  await untilHostsKnown(orbweaver, hosts, io.nowMs);
  return { hosts: hosts.length, elsewhere, startedCount: startedCount() };
}

/** Ends the processes of a former mode of the control plane, and their lines in the notes. */
async function endOutdated(
  context: CommandContext,
  notes: FleetNotes,
  wanted: readonly Pick<UpWorker, "role">[],
): Promise<void> {
  const { workers } = notes.state();
  const outdated = workers.filter(
    ({ role }) =>
      (isControl(role) || role === "console" || role === "api") &&
      !wanted.some((settings) => settings.role === role),
  );
  await endAll(context, outdated);
  notes.change({ workers: workers.filter((worker) => !outdated.includes(worker)) });
  await notes.write();
}
