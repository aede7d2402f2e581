/**
 * @file The contents of a trace file: jobs on one clock, and an account of every row that is no job.
 *
 * Every data row of a file is in exactly one of three places: a job, a row that cannot be read (`badRows`, each with its line,
 * value and remedy), or a good row that asks for no GPU (`leftOut`, counted by reason). Notes count
 * the jobs of which something had to be filled in or changed. Jobs are sorted by arrival, ties by line; the first arrives at 0.
 */

import { MAX_PROBLEMS, type Problem, type Refused } from "../../domain/values/problem.ts";
import type { WorkloadJob } from "../workload.ts";

export interface TraceAccount {
  /** Data rows of the file: `jobs + badRows + leftOut`. */
  readonly rows: number;
  readonly badRows: readonly Problem[];
  readonly leftOut: readonly Counted[];
  readonly notes: readonly Counted[];
}

export interface Counted {
  readonly what: string;
  readonly count: number;
}

export interface TraceJobs {
  readonly kind: "jobs";
  readonly jobs: readonly WorkloadJob[];
  readonly account: TraceAccount;
  /** Wall time of the first arrival as if it were UTC, where the trace has one. */
  readonly originMs?: number;
}

/** Samples of how busy a cluster was; without jobs, so a simulation cannot use it. */
export interface TraceLoad {
  readonly kind: "load";
  readonly samples: readonly LoadSample[];
  readonly account: TraceAccount;
}

export interface LoadSample {
  /** Wall time as if it were UTC. */
  readonly atMs: number;
  readonly runningGpus: number;
  readonly pendingGpus: number;
  readonly idleGpus: number;
  readonly runningJobs: number;
  readonly pendingJobs: number;
}

export interface TraceName {
  /** What the text is called in messages. */
  readonly source: string;
}

export type JobsReader = (text: string, name: TraceName) => TraceJobs | Refused;

/** A job before the trace's first arrival is known. */
interface RawJob extends Omit<WorkloadJob, "submittedAtMs"> {
  readonly line: number;
  /** On the trace's own clock. */
  readonly submittedMs: number;
}

/** What one row is: a job, a problem, or the reason for leaving it out. */
export type RowReading = RawJob | Problem | { readonly leftOut: string };

/** Runs shorter than one tick of the simulator's clock last one tick. */
const LEAST_DURATION_MS = 1;

/** 300 years: beyond it sums of times are no longer exact, and no trace is so long. */
const MOST_MS = 300 * 365 * 86_400_000;

/** Collects rows as they are read. */
interface TraceDraft {
  readonly add: (reading: RowReading) => void;
  readonly note: (what: string) => void;
  readonly done: (options?: DoneOptions) => TraceJobs | Refused;
}

interface DoneOptions {
  /** The trace's clock is wall time. */
  readonly isWallTime?: boolean;
}

const SHORT_NOTE = "jobs of less than 1 ms, taken as 1 ms";
const TWICE_NOTE = "jobs whose name was taken already, given a number behind it";

export function traceDraft(source: string, unreadable: readonly Problem[] = []): TraceDraft {
  const badRows: Problem[] = [...unreadable];
  const raw: RawJob[] = [];
  const leftOut = new Map<string, number>();
  const notes = new Map<string, number>();
  const count = (counts: Map<string, number>, what: string): void => {
    counts.set(what, (counts.get(what) ?? 0) + 1);
  };
  const note = (what: string): void => {
    count(notes, what);
  };
  return {
    note,
    add: (reading) => {
      if ("message" in reading) badRows.push(reading);
      else if ("leftOut" in reading) count(leftOut, reading.leftOut);
      else if (reading.durationMs > MOST_MS || Math.abs(reading.submittedMs) > MOST_MS) {
        const message = "it was submitted or lasts more than 300 years away";
        badRows.push({ line: reading.line, message, remedy: "check the unit of its times" });
      } else raw.push(reading);
    },
    done: ({ isWallTime = false } = {}) => {
      badRows.sort((a, b) => a.line - b.line || (a.column ?? 0) - (b.column ?? 0));
      const rows = raw.length + badRows.length + sumOf(leftOut);
      if (raw.length === 0) return noJobs(source, badRows, leftOut);
      raw.sort((a, b) => a.submittedMs - b.submittedMs || a.line - b.line);
      const originMs = raw[0]?.submittedMs ?? 0;
      const seen = new Map<string, number>();
      const jobs = raw.map(({ line: _, submittedMs, ...job }): WorkloadJob => {
        const durationMs = Math.max(LEAST_DURATION_MS, Math.round(job.durationMs));
        if (Math.round(job.durationMs) < LEAST_DURATION_MS) note(SHORT_NOTE);
        const times = seen.get(job.id) ?? 0;
        seen.set(job.id, times + 1);
        if (times > 0) note(TWICE_NOTE);
        return {
          ...job,
          id: times === 0 ? job.id : `${job.id}~${String(times + 1)}`,
          submittedAtMs: Math.round(submittedMs - originMs),
          durationMs,
        };
      });
      const account = { rows, badRows, leftOut: listed(leftOut), notes: listed(notes) };
      return { kind: "jobs", jobs, account, ...(isWallTime && { originMs }) };
    },
  };
}

function noJobs(
  source: string,
  badRows: readonly Problem[],
  leftOut: ReadonlyMap<string, number>,
): Refused {
  const [first] = badRows;
  if (first !== undefined) return { kind: "refused", source, problems: cut(badRows) };
  const reasons = listed(leftOut).map(({ what, count }) => `${String(count)} ${what}`);
  const message =
    reasons.length === 0 ? "there is no row" : `no row is a GPU job: ${reasons.join(", ")}`;
  return {
    kind: "refused",
    source,
    problems: [{ line: 1, message, remedy: "give a trace with at least one job" }],
  };
}

/** The first problems; the last one says how many rows there are in all. */
function cut(problems: readonly Problem[]): readonly Problem[] {
  const next = problems[MAX_PROBLEMS];
  if (next === undefined) return problems;
  const message = `and ${String(problems.length - MAX_PROBLEMS)} more rows; no row can be read`;
  const remedy = "check that the file has the format that it is read as";
  return [...problems.slice(0, MAX_PROBLEMS), { line: next.line, message, remedy }];
}

const listed = (counts: ReadonlyMap<string, number>): readonly Counted[] =>
  [...counts].map(([what, count]) => ({ what, count }));

const sumOf = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);
