/**
 * @file `--sync`: reads a working folder without what `.orbweaverignore` names, and sends it to the submit service. Once a command for each folder.
 *
 * Links that lead out of the folder would mean something else on a host, and are refused; sockets, pipes and devices are left out, and so is what disappears
 * while the folder is read.
 */

import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { sendFolder } from "../../client/folder-sending.ts";
import type { FolderRule } from "../../domain/job/job-folder.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import {
  MAX_FOLDER_BYTES,
  MAX_FOLDER_ENTRIES,
  packFolder,
  staysInside,
  type PackedEntry,
} from "../../streams/folder-pack.ts";
import { serviceFor } from "../up/own-service.ts";
import type { CommandContext } from "./command-context.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { IGNORE_FILE, ignoreRules } from "./ignore-rules.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

const EXECUTABLE = 0o111;
/** What Node puts for bytes of a name that are no UTF-8; by such a name nothing is found. */
const NOT_UTF8 = "\uFFFD";
const sent = new WeakMap<CommandContext, Map<string, Promise<FolderRule>>>();

/** Throws BAD_INPUT for a folder that cannot be sent, NO_CONNECTION without a service. */
export function sentFolder(
  context: CommandContext,
  values: ConnectionOptionValues,
  folder: string,
): Promise<FolderRule> {
  const known = sent.get(context) ?? new Map<string, Promise<FolderRule>>();
  sent.set(context, known);
  const sending = known.get(folder) ?? send(context, values, folder);
  known.set(folder, sending);
  return sending;
}

async function send(
  context: CommandContext,
  values: ConnectionOptionValues,
  folder: string,
): Promise<FolderRule> {
  const packed = packFolder(await readFolder(folder));
  return await sendFolder(await serviceFor(context, values), packed);
}

/** All that is sent of it. Throws BAD_INPUT. */
export async function readFolder(folder: string): Promise<readonly PackedEntry[]> {
  const isIgnored = ignoreRules(await textOf(join(folder, IGNORE_FILE)));
  const entries: PackedEntry[] = [];
  let bytes = 0;
  const remedy = `Name what is not needed there in ${join(folder, IGNORE_FILE)}, or put data where hosts reach it.`;
  const take = (entry: PackedEntry): void => {
    entries.push(entry);
    if (entries.length > MAX_FOLDER_ENTRIES)
      throw new OrbweaverError(
        "BAD_INPUT",
        `--sync: ${folder} has more than ${String(MAX_FOLDER_ENTRIES)} files. ${remedy}`,
      );
  };
  const count = (more: number, path: string): void => {
    bytes += more;
    if (bytes <= MAX_FOLDER_BYTES) return;
    throw new OrbweaverError(
      "BAD_INPUT",
      `--sync: ${folder} has more than ${String(MAX_FOLDER_BYTES / 2 ** 20)} MiB, at ${path}. ${remedy}`,
    );
  };
  const walk = async (within: string, names: readonly string[]): Promise<void> => {
    for (const name of names) {
      const path = within === "" ? name : `${within}/${name}`;
      const full = join(folder, path);
      const found = await unlessGone(full, lstat(full));
      if (found === undefined) continue;
      if (isIgnored({ path, isFolder: found.isDirectory() })) continue;
      if (found.isDirectory()) {
        take({ path });
        await walk(path, (await unlessGone(full, readdir(full))) ?? []);
      } else if (found.isSymbolicLink()) {
        const target = await unlessGone(full, readlink(full));
        if (target === undefined) continue;
        if (!staysInside(path, target))
          throw new OrbweaverError(
            "BAD_INPUT",
            `--sync: the link ${full} leads out of the folder, to ${target}, which hosts do not have. Name it in ${join(folder, IGNORE_FILE)}, or put a copy there.`,
          );
        take({ path, target });
      } else if (found.isFile()) {
        count(found.size, path);
        const content = await unlessGone(full, readFile(full));
        if (content === undefined) continue;
        // A file may have grown meanwhile.
        count(content.length - found.size, path);
        take({ path, content, isExecutable: (found.mode & EXECUTABLE) !== 0 });
      }
    }
  };
  const names = await readdir(folder).catch((error: unknown) => {
    throw unreadable(folder, error);
  });
  await walk("", names);
  return entries;
}

/** Undefined for what was there when its folder was listed, and is no more. Throws BAD_INPUT. */
async function unlessGone<T>(full: string, reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (!hasErrorCode(error, "ENOENT")) throw unreadable(full, error);
    if (!full.includes(NOT_UTF8)) return undefined;
    throw new OrbweaverError(
      "BAD_INPUT",
      `--sync: the name of ${full} is no UTF-8. Rename it, or put it where hosts reach it.`,
    );
  }
}

function unreadable(path: string, error: unknown): OrbweaverError {
  const why = error instanceof Error ? error.message : String(error);
  const remedy = `Make it readable, or name it in ${IGNORE_FILE}.`;
  return new OrbweaverError("BAD_INPUT", `--sync cannot read ${path}: ${why}. ${remedy}`, {
    cause: error,
  });
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return "";
    throw unreadable(file, error);
  }
}
