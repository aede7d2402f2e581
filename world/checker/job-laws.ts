/** @file What the end of a job must answer to, and what a job that follows others must wait for: the truth about its processes decides. */

import type { JobSpec } from "../../domain/job/job.ts";
import { selectedTasks } from "../../domain/job/task-ranges.ts";
import type { HostId, JobId, LeaseId } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { DrawnJob } from "../settings.ts";

/** Of one launch on all of its hosts. */
export interface Book {
  readonly leaseId: LeaseId;
  /** Parts by their fate. */
  readonly started: Set<HostId>;
  readonly completed: Set<HostId>;
  /** By themselves. */
  readonly failed: Set<HostId>;
  readonly hosts: readonly HostId[];
}

/** Of one task of an array. */
export interface TaskBook {
  /** By host and launch. */
  readonly launches: Set<string>;
  completed: number;
  failed: number;
  /** The highest token by the time when its cancellation was acknowledged; infinite where it may run. */
  cancelledAt: number;
  /** Orders to run it again. */
  retries: number;
}

export const openBook = ({ leaseId, gang }: RunOrder): Book => ({
  leaseId,
  started: new Set(),
  completed: new Set(),
  failed: new Set(),
  hosts: gang.map(({ host }) => host),
});

/** A new one for a task of which nothing is known. */
export function taskBookOf(
  tasks: Map<JobId, Map<number, TaskBook>>,
  job: JobId,
  task: number,
): TaskBook {
  const known = tasks.get(job) ?? new Map<number, TaskBook>();
  tasks.set(job, known);
  const fresh = { launches: new Set<string>(), completed: 0, failed: 0, cancelledAt: Infinity };
  const book: TaskBook = known.get(task) ?? { ...fresh, retries: 0 };
  known.set(task, book);
  return book;
}

export interface EndFacts {
  readonly runs: readonly Book[];
  readonly leases: number;
  readonly tasks: ReadonlyMap<number, TaskBook>;
  readonly orders: ReadonlySet<string>;
  readonly decided: Decided;
}

/** How jobs have ended; one that is ended from outside while its followers are told has ended in two ways. */
type Decided = ReadonlyMap<string, ReadonlySet<string>>;

/** Runs that a job may lose to hosts before it gives up. */
const MOST_LOST = 10;

export function endProblem(
  { spec }: DrawnJob,
  how: string,
  { runs, leases, tasks, orders, decided }: EndFacts,
): string | undefined {
  switch (how) {
    case "completed":
      return spec.array === undefined ? gangProblem(runs) : arrayProblem(spec.array, tasks);
    case "cancelled":
      return orders.has("cancel") ? undefined : "nobody has cancelled it";
    case "terminated":
      return orders.has("terminate") ? undefined : "nobody has ended it";
    case "failed": {
      const most = Math.min(spec.retry.attempts, MOST_LOST);
      const failures = runs.filter((run) => run.failed.size > 0).length;
      const mayFail =
        spec.deadlineMs !== undefined ||
        orders.has("deadline") ||
        leases >= MOST_LOST ||
        // What hosts have lost or stopped is not charged.
        (spec.array === undefined && failures >= most) ||
        [...tasks.values()].some(({ failed }) => failed >= most) ||
        orders.has("cancel-tasks") ||
        isLeftAlone(spec, decided);
      return mayFail ? undefined : `it has failed after ${leases} runs, ${failures} by themselves`;
    }
    default:
      return `it ends as ${how}`;
  }
}

const gangProblem = (runs: readonly Book[]): string | undefined =>
  runs.some(({ hosts, completed }) => hosts.every((host) => completed.has(host)))
    ? undefined
    : "it has completed, and no gang of it has run to its end";

function arrayProblem(
  rule: NonNullable<JobSpec["array"]>,
  tasks: ReadonlyMap<number, TaskBook>,
): string | undefined {
  const all = rule.tasks === undefined ? [...Array(rule.count).keys()] : selectedTasks(rule);
  const left = all.find((task) => (tasks.get(task)?.completed ?? 0) === 0);
  return left === undefined ? undefined : `it has completed, and task ${left} has not`;
}

/** A job that it follows has ended in another way than it was to. */
const isLeftAlone = ({ after = [], mayFollowFailure }: JobSpec, decided: Decided): boolean =>
  mayFollowFailure !== true &&
  after.some(({ job, on }) => {
    const ends = [...(decided.get(job) ?? [])];
    if (on === "success") return ends.some((end) => end !== "completed");
    return on === "failure" && ends.includes("completed");
  });

/** Why a job may not start yet. */
export function unmetDependency(
  { after = [], mayFollowFailure }: JobSpec,
  decided: Decided,
  hasStarted: (job: string) => boolean,
): string | undefined {
  const unmet = after.find(({ job, on }) => {
    const ends = [...(decided.get(job) ?? [])];
    if (on === "start") return ends.length === 0 && !hasStarted(job);
    if (ends.length === 0) return true;
    if (on === "end" || mayFollowFailure === true) return false;
    return on === "success"
      ? !ends.includes("completed")
      : ends.every((end) => end === "completed");
  });
  return unmet && `it waits for the ${unmet.on} of ${unmet.job}`;
}
