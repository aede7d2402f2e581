/**
 * @file Reads the bandwidth files of `fleet import`: which are of one host, which are of a cluster, and their hosts.
 *
 * Problems name the file as the user gave it, because the result does not exist yet.
 */

import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { harmless } from "../../domain/values/file-problem.ts";
import { gpuTypeOfDevice } from "../../domain/values/gpu-device-name.ts";
import {
  parseMeasurements,
  surveyOf,
  type Survey,
  type SurveyedHost,
} from "../../domain/bandwidth/measured-bandwidth.ts";
import { problemText } from "../../domain/values/problem.ts";
import { readText } from "./fleet-files.ts";

export interface SurveyedFile extends Survey {
  /** As the user gave it. */
  readonly file: string;
}

/** All problems of all files at once. */
export function surveyFiles(cwd: string, files: readonly string[]): readonly SurveyedFile[] {
  const surveys = files.map((file) => surveyFile(cwd, file));
  const problems = surveys.flatMap((found) => ("problems" in found ? found.problems : []));
  if (problems.length > 0) {
    throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
  }
  return surveys.flatMap((found) => ("problems" in found ? [] : [found]));
}

function surveyFile(
  cwd: string,
  file: string,
): SurveyedFile | { readonly problems: readonly string[] } {
  const found = readText(resolve(cwd, file));
  if (found.kind === "missing") {
    return { problems: [`${harmless(file)} ${found.reason}. Name a log of nccl-tests.`] };
  }
  const parsed = parseMeasurements(found.text, file);
  if (parsed.kind === "refused") {
    return { problems: parsed.problems.map((problem) => problemText(file, problem)) };
  }
  const survey = surveyOf(parsed.value);
  if (survey.kind === "read") return { file, ...survey.value };
  return { problems: [`${harmless(file)}: ${survey.message}; ${survey.remedy}`] };
}

export interface FoundHost {
  readonly name: string;
  readonly gpus: number;
  readonly type: string;
  /** The file with the sets inside the host, as the user gave it. */
  readonly insideFile?: string;
}

/** The hosts that the files name, in order of appearance; `type` is the user's. */
export function hostsOf(
  surveys: readonly SurveyedFile[],
  type: string | undefined,
): readonly FoundHost[] {
  const byName = new Map<string, FoundHost>();
  for (const { file, hosts } of surveys) {
    for (const host of hosts) {
      const former = byName.get(host.name);
      if (host.isInside && former?.insideFile !== undefined) {
        throw new OrbweaverError(
          "BAD_INPUT",
          `${harmless(file)}: host ${harmless(host.name)} is measured in ${harmless(former.insideFile)} too; put all runs of a host into one file`,
        );
      }
      const insideFile = host.isInside ? file : former?.insideFile;
      byName.set(host.name, {
        name: host.name,
        gpus: Math.max(host.gpuCount, former?.gpus ?? 0),
        type: type ?? former?.type ?? typeOf(host, file),
        ...(insideFile !== undefined && { insideFile }),
      });
    }
  }
  return [...byName.values()];
}

function typeOf({ name, device }: SurveyedHost, file: string): string {
  const type = gpuTypeOfDevice(device ?? "");
  if (type !== undefined) return type;
  const found =
    device === undefined
      ? `does not say which GPUs ${harmless(name)} has`
      : `${harmless(name)} has "${harmless(device)}", which is no well-known GPU type`;
  throw new OrbweaverError("BAD_INPUT", `${harmless(file)}: ${found}. Give --type.`);
}
