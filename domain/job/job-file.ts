/**
 * @file Parses a job file, `job.yaml` or the same as JSON, into a `JobSpec`, or returns all its problems.
 *
 * Two passes over one value: the schema checks each key, then the rules between keys (`job-rules.ts`) check the readable
 * values, so that one wrong key hides no other problem. Then defaults are filled in.
 */

import {
  formatProblem,
  refuseFile,
  type FileProblem,
  type RefusedFile,
} from "../values/file-problem.ts";
import { clusterId, jobId, parseHostId, tenantId } from "../values/ids.ts";
import type { Dependency } from "./dependency.ts";
import type { Variable } from "./job-env.ts";
import { labelsWithGroup } from "./job-labels.ts";
import { noticesOf, type JobNotice } from "./job-notice.ts";
import { jobRuleProblems } from "./job-rules.ts";
import { engineRule } from "./job-engine.ts";
import { isServedFile, SERVE_COMMAND, servingVariables } from "./job-serving.ts";
import { USUAL_MESSAGES } from "../bandwidth/message-profile.ts";
import { JOB_JSON_SCHEMA, jobSchema, type JobFile, type ReadJobFile } from "./job-schema.ts";
import { imageRule } from "./image-schema.ts";
import { resourceNeed } from "./resources-schema.ts";
import { formatTaskRanges, selectedTasks } from "./task-ranges.ts";
import { DEFAULT_PREEMPTION } from "./job.ts";
import type { CheckpointRule, Constraints, Gang, JobClass, JobSpec } from "./job.ts";
import { readLocatedYaml, type LocatedYaml, type TextLimit } from "../file/located-yaml.ts";
import { asFileProblem, schemaProblems, type SchemaProblem } from "../file/schema-problems.ts";
import { ms } from "../values/units.ts";

export { formatProblem, type FileProblem, type JobFile, type RefusedFile };

export interface ParsedJob {
  readonly kind: "parsed";
  readonly spec: JobSpec;
  /** The job id that the author chose. */
  readonly idempotencyKey?: string;
  /** Who is told of the job. No part of the spec, which hosts get: an address may be a secret. */
  readonly notices: readonly JobNotice[];
}

/** The defaults of absent keys. */
const DEFAULTS = Object.freeze({
  tenant: "default",
  class: "training" as const,
  priority: 0,
  /** Training waits long for its full size; interactive and inference jobs do not. */
  gangTimeoutMs: Object.freeze({
    training: ms(30_000),
    inference: ms(5_000),
    interactive: ms(5_000),
  }),
  launch: "per-gpu" as const,
  graceMs: ms(30_000),
  checkpointGraceMs: ms(60_000),
  attempts: 1,
  backoffMs: ms(10_000),
  patienceMs: ms(120_000),
});

/** Parses a decoded value, which any Temporal client may send to the job workflow. */
export function parseJobFile(value: unknown): ParsedJob | RefusedFile {
  const judged = judge(value);
  if (judged.kind === "read") return parsed(judged.file);
  return refuseFile(judged.problems.map((problem) => asFileProblem(problem)));
}

/** With its comments and aliases; as JSON a job file has at most 64 KiB (`domain/lease/job-size.ts`). */
const TEXT_LIMIT: TextLimit = {
  maxChars: 256 * 1024,
  remedy: "put large values into a file that the hosts see, and its path into the job",
};

/** Reads the text of a job file without judging it. */
export const readJobText = (text: string, file: string): LocatedYaml =>
  readLocatedYaml(text, file, TEXT_LIMIT);

/** Parses the text of a file, and locates each problem by line and column. */
export const parseJobYaml = (
  text: string,
  { file }: { readonly file: string },
): ParsedJob | RefusedFile => parseLocatedJob(readJobText(text, file), file);

/** The same for a text that has been read. */
export function parseLocatedJob(yaml: LocatedYaml, file: string): ParsedJob | RefusedFile {
  if (!yaml.isSound) return refuseFile(yaml.problems);
  const judged = judge(yaml.value);
  if (judged.kind === "read" && yaml.problems.length === 0) return parsed(judged.file);
  const problems = judged.kind === "read" ? [] : judged.problems;
  const located = problems.map((problem) => asFileProblem(problem, { file, yaml }));
  return refuseFile([...yaml.problems, ...located]);
}

type Judgement =
  | { readonly kind: "read"; readonly file: ReadJobFile }
  | { readonly kind: "refused"; readonly problems: readonly SchemaProblem[] };

