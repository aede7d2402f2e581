/** @file Whatever happens, in whatever order: a gang never says that nothing runs where something may, and it comes to an end. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { HostId } from "../../../domain/values/ids.ts";
import { hostsOf, playGang, type PlayedGang } from "./builders.ts";
import { caseCount } from "../../support/case-count.ts";

const HOSTS = hostsOf(3);
const FATES = [
  "completes",
  "fails",
  "silent",
  "not taken",
  "never started",
  "nothing runs",
  "faulty",
  "broken",
] as const;

/** One thing that happens on a host, or to the gang. */
type Happening =
  | { readonly kind: "run"; readonly at: number; readonly fate: (typeof FATES)[number] }
  | { readonly kind: "stop"; readonly at: number; readonly isAnswered: boolean }
  | { readonly kind: "find"; readonly at: number; readonly isThere: boolean }
  | { readonly kind: "fence"; readonly at: number }
  | { readonly kind: "cancel" | "time" };

const at = fc.nat(HOSTS.length - 1);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("run" as const),
      at,
      fate: fc.constantFrom(...FATES),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("stop" as const), at, isAnswered: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("find" as const), at, isThere: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("fence" as const), at }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom("cancel" as const, "time" as const) }),
  },
);

/** The truth about the hosts, which the gang learns only by answers. */
interface World {
  readonly played: PlayedGang;
  /** Processes may be alive there. */
  readonly alive: Set<HostId>;
  /** Hosts that have confirmed a stop, which revokes the lease there. */
  readonly revoked: Set<HostId>;
  readonly fenced: Set<HostId>;
}

function happen(world: World, what: Happening): void {
  const { played, alive, fenced, revoked } = world;
  const host = "at" in what ? HOSTS[what.at] : undefined;
  const isOpen = (kind: "run" | "stop" | "find-host"): boolean =>
    played.open(kind).some((command) => command.host === host);
  switch (what.kind) {
    case "run":
      if (host === undefined || !isOpen("run")) return;
      endRun(world, what.at, what.fate);
      return;
    case "stop":
      if (host === undefined || !isOpen("stop")) return;
      if (!what.isAnswered) return played.notStopped(what.at);
      revoked.add(host);
      alive.delete(host);
      return played.stopped(what.at);
    case "find":
      return isOpen("find-host") ? played.found(what.at, what.isThere ? "2" : null) : undefined;
    case "fence":
      if (host === undefined) return;
      fenced.add(host);
      return played.feed({ kind: "fenced", hosts: [host] });
    case "cancel":
      return played.feed({ kind: "stop", reason: "cancelled" });
    case "time":
      return Number.isFinite(played.now()) ? waitIfDue(played) : undefined;
  }
}

function waitIfDue(played: PlayedGang): void {
  const isPausing = played.gang().parts.some(({ watch }) => watch.kind === "pausing");
  if (isPausing && played.gang().end === undefined) played.wait();
}

/** A host that already runs something cannot say that nothing was ever started. */
function endRun(
  { played, alive, revoked }: World,
  index: number,
  fate: (typeof FATES)[number],
): void {
  const host = HOSTS[index];
  if (host === undefined) return;
  switch (fate) {
    case "completes":
    case "fails":
      alive.delete(host);
      return played.ran(
        index,
        fate === "fails"
          ? { end: "failed", cause: { code: "PROCESS_EXITED", message: "", atMs: 0 } }
          : {},
      );
    case "nothing runs":
      alive.delete(host);
      return played.failed(index, fate);
    case "silent":
    case "faulty":
    case "broken":
      if (!revoked.has(host)) alive.add(host);
      return played.failed(index, fate);
    default:
      return played.failed(index, fate);
  }
}

function checkCommands({ commands, gang }: PlayedGang): void {
  const ids = commands.flatMap((command) => ("id" in command ? [command.id] : []));
  expect(new Set(ids).size).toBe(ids.length);
  const firstStop = commands.findIndex(({ kind }) => kind === "stop-watching");
  if (firstStop >= 0 && gang().isStopping)
    expect(commands.slice(firstStop).every(({ kind }) => kind !== "run")).toBe(true);
}

test("no run is doubled, no command's number is used twice, and a host where something may run is named", () => {
  const happenings = fc.array(happening, { maxLength: 60, size: "max" });
  fc.assert(
    fc.property(happenings, fc.nat(3), (all, located) => {
      const world: World = {
        played: playGang({ hosts: 3, located }),
        alive: new Set(),
        revoked: new Set(),
        fenced: new Set(),
      };
      const { played, alive, fenced } = world;
      for (const what of all) {
        const before = played.commands.length;
        const wasOver = played.gang().end !== undefined;
        happen(world, what);
        if (wasOver) expect(played.commands.length).toBe(before);
        const hosts = played.open("run").map(({ host }) => host);
        if (played.gang().end === undefined) expect(new Set(hosts).size).toBe(hosts.length);
        checkCommands(played);
      }
      settle(world);
      const { end } = played.gang();
      expect(end).toBeDefined();
      for (const host of alive)
        if (!fenced.has(host)) expect(end?.unconfirmedHosts).toContain(host);
    }),
    { numRuns: caseCount(300) },
  );
});

/** Every order is answered from here on: the gang comes to its end. */
function settle({ played, alive }: World): void {
  played.feed({ kind: "stop", reason: "deadline" });
  for (let rounds = 0; played.gang().end === undefined; rounds += 1) {
    if (rounds > 20) throw new Error("the gang does not end");
    HOSTS.forEach((host, index) => {
      const isOpen = (kind: "run" | "stop" | "find-host"): boolean =>
        played.open(kind).some((command) => command.host === host);
      if (isOpen("find-host")) played.found(index, "3");
      if (isOpen("stop")) {
        alive.delete(host);
        played.stopped(index);
      }
      if (isOpen("run")) played.cancelled(index);
    });
  }
}
