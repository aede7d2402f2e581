/**
 * @file The functions of `agent/folder/json-files.ts` on the machine's own file system, for locks and for the programs beside the agent.
 */

import { createJsonOnce, readJson, replaceJson } from "../folder/json-files.ts";
import type { WriteOptions } from "../ports/files.ts";
import { nodeFiles } from "./node-files.ts";

export const replaceFile = (path: string, value: unknown): void =>
  replaceJson(nodeFiles, path, value);

/** Whether this call created the file; false when it was there already. */
export const createOnce = (path: string, value: unknown, options?: WriteOptions): boolean =>
  createJsonOnce(nodeFiles, path, value, options);

/** The last value written; undefined when nothing was, or when a crash of the machine left no JSON. */
export const readFile = <T>(path: string): T | undefined => readJson<T>(nodeFiles, path);

/** For the user of the program alone, with its parents. */
export function makeFolder(path: string): string {
  nodeFiles.makeFolder(path);
  return path;
}
