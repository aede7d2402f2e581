/** @file Users of a world: they submit jobs and change their minds, each order a call that may get lost. */

import type { JobId } from "../domain/values/ids.ts";
import { requeueArrayProblem } from "../machines/array/array-paused.ts";
import { refuseEnding, refuseTasks } from "../machines/array/task-orders.ts";
import { refuseEarlyTasks } from "../machines/job/early-tasks.ts";
import { holdProblem, requeueProblem, suspendProblem } from "../machines/job/paused.ts";
import type { Job } from "../machines/job/job-state.ts";
import type { Checker } from "./checker/checker.ts";
import { sleep, type Task } from "./kernel/process.ts";
import { orderFleet, type Operators } from "./operators.ts";
import type { DrawnJob, Order } from "./settings.ts";
import type { JobLife, JobRun, LifeEvent } from "./shells/job-life.ts";

export interface People extends Operators {
  readonly checker: Checker;
  readonly jobs: readonly DrawnJob[];
  readonly jobRun: (id: string) => JobRun | undefined;
}

const RETRY_MS = 2_000;
const BY = { by: "somebody" };

/** Until the server has it. */
export function* submit({ site, client }: People, { id, spec }: DrawnJob): Task<void> {
  const { network, server, kernel } = site;
  for (;;) {
    // As clients do: an id starts once.
    const reply = yield* network.call(client, () => {
      // Nobody names a job that is not there yet.
      if (spec.after?.some(({ job }) => server.lastRun(job) === undefined) === true) return false;
      if (server.lastRun(id) === undefined) server.start("job", id, { spec });
      return true;
    });
    if (reply.isHeard && reply.value) return;
    yield* sleep(kernel, RETRY_MS);
  }
}

export function* giveOrder(people: People, order: Order): Task<void> {
  const { kernel } = people.site;
  const { kind, target } = order;
  const job = people.jobs[target % people.jobs.length];
  const host = [...people.hosts.values()][target % people.hosts.size];
  if (job === undefined || host === undefined) return;
  if (WAITING_ORDERS.has(kind)) return yield* orderWaiting(people, order);
  kernel.tell("somebody", HOST_ORDERS.has(kind) ? host.id : job.id, () => kind);
  if (HOST_ORDERS.has(kind) || FLEET_ORDERS.has(kind)) yield* orderFleet(people, order, host);
  else yield* orderJob(people, order, job);
}

const HOST_ORDERS: ReadonlySet<Order["kind"]> = new Set(["drain", "drain-gpus", "fence"] as const);
const FLEET_ORDERS: ReadonlySet<Order["kind"]> = new Set([
  "configure",
  "hold-queue",
  "repair",
  "repair-all",
  "limits",
  "upgrade",
] as const);

const WAITING_ORDERS: ReadonlySet<Order["kind"]> = new Set([
  "hold-waiting",
  "cancel-waiting",
  "terminate-waiting",
] as const);

/** To one of the jobs that wait at this time; there may be none. */
function* orderWaiting(people: People, { kind, target, forMs, atMs }: Order): Task<void> {
  const { server, kernel } = people.site;
  const { leases } = people.fleet()?.state()?.ledger ?? {};
  const holders = new Set([...(leases?.values() ?? [])].map(({ jobId }) => jobId));
  const ids = server.openIds("job").filter((each) => !holders.has(each as JobId)); // as drawn
  const id = ids[target % Math.max(1, ids.length)];
  const job = people.jobs.find((each) => each.id === id);
  if (job === undefined) return;
  const jobs = [job];
  if (kind === "terminate-waiting") {
    kernel.tell("somebody", job.id, () => "terminate");
    people.checker.noteOrder(job.id as JobId, "terminate"); // as drawn
    server.openRun(job.id)?.terminate();
    return;
  }
  const plain = kind === "hold-waiting" ? "hold" : "cancel";
  yield* giveOrder({ ...people, jobs }, { kind: plain, target: 0, forMs, atMs });
}

function* orderJob(people: People, { kind, target, forMs }: Order, job: DrawnJob): Task<void> {
  const { kernel, network, server } = people.site;
  const id = job.id as JobId; // as drawn
  switch (kind) {
    case "cancel":
      people.checker.noteOrder(id, "cancel");
      yield* network.call(people.client, () => server.signal(id, { name: "cancel" }));
      return;
    case "kill":
      people.checker.noteOrder(id, "cancel");
      yield* network.call(people.client, () => {
        server.signal(id, { name: kind });
        server.signal(id, { name: "cancel" });
      });
      return;
    case "hold":
      yield* updateJob(people, id, {
        event: { kind, order: BY },
        problemOf: unlessEnding(holdProblem),
      });
      yield* sleep(kernel, forMs);
      return yield* release(people, id);
    case "suspend":
      yield* updateJob(people, id, {
        event: { kind, order: BY },
        problemOf: unlessEnding(suspendProblem),
      });
      yield* sleep(kernel, forMs);
      return yield* release(people, id);
    case "requeue":
      yield* updateJob(people, id, {
        event: { kind, order: BY },
        problemOf: ({ job: of, array }) =>
          array === undefined
            ? requeueProblem(of)
            : (refuseEnding(array) ?? requeueArrayProblem(array))?.message,
      });
      return;
    case "cancel-tasks":
    case "retry-tasks":
      return yield* orderTasks(people, job, { kind, target });
    case "amend":
      yield* updateJob(people, id, {
        event: { kind, order: { ...BY, basis: 0, changes: { priority: target % 4 } } },
        problemOf: () => undefined,
      });
      return;
    case "amend-more": {
      const life = people.jobRun(id)?.state();
      const { amended } = life?.array ?? life?.job ?? {};
      const changes = changesOf(job, target);
      if ("deadlineMs" in changes) people.checker.noteOrder(id, "deadline");
      yield* updateJob(people, id, {
        event: { kind: "amend", order: { ...BY, basis: amended?.count ?? 0, changes } },
        problemOf: () => undefined,
      });
      return;
    }
    default:
      return;
  }
}

