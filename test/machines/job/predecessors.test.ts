/** @file A job that waits for other jobs, and one that others wait for, by its machine. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEPENDENCY_EVENTS } from "../../../domain/job/dependency.ts";
import { tenantId } from "../../../domain/values/ids.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { stepJob } from "../../../machines/job/job.ts";
import { andThen } from "../../../machines/steps.ts";
import { PREDECESSOR_STATES, type PredecessorState } from "../../../protocol/predecessors.ts";
import { caseCount } from "../../support/case-count.ts";
import { noteOf, playJob, START_MS, type PlayedJob } from "./builders.ts";

const follower = (after: readonly object[], more: object = {}): PlayedJob =>
  playJob({ file: { after, ...more } });

const hear = (played: PlayedJob, job: string, state: PredecessorState): void =>
  played.feed({ kind: "predecessor", note: { job, state } });

/** Answers the look that is under way. */
function look(played: PlayedJob, states: Readonly<Record<string, PredecessorState>>): void {
  const [asked] = played.open("follow-jobs");
  if (asked === undefined) throw new Error("the job does not look");
  const news = asked.jobs.map((job) => ({ job, state: states[job] ?? "gone" }));
  played.answer(asked, { kind: "followed", id: asked.id, news });
}

describe("a job that waits for others", () => {
  test("asks no fleet before they have come, shows what it waits for, and is as old as they let it", () => {
    const played = follower([{ job: "a" }, { job: "b", on: "end" }]);
    expect(played.open("follow-jobs")).toMatchObject([{ jobs: ["a", "b"], follower: "played" }]);
    look(played, { a: "running", b: "pending" });
    expect(jobView(played.job())).toMatchObject({
      state: "pending",
      pending: {
        code: "WaitingForJobs",
        message: "waits until a completes (running), b ends (pending)",
        holders: ["a", "b"],
        numbers: { open: 2, met: 0 },
      },
      after: [
        { job: "a", on: "success", state: "running", verdict: "open" },
        { job: "b", on: "end", state: "pending", verdict: "open" },
      ],
    });
    hear(played, "b", "cancelled");
    expect(played.open("tell")).toEqual([]);
    played.wait();
    hear(played, "a", "completed");
    const eligibleAtMs = played.now();
    expect(eligibleAtMs).toBeGreaterThan(START_MS);
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 1, submittedAtMs: eligibleAtMs }]);
    const memos = played.commands.flatMap((each) => (each.kind === "waits" ? [each.reason] : []));
    expect(memos.at(-1)).toBeNull();
    expect(jobView(played.job())).not.toHaveProperty("pending");
  });

  test.each([
    ["success", "completed", "met"],
    ["success", "failed", "failed"],
    ["success", "cancelled", "failed"],
    ["success", "terminated", "failed"],
    ["success", "gone", "failed"],
    ["success", "running", "open"],
    ["failure", "completed", "failed"],
    ["failure", "failed", "met"],
    ["failure", "cancelled", "met"],
    ["failure", "terminated", "met"],
    ["failure", "gone", "failed"],
    ["end", "completed", "met"],
    ["end", "terminated", "met"],
    ["end", "gone", "met"],
    ["end", "running", "open"],
    ["start", "pending", "open"],
    ["start", "held", "open"],
    ["start", "running", "met"],
    ["start", "cancelled", "met"],
  ] as const)("for the %s of one that is %s: %s", (on, state, want) => {
    const played = follower([{ job: "a", on }]);
    look(played, { a: state });
    const { stage } = played.job();
    const is = { over: "failed", following: "open" }[stage.kind as string] ?? "met";
    expect(is).toBe(want);
    if (want === "failed")
      expect(played.outcome()).toMatchObject({ kind: "failed", code: "DEPENDENCY_FAILED" });
  });

  test("goes on without one that can never come, where its file says so, once the others have come", () => {
    const played = follower([{ job: "a" }, { job: "b" }], { onFailedDependency: "release" });
    look(played, { a: "failed", b: "running" });
    expect(played.stage()).toBe("following");
    hear(played, "b", "completed");
    expect(played.open("tell")).toHaveLength(1);
  });

  test("for itself ends at once", () => {
    const played = follower([{ job: "played", on: "end" }]);
    expect(played.outcome()).toMatchObject({ code: "DEPENDENCY_FAILED" });
  });

  test("looks again ever more seldom, at the open ones alone, until one was ended from outside", () => {
    const played = follower([{ job: "a" }, { job: "b" }]);
    look(played, { a: "completed", b: "running" });
    let looks = 0;
    while (played.now() < START_MS + 86_400_000) {
      expect(played.wait()).toBe(true);
      // They know it already.
      const [{ jobs, follower: told } = {}] = played.open("follow-jobs");
      expect([jobs, told]).toEqual([["b"], undefined]);
      look(played, { b: "running" });
      looks += 1;
    }
    expect(looks).toBeLessThan(60);
    played.wait();
    look(played, { b: "terminated" });
    expect(played.outcome()).toMatchObject({ code: "DEPENDENCY_FAILED" });
  });

  test("is held and released meanwhile, and is held when they have come", () => {
    const played = follower([{ job: "a" }]);
    look(played, { a: "running" });
    played.feed({ kind: "hold", order: { by: "ada" } });
    expect(jobView(played.job())).toMatchObject({ state: "held", pause: { by: "ada" } });
    played.feed({ kind: "release" });
    expect(jobView(played.job()).state).toBe("pending");
    played.feed({ kind: "suspend", order: { by: "ada" } });
    hear(played, "a", "completed");
    expect([played.stage(), played.requests()]).toEqual(["held", []]);
    played.feed({ kind: "release" });
    played.deliver();
    expect(played.requests()).toHaveLength(1);
  });

  test("that is released when the last news comes is shown as pending, where fleets that have lost their ledger look for it", () => {
    const played = follower([{ job: "a" }], { hold: true });
    look(played, { a: "running" });
    expect(jobView(played.job()).state).toBe("held");
    const { state } = andThen(stepJob(played.job(), { kind: "release" }, played.now()), (job) =>
      stepJob(job, { kind: "predecessor", note: { job: "a", state: "completed" } }, played.now()),
    );
    const { state: after, commands } = stepJob(state, { kind: "tick" }, played.now());
    expect(after.shown).toBe("pending");
    expect(commands).toContainEqual({ kind: "mark", mark: { state: "pending" } });
  });

  test("takes another tenant, whose lobby it leaves when it is put outside and cancelled", () => {
    const played = follower([{ job: "a" }]);
    look(played, { a: "running" });
    const changes = { tenant: tenantId("blue") };
    played.feed({ kind: "amend", order: { by: "ada", changes, basis: 0 } });
    hear(played, "a", "completed");
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 1, tenant: "blue" }]);
    played.feed(noteOf(1, "QueueFull"));
    played.feed({ kind: "cancel" });
    expect(played.open("tell")).toMatchObject([{ exit: { tenant: "blue", seq: 1 } }]);
  });

  test("is cancelled, and ends at its deadline", () => {
    const cancelled = follower([{ job: "a" }]);
    cancelled.feed({ kind: "cancel" });
    cancelled.deliver();
    expect(cancelled.outcome()).toEqual({ kind: "cancelled" });
    const late = follower([{ job: "a" }], { deadline: "10s" });
    look(late, { a: "running" });
    late.wait();
    late.deliver();
    expect(late.outcome()).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });

  test("an array begins its tasks once they have come", () => {
    const played = follower([{ job: "a" }], { gang: 1, array: { count: 3 } });
    look(played, { a: "running" });
    expect(played.stage()).toBe("following");
    hear(played, "a", "completed");
    expect(played.job()).toMatchObject({
      stage: { kind: "array", notified: { kind: "silent" } },
      eligibleAtMs: START_MS,
    });
  });

  test("says nothing to a fleet that has lost its ledger", () => {
    const played = follower([{ job: "a" }]);
    played.feed({ kind: "assert" });
    expect(played.open("tell")).toEqual([]);
  });
});

