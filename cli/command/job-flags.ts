/**
 * @file Merges the flags of `submit` into a job file. The file's own parser checks the result.
 *
 * A flag replaces its key; `--env` and `--label` add to the file's; the command line after `--` replaces the command.
 */

import { basename, extname } from "node:path";
import { OrbweaverError, type JobFile } from "../../client/index.ts";
import { parseDependency } from "../../domain/job/dependency.ts";
import type { FolderRule } from "../../domain/job/job-folder.ts";
import { readJobText } from "../../domain/job/job-file.ts";
import { formatProblem } from "../../domain/values/file-problem.ts";
import type { ArrayKeys } from "./array-tasks.ts";

export interface JobFlags {
  readonly gpus?: number;
  readonly min?: number;
  readonly gangTimeout?: string;
  readonly grow?: boolean;
  readonly name?: string;
  readonly class?: string;
  readonly tenant?: string;
  readonly priority?: number;
  readonly label?: ReadonlyMap<string, string>;
  readonly env?: ReadonlyMap<string, string>;
  readonly workdir?: string;
  readonly launch?: string;
  readonly gpuType?: readonly string[];
  readonly memory?: string;
  readonly cluster?: readonly string[];
  readonly jurisdiction?: readonly string[];
  readonly sameHost?: boolean;
  readonly antiAffinity?: string;
  readonly preempt?: boolean;
  readonly shrink?: boolean;
  readonly minRuntime?: string;
  readonly timeLimit?: string;
  readonly deadline?: string;
  readonly attempts?: number;
  readonly fleets?: readonly string[];
  readonly patience?: string;
  readonly after?: readonly string[];
  readonly onFailedDependency?: string;
  readonly group?: string;
  readonly hold?: boolean;
  readonly array?: ArrayKeys;
  readonly parallel?: number;
  readonly sync?: boolean;
  /** No key of the file. */
  readonly queueAnyway?: boolean;
  /** No flag: what `--sync` has sent. */
  readonly folder?: FolderRule;
  /** No flag: read from the file that the job's model names. */
  readonly modelConfig?: Readonly<Record<string, unknown>>;
  readonly modelProfile?: string;
}

const JOB_FLAGS = [
  "gpus",
  "min",
  "gangTimeout",
  "grow",
  "name",
  "class",
  "tenant",
  "priority",
  "label",
  "env",
  "workdir",
  "folder",
  "launch",
  "gpuType",
  "memory",
  "cluster",
  "jurisdiction",
  "sameHost",
  "antiAffinity",
  "preempt",
  "shrink",
  "minRuntime",
  "timeLimit",
  "deadline",
  "attempts",
  "fleets",
  "patience",
  "after",
  "onFailedDependency",
  "group",
  "hold",
  "array",
  "parallel",
  "modelConfig",
  "modelProfile",
] as const satisfies readonly (keyof JobFlags)[];

/** Whether any flag sets a key of the job. */
export function hasJobFlags(flags: JobFlags): boolean {
  return JOB_FLAGS.some((name) => flags[name] !== undefined);
}

/** `base` is the text of the file that the flags override; absent when the flags are the whole job. */
export function jobFileWith(
  base: { readonly text: string; readonly file: string } | undefined,
  flags: JobFlags,
  commandLine: readonly string[] | undefined,
): JobFile {
  const file = base === undefined ? {} : mapOf(base);
  if (base === undefined && flags.gpus === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "--gpus is missing. Write how many GPUs the job takes, e.g. --gpus 1.",
    );
  const { env, label, workdir, folder, launch } = flags;
  const name =
    flags.name ?? file["name"] ?? (commandLine === undefined ? undefined : nameOf(commandLine));
  const run = {
    ...asMap(file["run"]),
    ...given({ workdir, folder, launch, command: commandLine }),
    ...(env !== undefined && {
      env: { ...asMap(asMap(file["run"])["env"]), ...Object.fromEntries(env) },
    }),
  };
  const constraints = {
    ...asMap(file["constraints"]),
    ...given({
      gpuTypes: flags.gpuType,
      memory: flags.memory,
      clusters: flags.cluster,
      jurisdictions: flags.jurisdiction,
      sameHost: flags.sameHost,
      antiAffinity: flags.antiAffinity,
    }),
  };
  const preemption = {
    ...asMap(file["preemption"]),
    ...given({ allowed: flags.preempt, shrink: flags.shrink, minRuntime: flags.minRuntime }),
  };
  const retry = { ...asMap(file["retry"]), ...given({ attempts: flags.attempts }) };
  const { tasks: _others, ...fromFile } = asMap(file["array"]);
  const array = {
    ...(flags.array === undefined ? asMap(file["array"]) : fromFile),
    ...flags.array,
    ...given({ parallel: flags.parallel }),
  };
  const { tenant, priority, timeLimit, deadline, fleets, patience, hold, modelConfig } = flags;
  const { after, onFailedDependency, modelProfile } = flags;
  const merged = {
    ...file,
    ...given({ name, class: flags.class, tenant, priority, timeLimit, deadline, hold }),
    ...given({ fleets, patience, modelConfig, modelProfile }),
    ...given({ onFailedDependency, group: flags.group }),
    ...given({ after: after?.map(parseDependency) }),
    ...given({ gang: gangWith(file["gang"], flags) }),
    ...(label !== undefined && {
      labels: { ...asMap(file["labels"]), ...Object.fromEntries(label) },
    }),
    ...(Object.keys(run).length > 0 && { run }),
    ...(Object.keys(constraints).length > 0 && { constraints }),
    ...(Object.keys(preemption).length > 0 && { preemption }),
    ...(Object.keys(retry).length > 0 && { retry }),
    ...(Object.keys(array).length > 0 && { array }),
  };
  // The job file's parser checks this value before anything is sent.
  return merged as JobFile;
}

/** Whether the program takes a script as its first word. */
export const isInterpreter = (program: string): boolean =>
  /^(python[0-9.]*|node|bash|sh|torchrun|uv|accelerate|deepspeed)$/.test(basename(program));

/** A readable name from the script or the program: `python src/train.py` → `train`. */
export function nameOf(commandLine: readonly string[]): string {
  const [program = "", first = ""] = commandLine;
  const script = isInterpreter(program) && first !== "" && !first.startsWith("-") ? first : program;
  const plain = basename(script, extname(script)).replace(/[^A-Za-z0-9._-]+/g, "-");
  const name = plain.replace(/^[^A-Za-z0-9]+/, "").slice(0, 40);
  return name === "" ? "job" : name;
}

/** `--gpus` alone changes the size and keeps the file's smaller forms, if they are still smaller. */
function gangWith(base: unknown, { gpus, min, gangTimeout, grow }: JobFlags): unknown {
  const changes = given({ gpus, min, timeout: gangTimeout, grow });
  if (Object.keys(changes).length === 0) return base;
  const former = typeof base === "number" ? { gpus: base } : asMap(base);
  return { ...former, ...changes };
}

function mapOf({
  text,
  file,
}: {
  readonly text: string;
  readonly file: string;
}): Record<string, unknown> {
  const { value, problems, isSound } = readJobText(text, file);
  if (!isSound || problems.length > 0) {
    throw new OrbweaverError("BAD_INPUT", problems.map(formatProblem).join("\n"));
  }
  if (value !== undefined && !isMap(value)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} is not a map of keys. Write a job file: name, gang, run.`,
    );
  }
  return asMap(value);
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const asMap = (value: unknown): Record<string, unknown> => (isMap(value) ? value : {});

/** Without the absent keys. */
function given(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
