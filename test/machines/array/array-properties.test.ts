/** @file Laws of an array under any order of events: no task twice at once, no slot too many, every lease given back once, one final state a task. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { liveSlots } from "../../../machines/array/array-state.ts";
import { batchOf } from "../../../machines/array/held-lease.ts";
import { stateOf } from "../../../machines/array/task-table.ts";
import type { RunOutcome } from "../../../machines/gang/gang-state.ts";
import {
  DELIVERED,
  grantOf,
  grants,
  leaseNamed,
  NO_FLEET,
  playArray,
  type PlayedArray,
} from "./builders.ts";
import { caseCount } from "../../support/case-count.ts";

const COUNT = 24;
const PARALLEL = 7;

type Happening =
  | { readonly grant: number; readonly slots: number; readonly isSpanning: boolean }
  | { readonly answer: number; readonly way: number }
  | { readonly about: number; readonly signal: "fenced" | "preempt" | "again" }
  | { readonly event: "assert" | "hold" | "release" | "cancel" }
  | { readonly tasks: string; readonly order: "cancel-tasks" | "retry-tasks" }
  | { readonly waitMs: number };

const ranges = fc
  .tuple(fc.nat(COUNT - 1), fc.nat(COUNT - 1))
  .map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`);

const happening = (mayCancel: boolean): fc.Arbitrary<Happening> =>
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        grant: fc.nat(2),
        slots: fc.integer({ min: 1, max: 5 }),
        isSpanning: fc.boolean(),
      }),
    },
    { weight: 10, arbitrary: fc.record({ answer: fc.nat(9), way: fc.nat(7) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        about: fc.nat(9),
        signal: fc.constantFrom("fenced" as const, "preempt" as const, "again" as const),
      }),
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom("assert" as const, "hold" as const, "release" as const)
        .map((event) => ({ event })),
    },
    { weight: mayCancel ? 1 : 0, arbitrary: fc.constant({ event: "cancel" as const }) },
    {
      weight: 1,
      arbitrary: fc.record({
        tasks: ranges,
        order: fc.constantFrom("cancel-tasks" as const, "retry-tasks" as const),
      }),
    },
    { weight: 2, arbitrary: fc.record({ waitMs: fc.constantFrom(0, 1_000, 70_000) }) },
  );

/** An array, the grants that it has had, and what must hold after every event. */
function arrayUnderTest() {
  const played = playArray({
    count: COUNT,
    parallel: PARALLEL,
    file: { retry: { attempts: 2, backoff: "500ms" } },
  });
  let grantCount = 0;
  /** Of each grant, by its number. */
  const seqs = new Map<number, number>();
  /** The highest request that was ended with all its leases. */
  let endedUpTo = 0;
  let checked = 0;

  return { played, happen, check, finish, seqs };

  function happen(each: Happening): void {
    if ("grant" in each) {
      grantCount += 1;
      const hosts = each.isSpanning ? [`h${grantCount}`, `i${grantCount}`] : [`h${grantCount}`];
      const seq = Math.max(1, played.array().requests.seq - each.grant);
      seqs.set(grantCount, seq);
      // Some are of a run that was reset.
      const run = each.grant === 2 && each.slots === 1 ? { run: runId("former") } : {};
      const slots = each.isSpanning ? 1 : each.slots;
      const atMs = played.now();
      played.feed(grants(grantOf(grantCount, { seq, slots, hosts, atMs, ...run })));
    } else if ("answer" in each) answerSome(played, each.answer, each.way);
    else if ("signal" in each) signal(each);
    else if ("event" in each) played.feed({ kind: each.event });
    else if ("order" in each) {
      const isOpen = played.array().phase.kind === "open" && played.array().reason === undefined;
      if (isOpen) played.feed({ kind: each.order, order: { tasks: each.tasks } });
    } else if (each.waitMs === 0) played.wait();
    else played.wait(each.waitMs);
  }

  function signal({ about, signal: what }: Extract<Happening, { readonly signal: string }>): void {
    const number = 1 + (about % Math.max(1, grantCount));
    const lease = leaseNamed(number);
    const seq = seqs.get(number);
    if (seq === undefined) return;
    if (what === "again") return played.feed(grants(grantOf(number, { seq })));
    if (what === "fenced")
      return played.feed({ kind: "fenced", loss: { lease, hosts: [`alpha/h${number}`] } });
    const order = { seq: 1, lease, forJob: jobId("other"), reason: "due", graceMs: 1 };
    return played.feed({ kind: "preempt", order });
  }

  function check(): void {
    const array = played.array();
    const { tasks, leases } = array;
    expect(liveSlots(array)).toBeLessThanOrEqual(PARALLEL);
    const inBatches = [...leases.values()].flatMap(batchOf);
    expect(new Set(inBatches).size).toBe(inBatches.length);
    const running = Array.from({ length: COUNT }, (_, task) => task).filter(
      (task) => stateOf(tasks, task) === "running",
    );
    expect([...inBatches].sort((a, b) => a - b)).toEqual(running);
    const { waiting, completed, failed, cancelled } = tasks.counts;
    expect(waiting + running.length + completed + failed + cancelled).toBe(COUNT);
    for (const command of played.commands.slice(checked)) {
      if (command.kind === "gang" && command.command.kind === "run") {
        const { slots = 0, tasks: batch = [] } = command.command.order.taskBatch ?? {};
        expect(batch.length).toBeGreaterThan(0);
        expect(slots).toBeLessThanOrEqual(PARALLEL);
        expect(command.command.order.holder.seq).toBeGreaterThan(endedUpTo);
      } else if (command.kind === "tell") checkMessage(command.entry);
    }
    checked = played.commands.length;
  }

  /** No message ends a lease that is still held, or one that is being asserted. */
  function checkMessage(entry: InboxEntry): void {
    if (entry.kind !== "end") return;
    if (entry.lease === undefined) endedUpTo = Math.max(endedUpTo, entry.seq);
    for (const { grant } of played.array().leases.values())
      expect(
        entry.lease === undefined ? grant.seq > entry.seq : grant.lease.id !== entry.lease,
      ).toBe(true);
    const asserted = played
      .open("tell")
      .flatMap(({ entry: each }) => (each.kind === "assert" ? [each.lease.id] : []));
    if (entry.lease !== undefined) expect(asserted).not.toContain(entry.lease);
  }

  /** From here on every command is answered well, and every request granted. */
  function finish(): void {
    played.feed({ kind: "release" });
    for (let rounds = 0; played.outcome() === undefined; rounds += 1) {
      if (rounds > 2_000) throw new Error("the array does not end");
      if (answerSome(played, 0, 0)) continue;
      const { asked, seq } = played.array().requests;
      if (asked > 0 && played.array().phase.kind === "open") {
        grantCount += 1;
        seqs.set(grantCount, seq);
        const atMs = played.now();
        played.feed(grants(grantOf(grantCount, { seq, slots: Math.min(asked, 4), atMs })));
      } else if (!played.wait()) throw new Error("the array waits for nothing");
      check();
    }
  }
}