const JOBS = ["a", "b", "c"] as const;

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;

test("whatever it hears, twice or in any order: it asks a fleet only when each has come, and an end is final", () => {
  const state = fc.constantFrom(...PREDECESSOR_STATES);
  const word = fc.record({ job: fc.constantFrom(...JOBS), state });
  const junk = fc.constantFrom<unknown>(null, 7, {}, { job: 7 }, { job: "a", state: "sleeping" });
  const happening = fc.oneof(
    { weight: 4, arbitrary: word },
    junk,
    fc.constantFrom("hold" as const, "release" as const, "time" as const),
  );
  const after = fc.array(
    fc.record({ job: fc.constantFrom(...JOBS), on: fc.constantFrom(...DEPENDENCY_EVENTS) }),
    { minLength: 1, maxLength: 5 },
  );
  fc.assert(
    fc.property(
      after,
      fc.array(happening, { maxLength: 40 }),
      fc.boolean(),
      (named, all, mayFail) => {
        const played = follower(named, mayFail ? { onFailedDependency: "release" } : {});
        const ends = new Map<string, PredecessorState>();
        const started = new Set<string>();
        for (const what of all) {
          const isOpen = played.stage() === "following";
          if (what === "time") played.wait();
          else if (what === "hold" || what === "release") played.feed({ kind: what });
          else {
            played.feed({ kind: "predecessor", note: what });
            const said = PREDECESSOR_STATES.find((each) => each === fieldOf(what, "state"));
            const job = String(fieldOf(what, "job"));
            if (!isOpen || said === undefined || ends.has(job)) continue;
            if (said === "running") started.add(job);
            else if (said !== "pending" && said !== "held") ends.set(job, said);
          }
          const isMet = ({ job, on }: (typeof named)[number]): boolean => {
            const end = ends.get(job);
            if (on === "start") return started.has(job) || end !== undefined;
            if (end === undefined) return false;
            const isBad = ["failed", "cancelled", "terminated"].includes(end);
            return on === "end" || (on === "success" ? end === "completed" : isBad);
          };
          const isLost = (each: (typeof named)[number]): boolean =>
            ends.has(each.job) && !isMet(each);
          const hasLeft = named.every((each) => isMet(each) || (mayFail && isLost(each)));
          const hasFailed = !mayFail && named.some(isLost);
          const stage = played.stage();
          expect(stage === "over").toBe(hasFailed);
          if (!hasFailed) expect(stage === "following").toBe(!hasLeft);
          if (hasFailed) return;
        }
      },
    ),
    { numRuns: caseCount(300) },
  );
});

