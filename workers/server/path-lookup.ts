/** @file Finds a program on the PATH, so that messages can say which file was meant. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Environment } from "./environment.ts";

/** The first file called `name` on the PATH of `env` that may be executed. */
export async function findOnPath(name: string, env: Environment): Promise<string | undefined> {
  const folders = (env["PATH"] ?? env["Path"] ?? "").split(delimiter);
  for (const folder of folders) {
    if (folder === "") continue;
    const file = join(folder, name);
    if (await isExecutable(file)) return file;
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