/** Smaller gangs, tenants without a quota, other limits of time; some of them a job must refuse. */
function changesOf({ spec }: DrawnJob, by: number): Readonly<Record<string, unknown>> {
  const most = Math.max(1, spec.gang.gpus - 1);
  const choices = [
    { max: most, min: most },
    { tenant: by % 2 === 0 ? "blue" : "green" },
    { deadlineMs: 30_000 + (by % 7) * 60_000 },
    { timeLimitMs: 20_000 + (by % 5) * 20_000 },
    { priority: by % 4, min: 1 },
    { priority: "high" },
    { max: 0 },
    {},
  ];
  return choices[by % choices.length] ?? {};
}

/** To the array that comes next; there may be none. */
function* orderTasks(
  people: People,
  { id: job }: DrawnJob,
  { kind, target }: { readonly kind: "cancel-tasks" | "retry-tasks"; readonly target: number },
): Task<void> {
  const at = people.jobs.findIndex(({ id }) => id === job);
  const array = [...people.jobs.slice(at), ...people.jobs].find(
    ({ spec }) => spec.array !== undefined,
  );
  const count = array?.spec.array?.count ?? 0;
  if (array === undefined) return;
  const id = array.id as JobId; // as drawn
  const first = target % count;
  const last = Math.min(count - 1, first + (target % 3));
  const named = Array.from({ length: last - first + 1 }, (_, each) => first + each);
  const order = { tasks: `${first}-${last}` };
  // It may count as soon as it is sent.
  const { checker } = people;
  if (kind === "retry-tasks") checker.noteRetry(id, named);
  const acknowledge = kind === "cancel-tasks" ? checker.noteCancellation(id, named) : undefined;
  const run = people.jobRun(id);
  const isDone = yield* updateJob(people, id, {
    event: { kind, order },
    problemOf: ({ job: early, array: of }) =>
      (of === undefined ? refuseEarlyTasks(early, order) : refuseTasks(of, order))?.message,
  });
  // A run that was reset meanwhile may not have taken what the former one took.
  if (isDone && people.jobRun(id) === run) acknowledge?.();
}

const unlessEnding =
  (problemOf: (job: Job) => string | undefined) =>
  ({ job, array }: JobLife): string | undefined =>
    array === undefined ? problemOf(job) : refuseEnding(array)?.message;

/** Until it is acknowledged. */
export function* release(people: People, id: JobId): Task<void> {
  const { site, jobRun, checker } = people;
  // The order may count as soon as it is sent.
  checker.noteOrder(id, "release");
  for (;;) {
    // A job that has not come yet may come as a held one.
    const run = jobRun(id);
    if (run?.isOpen() === false) return;
    const isDone = yield* updateJob(people, id, {
      event: { kind: "release" },
      problemOf: () => undefined,
    });
    if (isDone) return;
    yield* sleep(site.kernel, RETRY_MS);
  }
}

function* updateJob(
  { site, client, jobRun, checker }: People,
  id: JobId,
  {
    event,
    problemOf,
  }: { readonly event: LifeEvent; readonly problemOf: (life: JobLife) => string | undefined },
): Task<boolean> {
  const run = jobRun(id);
  if (run === undefined) return false;
  let isAnswered = false;
  let isDone = false;
  const reply = yield* site.network.call(client, () =>
    run.arrive({
      kind: "update",
      event,
      problemOf,
      onAnswer: (problem) => {
        isAnswered = true;
        // A release that was sent for an earlier hold may come after this one, and ends it as well.
        const isHoldOrRelease = event.kind === "hold" || event.kind === "release";
        if (problem === undefined && isHoldOrRelease) checker.noteOrder(id, event.kind);
        isDone = problem === undefined;
      },
    }),
  );
  for (let waits = 0; reply.isHeard && waits < MOST_WAITS && !isAnswered; waits += 1)
    yield* sleep(site.kernel, RETRY_MS);
  return isDone;
}

/** Looks for the answer to an update. */
const MOST_WAITS = 5;