describe("a job that others wait for", () => {
  test("tells each once that it has started, whoever asks again, and what its fleet is to hear waits for none of it", () => {
    const played = playJob();
    played.feed({ kind: "follow", note: { job: "late" } });
    played.feed({ kind: "follow", note: { job: "late" } });
    played.feed({ kind: "follow", note: { job: 7 } });
    expect(played.open("tell-followers")).toEqual([]);
    played.feed(played.grant(1));
    const told = () => played.open("tell-followers").map(({ followers }) => followers);
    expect(told()).toEqual([["late"]]);
    played.feed({ kind: "follow", note: { job: "later" } });
    played.feed({ kind: "follow", note: { job: "late" } });
    expect(told()).toEqual([["late"], ["later"]]);
    expect(played.job().lane.sent).toBeUndefined();
    expect(played.job().followers.jobs).toEqual(["late", "later"]);
  });

  test("notes a thousand, says once that it notes no more, and takes no id that no job file could name", () => {
    const played = playJob();
    for (const job of ["", "a b", "x".repeat(201), 'say"', "\u0000".repeat(300), null])
      played.feed({ kind: "follow", note: { job } });
    expect(played.job().followers.jobs).toEqual([]);
    for (let at = 0; at < 1_002; at += 1)
      played.feed({ kind: "follow", note: { job: `f-${String(at)}` } });
    expect(played.job().followers.jobs).toHaveLength(1_000);
    expect(played.commands.filter(({ kind }) => kind === "refuse-followers")).toHaveLength(1);
  });

  test("takes followers after its last step too: its workflow tells them of its end", () => {
    const played = playJob();
    played.feed({ kind: "cancel" });
    played.deliver();
    expect(played.outcome()).toEqual({ kind: "cancelled" });
    played.feed({ kind: "follow", note: { job: "late" } });
    expect(played.job().followers.jobs).toEqual(["late"]);
  });
});
