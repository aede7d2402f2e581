/**
 * @file The working folder of a job that names none: the folder in which it is submitted, where the hosts of the fleet have that.
 *
 * They have it where `up` has started their agents on this machine, as this user. A command line then runs there, as a shell's would; of a job file only
 * the command that needs it. Of other hosts nothing is known: a command that needs the folder is refused before anything is submitted, unless
 * `--workdir .` says that they have it, and agents check that, or `--sync` sends it.
 */

import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { valueAt } from "../../domain/file/schema-problems.ts";
import { readJobText } from "../../domain/job/job-file.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { socketIn } from "../../api/sockets.ts";
import { userName } from "../../access/own-identity.ts";
import { isAlive } from "../../agent/system/process-identity.ts";
import { configuredConnection } from "../../workers/connection.ts";
import { fleetStateDir, readUpState, type UpState } from "../../workers/state.ts";
import { placeAgents } from "../up/agents.ts";
import type { Io } from "../terminal/io.ts";
import { connectionFlags, type ConnectionOptionValues } from "./connection-options.ts";
import { parseFleetAt } from "./fleet-files.ts";
import { fleetNamed } from "./fleet-name.ts";
import type { CommandContext } from "./command-context.ts";
import { isInterpreter, type JobFlags } from "./job-flags.ts";
import { configuredService } from "./service-session.ts";
import { sentFolder } from "./sent-folder.ts";

/** `all`: every host has the folder; `some`: those whose agents `up` has started here; `unknown`: nothing is known of any. */
export type Sharing = "all" | "some" | "unknown";

export async function sharingOf(values: ConnectionOptionValues, io: Io): Promise<Sharing> {
  const stateDir = fleetStateDir(io.env, fleetNamed(values, io.env));
  const state = await readUpState(stateDir);
  const agents = state?.workers.filter((each) => each.role === "agent" && isAlive(each)) ?? [];
  if (state === undefined || agents.length === 0) return "unknown";
  const service = configuredService(values, io);
  const isOwn =
    service === undefined
      ? isServerOf(state, configuredConnection(connectionFlags(values), io.env)?.address)
      : service.socket === socketIn(join(stateDir, "api"), userName());
  if (!isOwn) return "unknown";
  return isWhole(state.fleetFile, io.cwd) ? "all" : "some";
}

/** Whether `up` has started all agents of the fleet here; not known, so false, once its file is gone. */
function isWhole(fleetFile: string, cwd: string): boolean {
  try {
    const fleet = parseFleetAt(fleetFile, cwd);
    return (
      fleet.kind === "parsed" && placeAgents(fleet.fleet.shape, hostname()).elsewhere.length === 0
    );
  } catch (error) {
    if (error instanceof OrbweaverError) return false;
    throw error;
  }
}

const isServerOf = ({ server, configuredAddress }: UpState, address: string | undefined): boolean =>
  address === undefined || [server?.address, configuredAddress].includes(address);

export interface FolderWish {
  readonly command: readonly string[];
  /** Written at the shell's prompt, not in a file. */
  readonly isTyped: boolean;
}

/** Undefined: the job's own scratch folder. Throws BAD_INPUT for a command that hosts would look for in vain. */
export function workingFolder(
  { command, isTyped }: FolderWish,
  sharing: Sharing,
  cwd: string,
): string | undefined {
  const needed = neededOf(command, cwd);
  if (sharing === "all") return isTyped || needed !== undefined ? cwd : undefined;
  if (needed === undefined) return undefined;
  if (sharing === "some") return cwd;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${needed} is looked for in the folder of the job, and it is not known that the hosts have ${cwd}. Give --sync to send it with the job, --workdir . (run.workdir) if they have it, or a full path of theirs.`,
  );
}

/** The program, or the script of an interpreter, that is named relative to the folder. */
function neededOf([program = "", ...words]: readonly string[], cwd: string): string | undefined {
  if (program.includes("/")) return program.startsWith("/") ? undefined : program;
  const [script = ""] = words;
  const isScript = isInterpreter(program) && script !== "" && !/^[-/]/.test(script);
  return isScript && existsSync(resolve(cwd, script)) ? script : undefined;
}

export type PlaceFlags = Pick<JobFlags, "workdir" | "folder">;

export interface PlaceWish {
  readonly commandLine: readonly string[] | undefined;
  /** A job file, and what it says of its place beside the flags. */
  readonly file?: { readonly text: string; readonly modelFolder?: string | undefined };
  readonly sharing: () => Promise<Sharing>;
}

/** Where the job runs, as flags of it; none where its file says so, or nothing is needed. */
export async function placeFlags(
  context: CommandContext,
  values: JobFlags & ConnectionOptionValues,
  { commandLine, file, sharing }: PlaceWish,
): Promise<PlaceFlags> {
  const { cwd } = context.io;
  const named = values.workdir === undefined ? undefined : resolve(cwd, values.workdir);
  if (values.sync === true) {
    if (file !== undefined && valueAt(readJobText(file.text, "").value, ["run", "workdir"]))
      throw new OrbweaverError(
        "BAD_INPUT",
        "--sync sends a folder in which the job runs, and its file names another (run.workdir). Take one of the two out.",
      );
    return { folder: await sentFolder(context, values, named ?? cwd) };
  }
  if (named !== undefined) return { workdir: named };
  const workdir =
    file === undefined
      ? workingFolder({ command: commandLine ?? [], isTyped: true }, await sharing(), cwd)
      : (file.modelFolder ??
        folderOfFile(file.text, { sharing: await sharing(), commandLine, cwd }));
  return workdir === undefined ? {} : { workdir };
}

/** Of a job file that names none. */
export function folderOfFile(
  text: string,
  {
    sharing,
    commandLine,
    cwd,
  }: {
    readonly sharing: Sharing;
    readonly commandLine: readonly string[] | undefined;
    readonly cwd: string;
  },
): string | undefined {
  // The real readers of the file report its problems.
  const { value: file } = readJobText(text, "");
  for (const key of ["workdir", "folder"])
    if (valueAt(file, ["run", key]) !== undefined) return undefined;
  // The command is one of the image, which has its own folders.
  if (valueAt(file, ["run", "container"]) !== undefined) return undefined;
  if (commandLine !== undefined)
    return workingFolder({ command: commandLine, isTyped: true }, sharing, cwd);
  const written = valueAt(file, ["run", "command"]);
  const words = typeof written === "string" ? written.trim().split(/\s+/) : written;
  const command = Array.isArray(words) ? words.map(String) : [];
  return workingFolder({ command, isTyped: false }, sharing, cwd);
}
