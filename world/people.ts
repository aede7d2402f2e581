/** @file Users and operators of a world: they submit jobs, change their minds, and look after hosts, each order a call that may get lost. */

import type { HostId, JobId } from "../domain/values/ids.ts";
import type { FleetShape } from "../domain/fleet/fleet.ts";
import { refuseHosts } from "../machines/fleet/orders.ts";
import type { FleetState } from "../machines/fleet/state.ts";
import { holdProblem, requeueProblem, suspendProblem } from "../machines/job/paused.ts";
import type { Job, JobEvent } from "../machines/job/job-state.ts";
import type { OperatorOrder } from "../machines/fleet/events.ts";
import { sleep, type Process, type Task } from "./kernel/process.ts";
import type { Checker } from "./checker/checker.ts";
import type { FleetRun } from "./shells/fleet.ts";
import type { Site } from "./shells/site.ts";
import type { DrawnJob, Order } from "./settings.ts";
import type { JobRun } from "./shells/job.ts";
import type { Host } from "./hosts/host.ts";

export interface People {
  readonly site: Site;
  readonly client: Process;
  readonly checker: Checker;
  readonly jobs: readonly DrawnJob[];
  readonly hosts: ReadonlyMap<HostId, Host>;
  readonly shape: FleetShape;
  readonly fleet: () => FleetRun | undefined;
  readonly jobRun: (id: string) => JobRun | undefined;
  /** Turns a host off, so that an operator can vouch for it, and on again. */
  readonly turnOff: (host: Host) => void;
  readonly turnOn: (host: Host) => void;
}

const RETRY_MS = 2_000;
const BY = { by: "somebody" };

/** Until the server has it. */
export function* submit({ site, client }: People, { id, spec }: DrawnJob): Task<void> {
  const { network, server, kernel } = site;
  for (;;) {
    // As clients do: an id starts once.
    const reply = yield* network.call(client, () => {
      if (server.lastRun(id) === undefined) server.start("job", id, { spec });
    });
    if (reply.isHeard) return;
    yield* sleep(kernel, RETRY_MS);
  }
}

export function* giveOrder(people: People, { kind, target, forMs }: Order): Task<void> {
  const { kernel } = people.site;
  const job = people.jobs[target % people.jobs.length];
  const host = [...people.hosts.values()][target % people.hosts.size];
  if (job === undefined || host === undefined) return;
  const id = job.id as JobId; // as drawn
  kernel.tell("somebody", kind === "drain" || kind === "fence" ? host.id : id, () => kind);
  switch (kind) {
    case "cancel":
      people.checker.noteOrder(id, "cancel");
      yield* people.site.network.call(people.client, () =>
        people.site.server.signal(id, { name: "cancel" }),
      );
      return;
    case "hold":
      yield* updateJob(people, id, { event: { kind, order: BY }, problemOf: holdProblem });
      yield* sleep(kernel, forMs);
      return yield* release(people, id);
    case "suspend":
      yield* updateJob(people, id, { event: { kind, order: BY }, problemOf: suspendProblem });
      yield* sleep(kernel, forMs);
      return yield* release(people, id);
    case "requeue":
      yield* updateJob(people, id, { event: { kind, order: BY }, problemOf: requeueProblem });
      return;
    case "drain":
      yield* updateFleet(people, { kind, hosts: [host.id], reason: "repair" });
      yield* sleep(kernel, forMs);
      return yield* updateFleet(people, { kind: "undrain", hosts: [host.id] });
    case "fence":
      people.turnOff(host);
      yield* sleep(kernel, RETRY_MS);
      yield* updateFleet(people, { kind, hosts: [host.id] });
      yield* sleep(kernel, forMs);
      return people.turnOn(host);
    case "configure":
      return yield* updateFleet(people, { kind, shape: changed(people.shape, target) });
  }
}

/** Other places and a longer silence. */
const changed = (shape: FleetShape, by: number): FleetShape => ({
  ...shape,
  ...(shape.policy && { policy: { ...shape.policy, places: 2 + (by % 20) } }),
});

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
  }: { readonly event: JobEvent; readonly problemOf: (job: Job) => string | undefined },
): Task<boolean> {
  const run = jobRun(id);
  if (run === undefined) return false;
  let isAnswered = false;
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
      },
    }),
  );
  for (let waits = 0; reply.isHeard && waits < MOST_WAITS && !isAnswered; waits += 1)
    yield* sleep(site.kernel, RETRY_MS);
  return isAnswered;
}

const MOST_WAITS = 5;

/** Operators ask again until the fleet has taken the order. */
export function* updateFleet({ site, client, fleet }: People, order: OperatorOrder): Task<void> {
  const problemOf = (state: FleetState): string | undefined =>
    order.kind === "configure" ? undefined : refuseHosts(state, order)?.message;
  for (;;) {
    let isAnswered = false;
    const onAnswer = (): void => {
      isAnswered = true;
    };
    const event = { kind: "order", order } as const;
    const reply = yield* site.network.call(client, () =>
      fleet()?.arrive({ kind: "update", event, problemOf, onAnswer }),
    );
    for (let waits = 0; reply.isHeard && waits < MOST_WAITS && !isAnswered; waits += 1)
      yield* sleep(site.kernel, RETRY_MS);
    if (isAnswered) return;
  }
}