function judge(value: unknown): Judgement {
  const result = jobSchema.safeParse(value);
  const ruleProblems = jobRuleProblems(value);
  if (result.success && ruleProblems.length === 0) return { kind: "read", file: result.data };
  const issues = result.success ? [] : result.error.issues;
  const problems = schemaProblems(issues, { value, schema: JOB_JSON_SCHEMA });
  return { kind: "refused", problems: [...problems, ...ruleProblems] };
}

function parsed(file: ReadJobFile): ParsedJob {
  const { idempotencyKey } = file;
  return {
    kind: "parsed",
    spec: specOf(file),
    notices: noticesOf(file.notify),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  };
}

function specOf(file: ReadJobFile): JobSpec {
  const {
    name,
    labels: named,
    group,
    model,
    modelConfig,
    modelProfile,
    profiledOn,
    batch,
    sequence,
    steps,
    framework,
    run = {},
    retry,
    deadline,
    timeLimit,
  } = file;
  const labels = labelsWithGroup(named, group);
  const engine = engineRule(file.serve);
  const isServed = engine === undefined && isServedFile(file);
  const isOneProcess = isServed || engine !== undefined;
  const jobClass = file.class ?? DEFAULTS.class;
  return {
    name,
    ...(Object.keys(labels).length > 0 && { labels }),
    tenant: tenantId(file.tenant ?? DEFAULTS.tenant),
    class: jobClass,
    priority: file.priority ?? DEFAULTS.priority,
    gang: gangOf(file.gang, jobClass),
    constraints: {
      ...constraintsOf({ ...file.constraints, ...(isOneProcess && { sameHost: true }) }),
      ...messagesOf(file.communication),
    },
    ...(model !== undefined && { model }),
    ...(modelConfig !== undefined && { modelConfig }),
    ...(modelProfile !== undefined && { modelProfile }),
    ...(profiledOn !== undefined && { profiledOn }),
    ...(batch !== undefined && { batch }),
    ...(sequence !== undefined && { sequence }),
    ...(steps !== undefined && { steps }),
    ...(framework !== undefined && { framework }),
    ...(isServed && { isServed }),
    ...(engine !== undefined && { engine }),
    run: {
      // `job-rules.ts` has checked that a job without a served model has a command.
      command: isServed ? SERVE_COMMAND : (run.command ?? []),
      ...variablesOf({ ...run.env, ...(isServed && servingVariables(file.serve ?? {})) }),
      ...(run.workdir !== undefined && { workdir: run.workdir }),
      ...(run.folder !== undefined && { folder: run.folder }),
      launch: isOneProcess ? "per-host" : (run.launch ?? DEFAULTS.launch),
      ...checkpointOf(run.checkpoint),
      graceMs: run.grace ?? DEFAULTS.graceMs,
      ...resourceNeed(file.resources),
      ...imageRule(run.container),
    },
    retry: {
      attempts: retry?.attempts ?? DEFAULTS.attempts,
      backoffMs: retry?.backoff ?? DEFAULTS.backoffMs,
    },
    ...(deadline !== undefined && { deadlineMs: deadline }),
    ...(timeLimit !== undefined && { timeLimitMs: timeLimit }),
    ...preemptionOf(file.preemption, jobClass),
    ...dependenciesOf(file),
    ...(typeof file.gang !== "number" &&
      file.gang.replace !== undefined && { replaceMs: file.gang.replace }),
    isHeld: file.hold ?? false,
    ...arrayOf(file.array),
    ...collectivesOf(file.collectives),
    ...cellsOf(file),
  };
}

function variablesOf(
  variables: Readonly<Record<string, Variable>>,
): Pick<JobSpec["run"], "env" | "secrets"> {
  const texts = new Map<string, string>();
  const secrets = new Map<string, string>();
  for (const [name, value] of Object.entries(variables)) {
    if (typeof value === "string") texts.set(name, value);
    else secrets.set(name, value.secret);
  }
  return {
    env: Object.fromEntries(texts),
    ...(secrets.size > 0 && { secrets: Object.fromEntries(secrets) }),
  };
}

/** `min` becomes the smallest size that is really acceptable, so that later code need not read `shapes` for it. */
function gangOf(gang: ReadJobFile["gang"], jobClass: JobClass): Gang {
  const { gpus, min, timeout, shapes, grow } = typeof gang === "number" ? { gpus: gang } : gang;
  const timeoutMs = timeout ?? DEFAULTS.gangTimeoutMs[jobClass];
  const growth = grow === true ? ({ mayGrow: true } as const) : {};
  if (shapes === undefined) return { gpus, min: min ?? gpus, timeoutMs, ...growth };
  const smaller = shapes.filter((shape) => shape < gpus).sort((a, b) => b - a);
  return { gpus, min: smaller.at(-1) ?? gpus, timeoutMs, shapes: smaller, ...growth };
}

