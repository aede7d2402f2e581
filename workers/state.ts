/**
 * @file What `orbweaver up` remembers about a fleet on this machine: which server and workers it started, and where.
 *
 * `<root>/<fleet>/up.json`, with the database and the logs beside it. The root is ORBWEAVER_STATE_DIR, else
 * `$XDG_STATE_HOME/orbweaver`, else `~/.local/state/orbweaver`. The file is replaced by rename: no reader sees half of one.
 */

import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { z } from "zod";
import { OrbweaverError } from "../domain/failure.ts";
import type { Environment } from "./server/environment.ts";

/** As `ProcessIdentity` has it: a later process with the same pid is not mistaken for it. */
const identity = { bootId: z.string(), pid: z.number().int().positive(), started: z.string() };

export const upServer = z.object({
  ...identity,
  address: z.string(),
  namespace: z.string(),
  uiUrl: z.string().exactOptional(),
  /** Where the UI asks for readable payloads. */
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
  /** Who starts the workers of the control plane; absent: they were started by `up` and stay. */
  control: z
    .object({
      mode: z.enum(["always-on", "controller", "supervisor"]),
      /** Of the modes in which they end by themselves. */
      idleMs: z.number().int().positive(),
    })
    .exactOptional(),
  workers: z.array(
    z.object({
      ...identity,
      role: z.enum(["fleet", "jobs", "solver", "agent", "codec", "supervisor"]),
      cluster: z.string().exactOptional(),
      host: z.string().exactOptional(),
      logFile: z.string(),
    }),
  ),
});

export type UpState = z.infer<typeof upState>;
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

/** What `up` noted; undefined when it never ran or `down` has ended it. */
export async function readUpState(stateDir: string): Promise<UpState | undefined> {
  const file = upFile(stateDir);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
  const parsed = upState.safeParse(parseJson(text));
  if (!parsed.success) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} is not what \`orbweaver up\` writes: ${z.prettifyError(parsed.error)}. ` +
        "End the processes that it names and remove it.",
    );
  }
  return parsed.data;
}

export async function writeUpState(stateDir: string, state: UpState): Promise<void> {
  await mkdir(stateDir, { recursive: true });
  const aside = join(stateDir, `up.${randomUUID()}.json`);
  await writeFile(aside, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  await rename(aside, upFile(stateDir));
}

export async function removeUpState(stateDir: string): Promise<void> {
  await rm(upFile(stateDir), { force: true });
}

function upFile(stateDir: string): string {
  return join(stateDir, "up.json");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
