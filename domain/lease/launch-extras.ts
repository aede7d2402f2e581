/**
 * @file Files and variables that a run may get before it starts: a plan of its model, a policy for its collectives, the parts of an
 * inference model, the arguments of an engine. The job's description says which it wants; a run starts without them if need be.
 */

import type { JobSpec } from "../job/job.ts";
import type { InferenceFacts } from "../model/inference-facts.ts";
import { jobModel } from "../job/job-model.ts";
import type { HostId } from "../values/ids.ts";

export const LAUNCH_EXTRAS = ["plan", "collectives", "inference", "engine"] as const;
export type LaunchExtra = (typeof LAUNCH_EXTRAS)[number];

/** The outcome of one part: made, or the reason why the run starts without it. */
export interface LaunchExtrasNote {
  readonly part: LaunchExtra;
  readonly kind: "done" | "fallback";
  /** Shown to users, one line. */
  readonly message: string;
  /** Of the part `inference`: the plan over the lease's GPUs. */
  readonly onGpus?: InferenceFacts;
  /** Of the part `plan`. */
  readonly planned?: PlannedDegrees;
}

/** How a plan splits a model, and the step that it predicts. */
export interface PlannedDegrees {
  readonly dataParallel: number;
  readonly pipelineParallel: number;
  readonly tensorParallel: number;
  /** 1 where nobody shares out experts. */
  readonly expertParallel: number;
  /** 1 where nobody shares out sequences; absent in records of before it was planned. */
  readonly contextParallel?: number;
  /** Runs of layers of each stage; absent in records of before it counted. */
  readonly virtualStages?: number;
  readonly stepMs: number;
}

/** Names the file of the parallelism plan. */
export const PLAN_VARIABLE = "ORBWEAVER_PLAN";
/** Beside it: the `PlannedStep` (step-record.ts) against which the agent reports measured steps. */
export const PLANNED_STEP_FILE = "plan-step.json";

/** A file beside the processes; a plain name without folders. */
export interface ExtraFile {
  readonly name: string;
  readonly text: string;
}

/** The extras that are sent to the hosts. In values of `env`, `{files}` stands for the folder of the files on that host. */
export interface LaunchExtras {
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly ExtraFile[];
  /** Of the part `plan`: the host of the lease on which its rank 0 lies, where that is not the first. Ranks begin there, and `MASTER_ADDR` names it. */
  readonly leadHost?: HostId;
}

/** With the lead first, the others as they are. */
export const ledBy = <Part extends { readonly host: HostId }>(
  parts: readonly Part[],
  lead: HostId | undefined,
): readonly Part[] => [
  ...parts.filter(({ host }) => host === lead),
  ...parts.filter(({ host }) => host !== lead),
];

/** What the file of that name says; undefined where there is none. */
export const extraText = (extras: LaunchExtras | undefined, name: string): string | undefined =>
  extras?.files.find((file) => file.name === name)?.text;

/** Limits on all files of a job together, for one host and over all its hosts, because each host's order carries them. */
export const MAX_EXTRAS_BYTES = 256 * 1024;
const MAX_EXTRAS_BYTES_OVER_HOSTS = 4 * 1024 * 1024;

const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Why these extras cannot be sent to this number of hosts; undefined when they can. */
export function extrasProblem({ files }: LaunchExtras, hosts: number): string | undefined {
  const misnamed = files.find(({ name }) => !FILE_NAME.test(name));
  if (misnamed !== undefined) return `${JSON.stringify(misnamed.name)} is no plain file name`;
  const bytes = files.reduce((sum, { text }) => sum + text.length, 0);
  const most = Math.min(MAX_EXTRAS_BYTES, Math.floor(MAX_EXTRAS_BYTES_OVER_HOSTS / hosts));
  return bytes <= most
    ? undefined
    : `its files have ${String(bytes)} characters; for ${String(hosts)} hosts at most ${String(most)} are carried`;
}

/** A model file that a job names lies with its processes, so only shapes and profiles that the description has are planned. */
const isPlanned = (spec: JobSpec): boolean =>
  spec.class === "training" &&
  spec.batch !== undefined &&
  (spec.modelProfile !== undefined || jobModel(spec) !== undefined);

/** The parts that a job's description asks for, one line each. */
export function extrasOf(spec: JobSpec): readonly LaunchExtra[] {
  const { array, collectives, engine, isServed } = spec;
  // Array tasks are small and many, so they get no plan.
  if (array !== undefined) return [];
  return [
    ...(isPlanned(spec) ? (["plan"] as const) : []),
    ...(collectives === undefined ? [] : (["collectives"] as const)),
    ...(isServed === true ? (["inference"] as const) : []),
    ...(engine === undefined ? [] : (["engine"] as const)),
  ];
}
