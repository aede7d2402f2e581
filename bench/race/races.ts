/**
 * @file What is raced, and what a contestant must be able to do.
 *
 * All lengths of time are in milliseconds from the moment before the submission. Each method has checked its answer before it returns: all
 * tasks completed with status 0 and have an output file, or it throws.
 */

import { atLeast, atMost, REPORTED, type Target } from "../bar.ts";

export interface Contestant {
  readonly name: string;
  /** One array of so many tasks of one GPU that end at once. Until the last has ended. */
  array(tasks: number): Promise<number>;
  /** One array of so many gangs, each of all GPUs with one process on each of the 4 hosts. Until the last has ended. */
  gangs(count: number): Promise<number>;
  /** So many jobs of one GPU, submitted one by one. Until the last has ended. */
  jobs(count: number): Promise<number>;
  /** One job of one GPU on idle hosts, by the command line. Until its process runs. */
  start(): Promise<number>;
  /** A job of all GPUs where a job of a lower rank, grace 0, holds them. Until its process runs. */
  preempt(): Promise<number>;
  /** Fills a queue behind a job of all GPUs, then lists it whole so many times. Last of all races: nothing ends the jobs. */
  queue(jobs: number, lists: number): Promise<{ readonly fillMs: number; readonly listMs: number }>;
}

export type RaceName = "array" | "gangs" | "jobs" | "start" | "preempt";
export const RACES: readonly RaceName[] = ["array", "gangs", "jobs", "start", "preempt"];

interface Wants {
  readonly defaults: Target;
  readonly best: Target;
  /** `speed` is the rival's time over ours; `time` is ours over the rival's. */
  readonly as: "speed" | "time";
}

/** As the race was asked for, by speed or by time. */
export const WANTS: Readonly<Record<RaceName | "queue", Wants>> = {
  array: { defaults: atLeast(3), best: atLeast(2), as: "speed" },
  gangs: { defaults: REPORTED, best: atLeast(1.5), as: "speed" },
  jobs: { defaults: atLeast(0.5), best: REPORTED, as: "speed" },
  start: { defaults: atMost(2), best: atMost(2), as: "time" },
  preempt: { defaults: atMost(1), best: atMost(1), as: "time" },
  queue: { defaults: atMost(1), best: atMost(1), as: "time" },
};
