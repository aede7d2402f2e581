/**
 * @file Reads the file of a service: the job file of one replica, and the rule for how many of them there are (`service-rule.ts`).
 *
 * All problems of both are told at once, each with its place in the text.
 */

import { z } from "zod";
import { refuseFile, type RefusedFile } from "../values/file-problem.ts";
import { asFileProblem, schemaProblems, valueAt } from "../file/schema-problems.ts";
import { parseLocatedJob, readJobText, type JobFile } from "./job-file.ts";
import { JOB_JSON_SCHEMA } from "./job-schema.ts";
import type { JobSpec } from "./job.ts";
import { REPLICA_KEYS } from "./serve-schema.ts";
import { replicaRule, withoutReplicaKeys, type ReplicaRule } from "./service-rule.ts";

export interface ServiceFile {
  readonly kind: "parsed";
  /** Of one replica, as it is submitted. */
  readonly job: JobFile;
  readonly spec: JobSpec;
  readonly rule: ReplicaRule;
}

const replicaKeys = z.looseObject({ serve: z.looseObject(REPLICA_KEYS).optional() });

export interface ServiceText {
  /** For problems. */
  readonly file: string;
  /** The folder of a model that is named without one. */
  readonly workdir?: string;
  /** Keys that the submitting machine fills in, such as `modelConfig`. */
  readonly added?: Readonly<Record<string, unknown>>;
}

export function parseServiceYaml(
  text: string,
  { file, workdir, added = {} }: ServiceText,
): ServiceFile | RefusedFile {
  const yaml = readJobText(text, file);
  if (!yaml.isSound) return refuseFile(yaml.problems);
  const replica = filledIn(withoutReplicaKeys(yaml.value), added, workdir);
  const job = parseLocatedJob({ ...yaml, value: replica }, file);
  const jobProblems = job.kind === "refused" ? job.problems : [];
  const keys = replicaKeys.safeParse(yaml.value);
  // Where the file is no map at all, the job's problems say so.
  const isMap = typeof valueAt(yaml.value, ["serve"]) === "object";
  const issues = keys.success || !isMap ? [] : keys.error.issues;
  const said = keys.success ? (keys.data.serve ?? {}) : undefined;
  const judged = said === undefined ? undefined : replicaRule(yaml.value, said);
  const own = [
    ...schemaProblems(issues, { value: yaml.value, schema: JOB_JSON_SCHEMA }),
    ...(judged !== undefined && "problem" in judged ? [judged.problem] : []),
    ...notServed(job),
  ].map((problem) => asFileProblem(problem, { file, yaml }));
  const problems = [...jobProblems, ...own];
  if (problems.length > 0 || job.kind === "refused" || judged === undefined || "problem" in judged)
    return refuseFile(problems);
  // The parser has just accepted this value as a job file.
  return { kind: "parsed", job: replica as JobFile, spec: job.spec, rule: judged.rule };
}

function filledIn(
  file: unknown,
  added: Readonly<Record<string, unknown>>,
  workdir: string | undefined,
): unknown {
  if (typeof file !== "object" || file === null || Array.isArray(file)) return file;
  const run = valueAt(file, ["run"]);
  const isMap = run === undefined || (typeof run === "object" && run !== null);
  if (workdir === undefined || !isMap) return { ...file, ...added };
  return { ...file, ...added, run: { workdir, ...run } };
}

function notServed(job: ReturnType<typeof parseLocatedJob>) {
  if (job.kind === "refused" || job.spec.isServed === true || job.spec.engine !== undefined)
    return [];
  return [
    {
      path: ["serve"],
      part: "key" as const,
      value: undefined,
      message: "the job serves nothing",
      remedy: "name an .onnx model without a command, or serve.engine, and write class: inference",
    },
  ];
}
