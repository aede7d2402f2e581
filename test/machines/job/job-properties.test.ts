/** @file Whatever happens, in whatever order: a job runs on one lease at a time, never calls a host free that may run it, and gives every lease back. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { holdProblem } from "../../../machines/job/paused.ts";
import type { HostId } from "../../../domain/values/ids.ts";
import {
  DELIVERED,
  failedBy,
  HOST,
  NO_FLEET,
  noteOf,
  playJob,
  preemptOrder,
  type PlayedJob,
} from "./builders.ts";
import { caseCount } from "../../support/case-count.ts";

const HAPPENINGS = [
  "deliver",
  "deliver",
  "deliver",
  "no fleet",
  "grant",
  "grant",
  "grant again",
  "hold",
  "release",
  "assert",
  "patience over",
  "no host left",
  "preempt",
  "fence",
  "completes",
  "fails",
  "falls silent",
  "refuses",
  "stop answered",
  "stop unanswered",
  "unreachable",
  "found",
  "forgotten",
  "lease there",
  "lease gone",
  "time",
  "time",
  "cancel",
  "suspend",
  "move",
  "move",
  "move back",
] as const;
type Happening = (typeof HAPPENINGS)[number];

/** What the hosts and fleets know. */
interface World {
  readonly played: PlayedJob;
  /** Hosts where processes of the job may be alive, with the number of the request that started the first of them. */
  readonly alive: Map<HostId, number>;
  readonly fleets: Map<string, Fleet>;
  /** Numbers of the requests that were granted. */
  readonly sent: number[];
  /** Leases that their host has revoked, or whose host was fenced: nothing runs under them any more. */
  readonly revoked: Set<string>;
}

function happen(world: World, what: Happening): void {
  const { played, alive } = world;
  const { seq, grant } = played.job();
  switch (what) {
    case "deliver":
    case "no fleet":
      return deliver(world, what === "deliver");
    case "grant":
      return offer(world);
    case "grant again":
      if (world.sent.length > 0) played.feed(played.grant(world.sent[0] ?? 1));
      return;
    case "hold":
      if (holdProblem(played.job()) === undefined) played.feed({ kind: "hold" });
      return;
    case "release":
    case "assert":
    case "cancel":
      return played.feed({ kind: what });
    case "suspend":
      return played.feed({ kind: what, order: { by: "ada" } });
    case "move":
    case "move back":
      return played.feed({
        kind: "move",
        order: { by: "ada", fleet: what === "move" ? "ap" : "eu" },
      });
    case "patience over":
      return played.feed(noteOf(seq, "PatienceOver"));
    case "no host left":
      return played.feed(noteOf(seq, "NoMatchingFlavor"));
    case "preempt":
      return played.feed(preemptOrder(grant?.lease.id ?? "lease-0"));
    case "fence":
      if (grant !== undefined) {
        alive.delete(HOST);
        world.revoked.add(grant.lease.id);
      }
      return played.feed({
        kind: "fenced",
        loss: { lease: grant?.lease.id ?? "lease-0", hosts: [HOST] },
      });
    case "time":
      played.wait();
      return;
    case "unreachable":
      // Every order to stop the run fails, and no agent is found.
      for (let attempt = 1; attempt <= 3; attempt += 1)
        for (const each of ["falls silent", "stop unanswered", "found"] as const)
          answer(world, each);
      return;
    default:
      return answer(world, what);
  }
}

/** A fleet grants only a request that it has, and each once. */
function offer({ played, fleets, sent }: World): void {
  const { seq, cells } = played.job();
  const fleet = fleets.get(cells.ring[cells.at] ?? "");
  if (fleet?.requests.delete(seq) !== true || sent.includes(seq)) return;
  fleet.leases.add(seq);
  sent.push(seq);
  played.feed(played.grant(seq));
}

function deliver({ played, fleets }: World, isThere: boolean): void {
  const [tell] = played.open("tell");
  if (tell === undefined) return;
  const { fleetWorkflowId, entry } = tell;
  const name = fleetWorkflowId.slice("orbweaver-fleet-".length);
  // A fleet that does not exist has no ledger either.
  const fleet = (isThere ? fleets.get(name) : undefined) ?? newFleet();
  fleets.set(name, fleet);
  if (isThere && entry.kind === "request") fleet.requests.add(entry.request.seq);
  if (isThere && entry.kind === "end")
    for (const of of [fleet.requests, fleet.leases])
      for (const seq of [...of]) if (seq <= entry.seq) of.delete(seq);
  played.deliverOne(isThere ? DELIVERED : NO_FLEET);
}

interface Fleet {
  /** Numbers of requests that wait. */
  readonly requests: Set<number>;
  /** Numbers of requests whose leases were not given back. */
  readonly leases: Set<number>;
}

const newFleet = (...requests: readonly number[]): Fleet => ({
  requests: new Set(requests),
  leases: new Set(),
});

