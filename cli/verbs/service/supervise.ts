/**
 * @file `orbweaver supervise`: starts the control plane's workers when there is work for them, on servers that do not do it.
 *
 * The workers run on this machine, or wherever `--command` starts them. It holds no state and may be killed at any moment; as
 * long as it is away, jobs wait. Its cost: one small process and at most one call a second.
 */

import type { Command } from "commander";
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { openClient, type ConnectionConfig } from "../../../workers/connection.ts";
import { backlogCount } from "../../../workers/on-demand/backlog.ts";
import { settingFileOf, TASK_QUEUES, type ControlRole } from "../../../workers/on-demand/places.ts";
import { isRoleServed } from "../../../workers/on-demand/role-lock.ts";
import {
  DEFAULT_IDLE_MS,
  readOnDemandSetting,
  removeOnDemandSetting,
  writeOnDemandSetting,
  type OnDemandSetting,
} from "../../../workers/on-demand/setting.ts";
import { startDetached } from "../../../workers/on-demand/start.ts";
import {
  supervise,
  SUPERVISOR_PACE,
  type SupervisorPace,
} from "../../../workers/on-demand/supervisor.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import {
  addConnectionOptions,
  connectionFlags,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { connectionFor } from "../../command/session.ts";
import { workerSurroundings } from "../../up/worker-environment.ts";
import { tellReady } from "../../up/worker-process.ts";
import { workerLogger } from "../../command/worker-log.ts";

interface SuperviseValues extends ConnectionOptionValues {
  readonly command?: string;
  readonly idle?: number;
}

/** A command that starts workers elsewhere takes longer, and this machine cannot see whether its worker runs. */
const COMMAND_PACE: SupervisorPace = { ...SUPERVISOR_PACE, coolOffMs: 30_000 };

export function superviseVerb(context: CommandContext): Command {
  const verb = context
    .verb("supervise")
    .summary("start workers when there is work")
    .description(
      "Watches the task queues of the control plane, and starts a fleet worker and a jobs worker when tasks wait and no worker runs. Each worker ends when it has been idle. Use it with Temporal servers that do not start workers themselves. Stays in the foreground; queries the server at most once a second.",
    )
    .option(
      "--command <line>",
      "start a worker with this shell command instead; {role} is fleet, jobs or solver",
    )
    .option(
      "--idle <seconds>",
      "idle time after which workers end (default: 15)",
      wholeNumber("--idle", 1),
    )
    .addHelpText(
      "after",
      helpEnd([
        [
          "TEMPORAL_ADDRESS=temporal.example:7233 orbweaver supervise",
          "start workers on this machine",
        ],
        [
          "orbweaver supervise --command 'gcloud run jobs execute orbweaver-{role}'",
          "start workers elsewhere",
        ],
      ]),
    )
    .action(async (values: SuperviseValues) => {
      await runSupervisor(context, values);
    });
  return addConnectionOptions(verb);
}

async function runSupervisor(context: CommandContext, values: SuperviseValues): Promise<void> {
  context.endsByItself();
  const { io } = context;
  const fleet = fleetNamed(values, io.env);
  const stateDir = fleetStateDir(io.env, fleet);
  const logger = workerLogger(io, "supervisor");
  const connection = await connectionFor(values, io);
  const { client, close } = await openClient(connection);
  const local =
    values.command === undefined
      ? localStart(context, values, { stateDir, connection })
      : undefined;
  const ended = new AbortController();
  const end = (): void => ended.abort();
  io.interrupted.addEventListener("abort", end, { once: true });
  process.once("SIGTERM", end);
  logger.info({ fleet, server: connection.address }, "ready");
  tellReady();
  try {
    await supervise(
      {
        backlog: (role, kind) => backlogCount(client, TASK_QUEUES[role], [kind]),
        isServed: (role) => local !== undefined && isRoleServed(stateDir, role),
        start: (role) => {
          logger.info({ role }, "tasks wait, starting a worker");
          if (local !== undefined) local.start(role);
          else
            runCommand(values.command ?? "", role, (reason) =>
              logger.warn({ role, reason }, "the command failed"),
            );
        },
        nowMs: () => performance.now(),
        // Ends early with the signal.
        pause: (lengthMs) =>
          sleep(lengthMs, undefined, { signal: ended.signal }).catch(() => undefined),
        onTrouble: (error) => logger.warn({ error: String(error) }, "the server does not answer"),
      },
      local === undefined ? COMMAND_PACE : SUPERVISOR_PACE,
      ended.signal,
    );
  } finally {
    local?.forget();
    await close();
  }
}

/** Workers on this machine. A setting of `up` stays; a setting that this supervisor wrote ends with it. */
function localStart(
  context: CommandContext,
  values: SuperviseValues,
  { stateDir, connection }: { readonly stateDir: string; readonly connection: ConnectionConfig },
): { readonly start: (role: ControlRole) => void; readonly forget: () => void } {
  const { io } = context;
  const flags = connectionFlags(values);
  const ofUp = readOnDemandSetting(settingFileOf(stateDir));
  const { address, namespace, source } = connection;
  const setting: OnDemandSetting = ofUp ?? {
    stateDir,
    cwd: io.cwd,
    idleMs: values.idle === undefined ? DEFAULT_IDLE_MS : values.idle * 1_000,
    flags: source === "configured" ? {} : { isIsolated: true, address, namespace },
  };
  if (ofUp === undefined) writeOnDemandSetting(setting);
  const { env } = workerSurroundings(connection, { flags, env: io.env });
  return {
    start: (role) => startDetached(role, setting, env),
    forget: () => {
      if (ofUp === undefined) removeOnDemandSetting(stateDir);
    },
  };
}

function runCommand(line: string, role: ControlRole, onFailure: (reason: string) => void): void {
  const child = spawn("sh", ["-c", line.replaceAll("{role}", role)], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, ORBWEAVER_ROLE: role },
  });
  child.once("error", (error) => onFailure(error.message));
  child.once("exit", (code, signal) => {
    if (code !== 0) onFailure(signal ?? `exit code ${String(code)}`);
  });
}
