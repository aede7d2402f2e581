/**
 * @file The dependencies of a job: other jobs that it waits for before it asks its fleet for anything, and what of them it waits for.
 *
 * The words are those of Slurm's `--dependency`: success is afterok, failure afternotok, end afterany, start after.
 */

import { z } from "zod";
import { choice, word, type WordRule } from "../file/schema-leaf.ts";
import type { JobId } from "../values/ids.ts";

export const DEPENDENCY_EVENTS = ["success", "end", "failure", "start"] as const;

/**
 * `success`: it completed, of an array all its tasks. `failure`: any other end, a cancellation included. `end`: either. `start`: it got its
 * first GPUs, or ended without.
 */
export type DependencyEvent = (typeof DEPENDENCY_EVENTS)[number];

export interface Dependency {
  readonly job: JobId;
  readonly on: DependencyEvent;
}

/** Once a dependency can never be met, the job ends, or waits for the other ones alone and then runs all the same. */
export const FAILED_DEPENDENCY_RULES = ["end", "release"] as const;
export type FailedDependencyRule = (typeof FAILED_DEPENDENCY_RULES)[number];

/** Each is a part of what hosts are told of a job, so that its signature covers it. */
export const MAX_DEPENDENCIES = 32;

const MAX_ID_CHARS = 200;
const ID_PATTERN = "[^\\s\"'\\\\]+";

const ID: WordRule = {
  what: "a job's id",
  pattern: ID_PATTERN,
  characters: "characters without spaces and quotes",
  maxLength: MAX_ID_CHARS,
};

const dependency = z
  .strictObject({
    job: word(ID, {
      description: "The job's id; in a file of several jobs, also the name of an earlier one.",
      examples: ["train-7k2m1x"],
    }),
    on: choice(DEPENDENCY_EVENTS, {
      description:
        "What of it is waited for: that it completes (success), fails or is cancelled (failure), ends in any way (end), or starts (start). Default: success.",
    }).optional(),
  })
  .meta({ description: "A job, and what of it is waited for." });

export const DEPENDENCY_KEYS = {
  after: z
    .array(dependency)
    .min(1)
    .max(MAX_DEPENDENCIES)
    .meta({
      description:
        "Jobs that this one waits for, all of them, before it asks for GPUs. They must have been submitted.",
      examples: [[{ job: "prepare-1", on: "success" }]],
    })
    .optional(),
  onFailedDependency: choice(FAILED_DEPENDENCY_RULES, {
    description:
      "Once one of `after` can never come true: end the job with DEPENDENCY_FAILED, or release it, as if that one had been met. Default: end.",
  }).optional(),
};

const WHOLE_ID = new RegExp(`^${ID_PATTERN}$`);

/** Whether it may stand in `after`, so that other jobs can wait for it and hear of it. */
export const isJobReference = (id: unknown): id is JobId =>
  typeof id === "string" && id.length <= MAX_ID_CHARS && WHOLE_ID.test(id);

const EVENTS: readonly string[] = DEPENDENCY_EVENTS;

/** `train-7`, or `train-7:end`; an id may have colons of its own. */
export function parseDependency(text: string): { readonly job: string; readonly on?: string } {
  const at = text.lastIndexOf(":");
  const on = text.slice(at + 1);
  return at > 0 && EVENTS.includes(on) ? { job: text.slice(0, at), on } : { job: text };
}

/** `prepare-1 succeeds`, for a sentence. */
export const dependencyText = ({ job, on }: Dependency): string => `${job} ${VERBS[on]}`;

const VERBS: Readonly<Record<DependencyEvent, string>> = {
  success: "completes",
  end: "ends",
  failure: "fails",
  start: "starts",
};