/** As the activity asks its ledger until it does. */
function holdsNothing(
  { fleetWorkflowId }: { readonly fleetWorkflowId: string },
  fleets: World["fleets"],
): boolean {
  const of = fleets.get(fleetWorkflowId.slice("orbweaver-fleet-".length));
  return of === undefined || of.requests.size + of.leases.size === 0;
}

function answer({ played, alive, revoked, fleets }: World, what: Happening): void {
  const [run] = played.open("run");
  const [stop] = played.open("stop");
  const [find] = played.open("find-host");
  const [forget] = played.open("until-forgotten");
  const [lease] = played.open("has-lease");
  if (what === "completes" && run !== undefined) {
    alive.delete(run.host);
    played.ran({}, run);
  } else if (what === "fails" && run !== undefined) {
    alive.delete(run.host);
    played.ran(failedBy("PROCESS_EXITED"), run);
  } else if ((what === "falls silent" || what === "refuses") && run !== undefined) {
    if (what === "falls silent" && !revoked.has(run.order.leaseId))
      alive.set(run.host, alive.get(run.host) ?? run.order.holder.seq);
    const means = what === "refuses" ? "never started" : "silent";
    const cause = { code: "HOST_REFUSED", message: what, atMs: 0 } as const;
    const outcome = { kind: "failed", means, cause } as const;
    played.answer(run, { kind: "ran", id: run.id, host: run.host, outcome });
  } else if (what === "stop answered" && stop !== undefined) {
    alive.delete(stop.host);
    revoked.add(stop.order.leaseId);
    played.stopped(stop);
  } else if (what === "stop unanswered" && stop !== undefined) {
    const { id, host } = stop;
    played.answer(stop, { kind: "stopped", id, host, outcome: { kind: "failed" } });
  } else if (what === "found" && find !== undefined)
    played.answer(find, { kind: "found", id: find.id, host: find.host, agent: null });
  else if (what === "forgotten" && forget !== undefined && holdsNothing(forget, fleets))
    played.answer(forget, { kind: "forgotten", id: forget.id });
  else if ((what === "lease there" || what === "lease gone") && lease !== undefined)
    played.answer(lease, { kind: "lease", id: lease.id, isThere: what === "lease there" });
}

/** Fleets that could grant it something, or have. */
const holders = (fleets: World["fleets"]): readonly string[] =>
  [...fleets].flatMap(([name, { requests, leases }]) =>
    requests.size + leases.size > 0 ? [name] : [],
  );

function check({ played, alive, fleets }: World, from: number): void {
  const { commands } = played;
  const ids = commands.flatMap((command) =>
    "id" in command && command.kind !== "cancel-extras" ? [command.id] : [],
  );
  expect(new Set(ids).size).toBe(ids.length);
  expect(played.open("tell").length).toBeLessThanOrEqual(1);
  expect(holders(fleets).length).toBeLessThanOrEqual(1);
  for (const command of commands.slice(from)) {
    if (command.kind === "tell" && command.entry.kind === "end") {
      const { unconfirmedHosts, seq } = command.entry;
      for (const [host, since] of alive)
        if (since <= seq && unconfirmedHosts !== "all") expect(unconfirmedHosts).toContain(host);
    }
    if (command.kind === "run") expect(command.order.leaseId).toBe(played.job().grant?.lease.id);
  }
}

/** Everything is answered from here on: the job comes to its end. */
function settle(world: World): void {
  const { played } = world;
  played.feed({ kind: "cancel" });
  for (let rounds = 0; played.outcome() === undefined; rounds += 1) {
    if (rounds > 50) throw new Error(`the job does not end: ${played.stage()}`);
    for (const what of ["deliver", "found", "stop answered", "fails", "lease gone"] as const) {
      const before = played.commands.length;
      happen(world, what);
      check(world, before);
    }
  }
}

const happenings = fc.array(fc.constantFrom(...HAPPENINGS), { maxLength: 80, size: "max" });

test.each([
  { name: "one fleet", file: { retry: { attempts: 3, backoff: "1s" } } },
  { name: "two fleets", file: { fleets: ["eu", "us"], patience: "1m" } },
  { name: "a deadline", file: { deadline: "10m", retry: { attempts: 3 } } },
])("with $name: one lease at a time, no false confirmation, all given back", ({ file }) => {
  fc.assert(
    fc.property(happenings, (all) => {
      const world: World = {
        played: playJob({ file }),
        alive: new Map(),
        fleets: new Map([["eu", newFleet(1)]]),
        sent: [],
        revoked: new Set(),
      };
      const { played, fleets } = world;
      for (const what of all) {
        const before = played.commands.length;
        const wasOver = played.outcome() !== undefined;
        happen(world, what);
        if (wasOver) expect(played.commands.length).toBe(before);
        check(world, before);
      }
      settle(world);
      expect([...fleets.values()].flatMap(({ leases }) => [...leases])).toEqual([]);
    }),
    { numRuns: caseCount(300) },
  );
});
