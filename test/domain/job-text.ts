/** @file A whole job file and its problems in short form, for the tests of job files. */

import { formatProblem, parseJobFile, parseJobYaml } from "../../domain/job/job-file.ts";
import type { JobSpec } from "../../domain/job/job.ts";

/** Every key of a job file, each with a value that is right. */
export const FULL_JOB = {
  name: "resnet50",
  tenant: "research",
  class: "training",
  priority: 5,
  idempotencyKey: "resnet50-seed7",
  gang: { gpus: 8, min: 8, timeout: "1m", shapes: [8] },
  constraints: {
    jurisdictions: ["EU"],
    clusters: ["eu-1", "eu-2"],
    hosts: ["eu-1/h100-1", "eu-2/h100-1"],
    gpuTypes: ["h100", "MI300X"],
    memory: "80 GiB",
    maxClusters: 1,
    sameHost: true,
    sameFabric: false,
    antiAffinity: "trainer",
    prefer: "latency",
  },
  communication: { size: "256 MiB", collective: "all_gather" },
  model: "gpt2-large",
  batch: 512,
  run: {
    command: ["python", "train.py", ""],
    env: { EPOCHS: "10" },
    workdir: "/home/me",
    launch: "per-host",
    checkpoint: { signal: "USR1", dir: "/shared/ckpt", grace: "2m", interval: "10m" },
    grace: "20s",
  },
  retry: { attempts: 3, backoff: "5s" },
  deadline: "2h",
  timeLimit: "1h",
  preemption: { allowed: true, shrink: false, minRuntime: "10m" },
  after: [{ job: "prepare-1", on: "end" }],
  onFailedDependency: "release",
  hold: true,
  array: { count: 1000, parallel: 50 },
};

export const SMALL_JOB = { name: "small", gang: 1, run: { command: ["true"] } };

export function specOf(file: unknown): JobSpec {
  const parsed = parseJobFile(file);
  if (parsed.kind === "refused") throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.spec;
}

/** `path: message; remedy` of each problem; empty when the file is right. */
export function problemsOf(file: unknown): string[] {
  const parsed = parseJobFile(file);
  return parsed.kind === "refused" ? parsed.problems.map(formatProblem) : [];
}

export function yamlProblems(text: string): string[] {
  const parsed = parseJobYaml(text, { file: "job.yaml" });
  return parsed.kind === "refused" ? parsed.problems.map(formatProblem) : [];
}
