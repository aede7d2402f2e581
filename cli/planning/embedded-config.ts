/**
 * @file The part of a Hugging Face `config.json` that a job file needs, where its `model` names such a file, or a folder with one, beside the job file.
 *
 * The fleet has no access to the submitter's files, so that part travels in the job's `modelConfig`. A `model` that names nothing here lies on the
 * hosts, and is left alone.
 */

import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { valueAt } from "../../domain/file/schema-problems.ts";
import { readJobText } from "../../domain/job/job-file.ts";
import { modelPreset } from "../../domain/model/model-presets.ts";
import { isHfConfig, parseHfConfig } from "../../domain/model/parse-hf-config.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { problemText } from "../../domain/values/problem.ts";

export const CONFIG_FILE = "config.json";

/** `path` itself, or the file in it. */
export const configPath = (path: string): string =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
    ? join(path, CONFIG_FILE)
    : path;

export interface WrittenJob {
  readonly text: string;
  readonly file: string;
  /** Where it lies. */
  readonly folder: string;
}

export function embeddedConfig({
  text,
  file,
  folder,
}: WrittenJob): Readonly<Record<string, unknown>> | undefined {
  // The real readers of the job file report its problems.
  const { value: job } = readJobText(text, file);
  const model = valueAt(job, ["model"]);
  if (typeof model !== "string" || modelPreset(model) !== undefined) return undefined;
  if (valueAt(job, ["modelConfig"]) !== undefined) return undefined;
  const path = configPath(resolve(folder, model));
  if (!path.endsWith(".json") || !existsSync(path)) return undefined;
  const config = readFileSync(path, "utf8");
  if (!isHfConfig(config)) return undefined;
  const parsed = parseHfConfig(config, model);
  if (parsed.kind === "parsed") return parsed.used;
  const problems = parsed.problems.map((problem) => problemText(model, problem));
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}
