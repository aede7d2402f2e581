/**
 * @file Starts a worker on demand as a process in a session of its own; its output goes to the role's log file.
 *
 * Node starts it with `startDetached`. Temporal's worker controller runs a program for at most a minute and with the server's
 * environment, so it uses a launcher: a shell script that detaches with `setsid --fork` and sets the environment of the fleet's
 * workers. Loaded before everything else of a worker on demand.
 */

import { spawn } from "node:child_process";
import { chmodSync, closeSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PRIVATE_FILE } from "../../access/private-files.ts";
import { makeFolder } from "../../agent/system/state-files.ts";
import type { Environment } from "../server/environment.ts";
import { launcherFileOf, onDemandDir, settingFileOf, type ControlRole } from "./places.ts";
import type { OnDemandSetting } from "./setting.ts";
import { shellQuoted } from "../../lib/shell-word.ts";

/** Returns at once; a worker that finds its role served ends by itself. */
export function startDetached(
  role: ControlRole,
  { stateDir, cwd }: Pick<OnDemandSetting, "stateDir" | "cwd">,
  env: Environment = process.env,
): void {
  const log = openSync(roleLogFile(stateDir, role), "a", PRIVATE_FILE);
  const child = spawn(process.execPath, [entryFile(), role, settingFileOf(stateDir)], {
    cwd,
    detached: true,
    env: { ...env },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  // The caller repeats a failed start; the failure must not end this process.
  child.on("error", () => undefined);
  child.unref();
}

/** Writes the program for the worker controller and returns its path. */
export function writeLauncher(
  role: ControlRole,
  { stateDir, cwd }: Pick<OnDemandSetting, "stateDir" | "cwd">,
  env: Environment,
): string {
  makeFolder(onDemandDir(stateDir));
  const file = launcherFileOf(stateDir, role);
  const log = roleLogFile(stateDir, role);
  const aside = `${file}.${String(process.pid)}.tmp`;
  const variables = Object.entries(env).flatMap(([name, value]) =>
    // The variables that another `up` of this user may have set differently; the rest is the server's own environment.
    value !== undefined && /^ORBWEAVER_[A-Z0-9_]+$/.test(name)
      ? [`export ${name}=${shellQuoted(value)}`]
      : [],
  );
  const command = [process.execPath, entryFile(), role, settingFileOf(stateDir)];
  const lines = [
    "#!/bin/sh",
    `# Starts the ${role} worker of a fleet on demand. Written by \`orbweaver up\`, removed by \`orbweaver down\`.`,
    ...variables,
    "umask 077",
    `cd ${shellQuoted(cwd)} || cd /`,
    `exec setsid --fork ${command.map(shellQuoted).join(" ")} >>${shellQuoted(log)} 2>&1 </dev/null`,
  ];
  // Readable by this user alone, because the environment may name secrets.
  writeFileSync(aside, `${lines.join("\n")}\n`, { mode: 0o700 });
  chmodSync(aside, 0o700);
  renameSync(aside, file);
  return file;
}

export function removeLauncher(stateDir: string, role: ControlRole): void {
  rmSync(launcherFileOf(stateDir, role), { force: true });
}

/** Beside the logs of the workers that are always on. */
const roleLogFile = (stateDir: string, role: ControlRole): string =>
  join(makeFolder(join(stateDir, "logs")), `${role}.log`);

/** The compiled entry: from the sources (as tests run them) the build's copy is used. */
function entryFile(): string {
  const here = fileURLToPath(new URL("./entry.js", import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? here.replace(/workers\/on-demand\/entry\.js$/, "dist/workers/on-demand/entry.js")
    : here;
}
