/**
 * @file What a job file takes along of the file that its `model` names beside it: the part of a Hugging Face `config.json` that counts, or a profile of
 * the model's operators.
 *
 * The fleet has no access to the submitter's files, so these travel in the job's `modelConfig` and `modelProfile`. A `model` that names nothing here
 * lies on the hosts, and is left alone; so is a profile that is too large to travel.
 */

import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { packProfile, readPackedProfile } from "../../activities/launch-extras/packed-profile.ts";
import { valueAt } from "../../domain/file/schema-problems.ts";
import { readJobText } from "../../domain/job/job-file.ts";
import { MAX_PROFILE_CHARS } from "../../domain/job/job-model.ts";
import { modelPreset } from "../../domain/model/model-presets.ts";
import { isHfConfig, parseHfConfig } from "../../domain/model/parse-hf-config.ts";
import { isProfile } from "../../domain/model/parse-profile.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { problemText, type Problem } from "../../domain/values/problem.ts";

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

export interface EmbeddedModel {
  readonly modelConfig?: Readonly<Record<string, unknown>>;
  readonly modelProfile?: string;
}

const MOST_BYTES = 4 * 1024 * 1024;

export function embeddedModel({ text, file, folder }: WrittenJob): EmbeddedModel {
  // The real readers of the job file report its problems.
  const { value: job } = readJobText(text, file);
  const model = valueAt(job, ["model"]);
  if (typeof model !== "string" || modelPreset(model) !== undefined) return {};
  const said = ["modelConfig", "modelProfile"].map((key) => valueAt(job, [key]));
  if (said.some((value) => value !== undefined)) return {};
  const path = configPath(resolve(folder, model));
  if (!/\.(?:json|txt|gz)$/i.test(path) || !existsSync(path)) return {};
  if (statSync(path).size > MOST_BYTES) return {};
  const written = textOf(path);
  if (isHfConfig(written)) {
    const parsed = parseHfConfig(written, model);
    if (parsed.kind === "parsed") return { modelConfig: parsed.used };
    throw modelRefusal(model, parsed.problems);
  }
  if (!isProfile(written) || valueAt(job, ["class"]) === "inference") return {};
  const modelProfile = packProfile(written);
  if (modelProfile.length > MAX_PROFILE_CHARS) return {};
  const read = readPackedProfile(modelProfile, { name: model });
  if (read.kind === "refused") throw modelRefusal(model, read.problems);
  return { modelProfile };
}

/** Nothing where it cannot be unpacked. */
function textOf(path: string): string {
  const bytes = readFileSync(path);
  if (!/\.gz$/i.test(path)) return bytes.toString("utf8");
  try {
    return gunzipSync(bytes, { maxOutputLength: MOST_BYTES }).toString("utf8");
  } catch {
    return "";
  }
}

export function modelRefusal(model: string, found: readonly Problem[]): OrbweaverError {
  const problems = found.map((problem) => problemText(model, problem));
  return new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}