/** Answers one of the open commands, in one of the ways in which the world may; false when there is none. */
function answerSome(played: PlayedArray, which: number, way: number): boolean {
  const messages = played.open("tell");
  const questions = played.open("ask-others");
  const onHosts = [...played.gang("run"), ...played.gang("stop"), ...played.gang("find-host")];
  const all = [...messages, ...questions, ...onHosts];
  const command = all[which % Math.max(1, all.length)];
  if (command === undefined) return false;
  if (command.kind === "tell")
    played.answer(command, {
      kind: "told",
      id: command.id,
      result: way === 7 && command.entry.kind === "request" ? NO_FLEET : DELIVERED,
    });
  else if (command.kind === "ask-others")
    played.answer(command, { kind: "others-wait", id: command.id, doWait: way % 2 === 1 });
  else answerHost(played, command, way);
  return true;
}

function answerHost(
  played: PlayedArray,
  { lease, command, ...rest }: ReturnType<typeof hostCommands>[number],
  way: number,
): void {
  const { id, host } = command;
  const of = { ...rest, lease, command };
  const asked = hostCommands(played).find((each) => each.command.id === id);
  if (asked === undefined) throw new Error(`${of.kind} is not open`);
  switch (asked.command.kind) {
    case "run": {
      const run = played.gang("run").find((each) => each.command.id === id);
      const outcome = failures(played.now())[way];
      if (outcome !== undefined) played.notRun(outcome, run);
      else
        played.ran(
          (task) =>
            way === 1 && task % 2 === 0
              ? { end: "failed", exitCode: 1 }
              : way === 2
                ? { end: "stopped" }
                : {},
          run,
        );
      return;
    }
    case "stop": {
      const report = { host, hadProcesses: true };
      const outcome =
        way === 3 ? ({ kind: "failed" } as const) : ({ kind: "confirmed", report } as const);
      played.answer(asked, { kind: "gang", lease, answer: { kind: "stopped", id, host, outcome } });
      return;
    }
    case "find-host": {
      const agent =
        way === 3
          ? null
          : { epoch: `e${way}`, runQueue: "run", orderQueue: "orders", address: "::1" };
      played.answer(asked, { kind: "gang", lease, answer: { kind: "found", id, host, agent } });
    }
  }
}

