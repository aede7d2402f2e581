/**
 * @file The state of `orbweaver up` on this machine: the server and the workers that it started for a fleet.
 *
 * `<root>/<fleet>/up.json`, with the database and the logs beside it. The root is ORBWEAVER_STATE_DIR, else
 * `$XDG_STATE_HOME/orbweaver`, else `~/.local/state/orbweaver`. The file is replaced by rename, so no reader sees half of one.
 */

import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { z } from "zod";
import { PRIVATE_DIR, PRIVATE_FILE } from "../access/private-files.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { Environment } from "./server/environment.ts";
import { parsedJson } from "../lib/parsed-json.ts";
import { hasErrorCode } from "../lib/error-code.ts";

/** As in `ProcessIdentity`, so a later process with the same pid is not mistaken for it. */
const identity = { bootId: z.string(), pid: z.number().int().positive(), started: z.string() };

export const upServer = z.object({
  ...identity,
  address: z.string(),
  namespace: z.string(),
  uiUrl: z.string().exactOptional(),
  /** The codec server of the UI. */
  codecUrl: z.string().exactOptional(),
  databaseFile: z.string(),
  logFile: z.string(),
});

const upState = z.object({
  fleet: z.string(),
  /** The fleet file that was given last. */
  fleetFile: z.string(),
  /** The last server that `up` started itself, running or not; its database and address are used again. */
  server: upServer.exactOptional(),
  /** The server of the environment, for people to read; connecting to it needs that environment again. */
  configuredAddress: z.string().exactOptional(),
  /** File of the payloads' encryption keys that `up` was given last. */
  encryptionKeys: z.string().exactOptional(),
  /** Whose jobs the agents of this machine start; absent: those of this user. */
  trust: z.union([z.literal("namespace"), z.strictObject({ policy: z.string() })]).exactOptional(),
  /** The starter of the control plane's workers; absent: `up` started them and they stay. */
  control: z
    .object({
      mode: z.enum(["always-on", "controller", "supervisor"]),
      /** Idle time of workers on demand. */
      idleMs: z.number().int().positive(),
    })
    .exactOptional(),
  /** Where the console is, running or not; its port is used again, so that open pages go on. */
  consoleUrl: z.string().exactOptional(),
  /** The fleet file whose `notify` it reads. */
  consoleFile: z.string().exactOptional(),
  /** Where the submit service answers tokens, in the same way. */
  apiUrl: z.string().exactOptional(),
  /** The state is that of a backup of this time, and the fleet has not been started from it yet. */
  restoredFromMs: z.number().exactOptional(),
  workers: z.array(
    z.object({
      ...identity,
      role: z.enum(["fleet", "jobs", "solver", "agent", "codec", "console", "api", "supervisor"]),
      cluster: z.string().exactOptional(),
      host: z.string().exactOptional(),
      logFile: z.string(),
    }),
  ),
});

export type UpState = z.infer<typeof upState>;
export type UpTrust = NonNullable<UpState["trust"]>;
export type UpControl = NonNullable<UpState["control"]>;
export type UpServer = z.infer<typeof upServer>;
export type UpWorker = UpState["workers"][number];

/** Folder of everything that Orbweaver keeps on this machine for the user. */
export function stateRoot(env: Environment): string {
  const override = env["ORBWEAVER_STATE_DIR"];
  if (override !== undefined && override !== "") return override;
  const xdg = env["XDG_STATE_HOME"];
  // The XDG rules say that a relative path is to be ignored.
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, "orbweaver");
  return join(env["HOME"] ?? homedir(), ".local", "state", "orbweaver");
}

/** Folder of one fleet. A fleet's name becomes a folder's name, so it must look like one. */
export function fleetStateDir(env: Environment, fleet: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(fleet)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `the fleet name ${JSON.stringify(fleet)} is not a plain name. Use letters, digits, dots and dashes, at most 63.`,
    );
  }
  return join(stateRoot(env), fleet);
}

/** The recorded state; undefined when `up` never ran or `down` has removed it. */
export async function readUpState(stateDir: string): Promise<UpState | undefined> {
  const file = upFile(stateDir);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return undefined;
    throw error;
  }
  const parsed = upState.safeParse(parsedJson(text));
  if (!parsed.success) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} does not have the form that \`orbweaver up\` writes: ${z.prettifyError(parsed.error)}. ` +
        "End the processes that it names, and remove it.",
    );
  }
  return parsed.data;
}

export async function writeUpState(stateDir: string, state: UpState): Promise<void> {
  await mkdir(stateDir, { recursive: true, mode: PRIVATE_DIR });
  const aside = join(stateDir, `up.${randomUUID()}.json`);
  await writeFile(aside, `${JSON.stringify(state, null, 2)}\n`, { mode: PRIVATE_FILE });
  await rename(aside, upFile(stateDir));
}

function upFile(stateDir: string): string {
  return join(stateDir, "up.json");
}

/** The history database that the console of `orbweaver up` keeps. */
export const historyFileIn = (env: Environment, fleet: string): string =>
  join(fleetStateDir(env, fleet), "history.db");
