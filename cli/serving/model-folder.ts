/**
 * @file Where the model of a served job lies when its job file names it without a folder: beside the job file.
 *
 * Only for what would be refused otherwise; a path of its own or `run.workdir` says where it lies on the hosts.
 */

import { dirname } from "node:path";
import { readJobText } from "../../domain/job/job-file.ts";
import { isServedFile } from "../../domain/job/job-serving.ts";
import { valueAt } from "../../domain/file/schema-problems.ts";

/** The folder of `path`, the job file with this text, when its model is to be looked for there. */
export function modelFolder(text: string, path: string): string | undefined {
  // The real readers of the file report its problems.
  const { value: file } = readJobText(text, path);
  const model = valueAt(file, ["model"]);
  const isBeside = typeof model === "string" && !model.startsWith("/");
  if (!isBeside || !isServedFile(file)) return undefined;
  return valueAt(file, ["run", "workdir"]) === undefined ? dirname(path) : undefined;
}
