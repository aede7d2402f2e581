/**
 * @file Reads a job as people write it, `job.yaml` or the same as JSON, into a `JobSpec`, or says all that is wrong with it.
 *
 * Two looks at one value: the schema judges each key for itself, then the rules between keys (`job-rules.ts`) judge what of
 * them can be read, so that one wrong key hides no other problem. Then defaults are filled in.
 */

import { formatProblem, refuseFile, type FileProblem, type RefusedFile } from "./file-problem.ts";
import { clusterId, parseHostId, tenantId } from "./ids.ts";
import { jobRuleProblems } from "./job-rules.ts";
import { isServedFile, SERVE_COMMAND, servingVariables } from "./job-serving.ts";
import { JOB_JSON_SCHEMA, jobSchema, type JobFile, type ReadJobFile } from "./job-schema.ts";
import { DEFAULT_PREEMPTION } from "./job.ts";
import type { CheckpointRule, Constraints, Gang, JobClass, JobSpec } from "./job.ts";
import { readLocatedYaml } from "./located-yaml.ts";
import { asFileProblem, schemaProblems, type SchemaProblem } from "./schema-problems.ts";
import { ms } from "./units.ts";

export { formatProblem, type FileProblem, type JobFile, type RefusedFile };

export interface ParsedJob {
  readonly kind: "parsed";
  readonly spec: JobSpec;
  /** What the author wants to be the job's id. */
  readonly idempotencyKey?: string;
}

/** What a job file need not say. */
const DEFAULTS = Object.freeze({
  tenant: "default",
  class: "training" as const,
  priority: 0,
  /** Training waits for its full size; whoever waits at a screen or behind a request does not wait long. */
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

/** Reads a value that was decoded already: what any Temporal client may hand to the job workflow. */
export function parseJobFile(value: unknown): ParsedJob | RefusedFile {
  const judged = judge(value);
  if (judged.kind === "read") return parsed(judged.file);
  return refuseFile(judged.problems.map((problem) => asFileProblem(problem)));
}

/** Reads the text of a file, and locates each problem in it by line and column. */
export function parseJobYaml(
  text: string,
  { file }: { readonly file: string },
): ParsedJob | RefusedFile {
  const yaml = readLocatedYaml(text, file);
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
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  };
}

function specOf(file: ReadJobFile): JobSpec {
  const { name, model, batch, run = {}, retry, deadline, timeLimit } = file;
  const isServed = isServedFile(file);
  const jobClass = file.class ?? DEFAULTS.class;
  return {
    name,
    tenant: tenantId(file.tenant ?? DEFAULTS.tenant),
    class: jobClass,
    priority: file.priority ?? DEFAULTS.priority,
    gang: gangOf(file.gang, jobClass),
    constraints: constraintsOf({
      ...file.constraints,
      ...(isServed && { sameHost: true }),
    }),
    ...(model !== undefined && { model }),
    ...(batch !== undefined && { batch }),
    ...(isServed && { isServed }),
    run: {
      // `job-rules.ts` has seen to it that a job which is not served has a command.
      command: isServed ? SERVE_COMMAND : (run.command ?? []),
      env: { ...run.env, ...(isServed && servingVariables(file.serve ?? {})) },
      ...(run.workdir !== undefined && { workdir: run.workdir }),
      launch: isServed ? "per-host" : (run.launch ?? DEFAULTS.launch),
      ...checkpointOf(run.checkpoint),
      graceMs: run.grace ?? DEFAULTS.graceMs,
    },
    retry: {
      attempts: retry?.attempts ?? DEFAULTS.attempts,
      backoffMs: retry?.backoff ?? DEFAULTS.backoffMs,
    },
    ...(deadline !== undefined && { deadlineMs: deadline }),
    ...(timeLimit !== undefined && { timeLimitMs: timeLimit }),
    ...preemptionOf(file.preemption, jobClass),
    isHeld: file.hold ?? false,
    ...arrayOf(file.array),
    ...collectivesOf(file.collectives),
    ...cellsOf(file),
  };
}

/** `min` becomes the smallest size that is really acceptable, so that nobody need look at `shapes` to know it. */
function gangOf(gang: ReadJobFile["gang"], jobClass: JobClass): Gang {
  const { gpus, min, timeout, shapes, grow } = typeof gang === "number" ? { gpus: gang } : gang;
  const timeoutMs = timeout ?? DEFAULTS.gangTimeoutMs[jobClass];
  const growth = grow === true ? ({ mayGrow: true } as const) : {};
  if (shapes === undefined) return { gpus, min: min ?? gpus, timeoutMs, ...growth };
  const smaller = shapes.filter((shape) => shape < gpus).sort((a, b) => b - a);
  return { gpus, min: smaller.at(-1) ?? gpus, timeoutMs, shapes: smaller, ...growth };
}

/** Absent where the file says nothing: then the class decides, also for jobs that were described before there was a choice. */
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

/** `job-rules.ts` has seen to it that there is exactly one of signal and command. */
function checkpointOf(file: NonNullable<ReadJobFile["run"]>["checkpoint"]): {
  readonly checkpoint?: CheckpointRule;
} {
  if (file === undefined) return {};
  const { signal, command = [], dir, grace, interval } = file;
  return {
    checkpoint: {
      order: signal === undefined ? { kind: "command", command } : { kind: "signal", signal },
      ...(dir !== undefined && { dir }),
      graceMs: grace ?? DEFAULTS.checkpointGraceMs,
      ...(interval !== undefined && { intervalMs: interval }),
    },
  };
}

function arrayOf(array: ReadJobFile["array"]): Pick<JobSpec, "array"> {
  if (array === undefined) return {};
  const { count, parallel = count } = array;
  return { array: { count, parallel: Math.min(parallel, count) } };
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
