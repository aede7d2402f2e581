/**
 * @file Chooses and sets up the starter of the control plane's workers: `up` itself, permanently; the worker controller of the
 * fleet's own Temporal server, on demand; or our supervisor, on demand, on configured servers.
 *
 * A flag decides. Without one, a running mode is kept; otherwise the own server's controller is used where the machine has the
 * programs that it needs, and on a configured server the workers always run.
 */

import type { Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { ownBuildId } from "../../workers/on-demand/build-id.ts";
import { deploy, undeployAll, withdrawAll } from "../../workers/on-demand/deployment.ts";
import { CONTROL_ROLES } from "../../workers/on-demand/places.ts";
import { livingOnDemand } from "../../workers/on-demand/role-lock.ts";
import {
  removeOnDemandSetting,
  writeOnDemandSetting,
  type OnDemandSetting,
} from "../../workers/on-demand/setting.ts";
import { removeLauncher, startDetached, writeLauncher } from "../../workers/on-demand/start.ts";
import type { ConnectionConfig } from "../../workers/connection.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { findOnPath } from "../../workers/server/path-lookup.ts";
import type { UpControl, UpState } from "../../workers/state.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

export interface ControlSettings {
  readonly isAlwaysOn: boolean;
  readonly isOnDemand: boolean;
}

export function controlMode(
  { isAlwaysOn, isOnDemand }: ControlSettings,
  { isOwnServer, former }: { readonly isOwnServer: boolean; readonly former: UpState | undefined },
): UpControl["mode"] {
  const onDemand = isOwnServer ? "controller" : "supervisor";
  if (isAlwaysOn) return "always-on";
  if (isOnDemand) return onDemand;
  const isRunning = former?.workers.some(
    ({ role }) => role !== "codec" && role !== "console" && role !== "agent",
  );
  // A state file without a mode: the workers always run.
  if (isRunning === true) return former?.control?.mode ?? "always-on";
  return isOwnServer ? "controller" : "always-on";
}

export interface OnDemandPlace {
  readonly connection: ConnectionConfig;
  readonly stateDir: string;
  readonly cwd: string;
  /** The environment of the workers. */
  readonly env: Environment;
  readonly idleMs: number;
}

/** Registers the workers with the server's controller and starts them once; returns the reason when that is not possible. */
export async function startByController(
  client: Client,
  place: OnDemandPlace,
): Promise<{ readonly kind: "started" } | { readonly kind: "refused"; readonly reason: string }> {
  const { stateDir, cwd, env } = place;
  for (const program of ["setsid", "timeout"]) {
    if ((await findOnPath(program, env)) === undefined) {
      return { kind: "refused", reason: `there is no \`${program}\` on the PATH` };
    }
  }
  const buildId = ownBuildId();
  const setting = settingOf(place, buildId);
  writeOnDemandSetting(setting);
  try {
    await Promise.all(
      CONTROL_ROLES.map((role) =>
        deploy(client, { role, buildId, program: writeLauncher(role, { stateDir, cwd }, env) }),
      ),
    );
  } catch (error) {
    await stopOnDemand(stateDir);
    // Rules are committed that this release does not know: its workers would get no task either.
    if (error instanceof OrbweaverError) throw error;
    return {
      kind: "refused",
      reason: `the server cannot start workers (${error instanceof Error ? error.message : String(error)})`,
    };
  }
  // Workers of another build serve a version that is no longer current.
  await endOnDemand(stateDir, (process_) => process_.buildId !== buildId);
  startDetached("jobs", setting, env);
  return { kind: "started" };
}

/** Writes the setting for `orbweaver supervise`, which starts the workers itself. */
export function prepareSupervised(place: OnDemandPlace): void {
  writeOnDemandSetting(settingOf(place, undefined));
}

/** Returns the own server's tasks to workers that always run. */
export async function stopController(client: Client, stateDir: string): Promise<void> {
  await undeployAll(client);
  await stopOnDemand(stateDir);
}

/** For `down`: stops further starts and ends the workers on demand. Asks the server first, if it still answers. */
export async function stopOnDemand(stateDir: string, client?: Client): Promise<number> {
  removeOnDemandSetting(stateDir);
  if (client !== undefined) await withdrawAll(client);
  for (const role of CONTROL_ROLES) removeLauncher(stateDir, role);
  return await endOnDemand(stateDir, () => true);
}

const PATIENCE_MS = 15_000;
const LOOK_EVERY_MS = 50;

/** Ends the chosen workers on demand: TERM, a grace time, KILL. */
async function endOnDemand(
  stateDir: string,
  isChosen: (process_: ReturnType<typeof livingOnDemand>[number]) => boolean,
): Promise<number> {
  const asked = new Set<number>();
  const insistAtMs = performance.now() + PATIENCE_MS;
  for (;;) {
    const living = livingOnDemand(stateDir).filter(isChosen);
    if (living.length === 0) return asked.size;
    const isLate = performance.now() > insistAtMs;
    for (const { pid } of living) {
      if (isLate) send(pid, "SIGKILL");
      else if (!asked.has(pid)) send(pid, "SIGTERM");
      asked.add(pid);
    }
    await sleep(LOOK_EVERY_MS);
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasErrorCode(error, "ESRCH")) throw error;
  }
}

function settingOf(place: OnDemandPlace, buildId: string | undefined): OnDemandSetting {
  const { connection, stateDir, cwd, idleMs } = place;
  const { source, address, namespace } = connection;
  return {
    stateDir,
    cwd,
    idleMs,
    // Workers find a configured server in the environment, like every worker of `up`.
    flags: source === "configured" ? {} : { isIsolated: true, address, namespace },
    ...(buildId !== undefined && { buildId }),
  };
}