const hostCommands = (played: PlayedArray) => [
  ...played.gang("run"),
  ...played.gang("stop"),
  ...played.gang("find-host"),
];

/** By way: how a run may fail. */
const failures = (atMs: number): readonly (RunOutcome | undefined)[] => {
  const failed = (
    means: "silent" | "never started" | "broken" | "not taken",
    code: "HOST_LOST" | "HOST_REFUSED",
  ) => ({ kind: "failed", means, cause: { code, message: means, atMs } }) as const;
  return [
    undefined,
    undefined,
    undefined,
    failed("silent", "HOST_LOST"),
    failed("never started", "HOST_REFUSED"),
    failed("broken", "HOST_REFUSED"),
    failed("not taken", "HOST_LOST"),
    { kind: "cancelled" },
  ];
};

describe("an array in any order of events", () => {
  it.each([true, false])(
    "runs no task twice at once, uses no slot too many, and ends every task and lease once (cancelled: %s)",
    (mayCancel) => {
      fc.assert(
        fc.property(fc.array(happening(mayCancel), { maxLength: 80 }), (happenings) => {
          const { played, happen, check, finish, seqs } = arrayUnderTest();
          for (const each of happenings) {
            happen(each);
            check();
          }
          finish();
          const { tasks, leases, seen } = played.array();
          expect(tasks.counts.waiting + tasks.counts.running).toBe(0);
          expect(leases.size).toBe(0);
          const ends = played.entries().flatMap((entry) => (entry.kind === "end" ? [entry] : []));
          const last = ends.at(-1);
          expect(last?.lease).toBeUndefined();
          expect(played.entries().at(-1)).toBe(last);
          for (const [number, seq] of seqs) {
            const id = leaseNamed(number);
            const own = ends.filter(({ lease }) => lease === id);
            expect(own.length).toBeLessThanOrEqual(1);
            const isCovered = ends
              .slice(0, seen.has(id) ? -1 : undefined)
              .some((end) => end.lease === undefined && end.seq >= seq);
            expect(own.length === 1 || isCovered).toBe(true);
          }
          const ids = played.commands.flatMap((each) =>
            each.kind === "tell" || each.kind === "ask-others"
              ? [String(each.id)]
              : each.kind === "gang" && "id" in each.command
                ? [each.command.id]
                : [],
          );
          expect(new Set(ids).size).toBe(ids.length);
          const before = played.commands.length;
          played.feed(grants(grantOf(999)), { kind: "assert" }, { kind: "cancel" });
          played.wait(100_000);
          expect(played.commands).toHaveLength(before);
        }),
        { numRuns: caseCount(60) },
      );
    },
  );

  it("gives the same steps for the same events, and leaves former states as they were", () => {
    fc.assert(
      fc.property(fc.array(happening(true), { maxLength: 30 }), (happenings) => {
        const [one, other] = [arrayUnderTest(), arrayUnderTest()];
        const kept = one.played.array();
        for (const each of happenings) {
          one.happen(each);
          other.happen(each);
        }
        expect(one.played.commands).toEqual(other.played.commands);
        expect(kept.tasks.counts).toMatchObject({ waiting: COUNT, running: 0 });
      }),
      { numRuns: caseCount(50) },
    );
  });
});