/** Absent where the file has none; then the class decides, also for jobs of former versions. */
function preemptionOf(
  file: ReadJobFile["preemption"],
  jobClass: JobClass,
): Pick<JobSpec, "preemption"> {
  if (file === undefined) return {};
  const usual = DEFAULT_PREEMPTION[jobClass];
  return {
    preemption: {
      isPreemptible: file.allowed ?? usual.isPreemptible,
      mayShrink: file.shrink ?? usual.mayShrink,
      minRuntimeMs: file.minRuntime ?? usual.minRuntimeMs,
    },
  };
}

function constraintsOf(file: NonNullable<ReadJobFile["constraints"]>): Constraints {
  const { jurisdictions, clusters, hosts, gpuTypes, memory, maxClusters } = file;
  return {
    ...(jurisdictions !== undefined && { jurisdictions: distinct(jurisdictions) }),
    ...(clusters !== undefined && { clusters: distinct(clusters).map(clusterId) }),
    ...(hosts !== undefined && { hosts: distinct(hosts).map(parseHostId) }),
    ...(gpuTypes !== undefined && { gpuTypes: distinct(gpuTypes) }),
    ...(memory !== undefined && { gpuMemoryGiB: memory }),
    ...(maxClusters !== undefined && { maxClusters }),
    isSameHost: file.sameHost ?? false,
    isSameFabric: file.sameFabric ?? false,
    ...(file.antiAffinity !== undefined && { antiAffinity: file.antiAffinity }),
    ...(file.prefer !== undefined && { prefer: file.prefer }),
  };
}

function messagesOf(file: ReadJobFile["communication"]): Pick<Constraints, "messages"> {
  if (file === undefined) return {};
  const { size, collective = USUAL_MESSAGES.collective } = file;
  return { messages: { collective, bytes: size ?? USUAL_MESSAGES.bytes } };
}

/** `job-rules.ts` has checked that exactly one of signal and command is given. */
function checkpointOf(file: NonNullable<ReadJobFile["run"]>["checkpoint"]): {
  readonly checkpoint?: CheckpointRule;
} {
  if (file === undefined) return {};
  const { signal, command = [], dir, from, grace, interval } = file;
  return {
    checkpoint: {
      order: signal === undefined ? { kind: "command", command } : { kind: "signal", signal },
      ...(dir !== undefined && { dir }),
      ...(from !== undefined && { from: jobId(from) }),
      graceMs: grace ?? DEFAULTS.checkpointGraceMs,
      ...(interval !== undefined && { intervalMs: interval }),
    },
  };
}

function arrayOf(array: ReadJobFile["array"]): Pick<JobSpec, "array"> {
  if (array === undefined) return {};
  const { count, parallel = count, tasks } = array;
  if (tasks === undefined) return { array: { count, parallel: Math.min(parallel, count) } };
  const named = selectedTasks({ count, tasks });
  // Written in one way, so that the same tasks are the same job.
  return {
    array: {
      count,
      parallel: Math.min(parallel, named.length),
      tasks: formatTaskRanges(named),
    },
  };
}

/** Each once. */
function dependenciesOf({
  after = [],
  onFailedDependency,
}: ReadJobFile): Pick<JobSpec, "after" | "mayFollowFailure"> {
  if (after.length === 0) return {};
  const named = after.map(({ job, on = "success" }) => ({ job: jobId(job), on }));
  const isFirst = ({ job, on }: Dependency, at: number): boolean =>
    at === named.findIndex((each) => each.job === job && each.on === on);
  return {
    after: named.filter(isFirst),
    ...(onFailedDependency === "release" && { mayFollowFailure: true }),
  };
}

function collectivesOf(file: ReadJobFile["collectives"]): Pick<JobSpec, "collectives"> {
  if (file === undefined || file.tune === false) return {};
  return { collectives: { hasOverlap: file.overlap ?? true } };
}

function cellsOf({ fleets, patience }: ReadJobFile): Pick<JobSpec, "cells"> {
  if (fleets === undefined) return {};
  return { cells: { fleets: distinct(fleets), patienceMs: patience ?? DEFAULTS.patienceMs } };
}

const distinct = (words: readonly string[]): readonly string[] => [...new Set(words)];
