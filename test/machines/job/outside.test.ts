import { describe, expect, test } from "vitest";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import { ms } from "../../../domain/values/units.ts";
import { answerCall } from "../../../machines/job/called-in.ts";
import type { JobEvent } from "../../../machines/job/job-state.ts";
import {
  CALLED_END_RULES,
  DURABLE_ORDER_RULES,
  EARLY_CALL_RULES,
  KEPT_CALL_RULES,
  UNASKED_CALL_RULES,
} from "../../../protocol/control-contract.ts";
import { failedBy, playJob, START_MS, type Play, type PlayedJob } from "./builders.ts";

const QUEUE_FULL: PendingReason = {
  code: "QueueFull",
  message: "the fleet has no place",
  numbers: { waiting: 3 },
  holders: [],
  wakeOn: ["earlier-job-started"],
};

const call = (seq: number, credit: number, round = 0): JobEvent => ({
  kind: "call-in",
  call: { seq, credit, round },
});

/** A job whose first request was put outside. */
function outside(play: Play = {}): PlayedJob {
  const job = playJob(play);
  job.feed({ kind: "pending", note: { seq: 1, reason: QUEUE_FULL } });
  return job;
}

describe("a job that is called in", () => {
  test("asks again with the credit, under the number and the time of its request", () => {
    const job = outside();
    job.feed(call(1, 7, 2));
    expect(job.open("tell")).toMatchObject([
      {
        entry: {
          kind: "request",
          request: {
            seq: 1,
            credit: 7,
            round: 2,
            requestedAtMs: START_MS,
            submittedAtMs: START_MS,
          },
        },
      },
    ]);
    expect(job.job().pending).toBeUndefined();
  });

  test("asks for each time that the call comes, with the same request: the fleet may have put it outside since", () => {
    const job = outside();
    job.feed(call(1, 7));
    job.deliver();
    job.feed(call(1, 7));
    job.deliver();
    const [first, second, ...more] = job.requests();
    expect(first).toMatchObject({ seq: 1, credit: 7 });
    expect(second).toEqual(first);
    expect(more).toEqual([]);
  });

  test("asks again after it gave way, and keeps its number", () => {
    const job = outside();
    job.feed(call(1, 7));
    job.deliver();
    job.feed({ kind: "pending", note: { seq: 1, reason: QUEUE_FULL } });
    job.feed(call(1, 9, 1));
    job.deliver();
    expect(job.requests().map(({ seq, credit, round }) => [seq, credit, round])).toEqual([
      [1, 7, undefined],
      [1, 9, 1],
    ]);
    job.feed(job.grant(1));
    expect(job.stage()).toBe("running");
  });

  test("before its file is read asks once it is read", () => {
    const job = playJob({ isEntering: true });
    job.feed(call(1, 7));
    expect(job.open("tell")).toEqual([]);
    const [admit] = job.open("admit");
    if (admit === undefined) throw new Error("the file is not being read");
    expect(job.job().call).toMatchObject({ credit: 7 });
  });
});

describe("a call that the job cannot follow goes back to the lobby", () => {
  const exit = { fleet: "eu", tenant: "default", jobId: "played", seq: 1, class: "training" };

  test.each([
    ["runs", (job: PlayedJob) => job.feed(job.grant(1))],
    [
      "is held",
      (job: PlayedJob) => {
        job.feed({ kind: "hold" });
        job.wait();
        job.deliver();
      },
    ],
  ])("when it %s", (_why, prepare) => {
    const job = playJob();
    prepare(job);
    job.feed(call(1, 7));
    expect(job.open("leave-lobby")).toMatchObject([{ exit }]);
  });

  test("but not one for a request that it has not made, as a reset tells it again: that one would not be listed; under rules 5 it did", () => {
    const held = playJob();
    held.feed({ kind: "hold" });
    held.wait();
    held.deliver();
    const asideUnder = (rules: number): unknown =>
      answerCall({ ...held.job(), rules, call: { seq: 5, credit: 7, round: 0 } }).state;
    const { call: _none, ...quiet } = { ...held.job(), rules: EARLY_CALL_RULES };
    expect(asideUnder(EARLY_CALL_RULES)).toEqual(quiet);
    expect(asideUnder(5)).not.toEqual({ ...quiet, rules: 5 });
  });

  test.each([
    { rules: KEPT_CALL_RULES, what: "it waits until the job asks" },
    {
      rules: KEPT_CALL_RULES - 1,
      what: "it was given back, and the lobby never listed the request",
    },
  ])("nor one that comes while it backs off from a run, under rules $rules: $what", ({ rules }) => {
    const job = playJob({ file: { retry: { attempts: 2, backoff: "7s" } } });
    job.feed(job.grant(1));
    job.ran(failedBy("PROCESS_EXITED"));
    job.deliver();
    expect(job.stage()).toBe("backing-off");
    const called = { ...job.job(), rules, call: { seq: 2, credit: 7, round: 0 } };
    const isKept = answerCall(called).state === called;
    expect(isKept).toBe(rules === KEPT_CALL_RULES);
    job.feed(call(2, 7));
    expect(job.open("leave-lobby")).toEqual([]);
    job.wait();
    job.deliver();
    job.deliver();
    expect(job.requests().map(({ seq, credit }) => [seq, credit])).toEqual([
      [2, undefined],
      [2, 7],
    ]);
  });

  test.each([
    ["waits for other jobs", { after: [{ job: "a" }] }],
    ["is held since its submission", { hold: true }],
  ])("nor one that a reset tells again while it %s: it would be barred", (_why, file) => {
    const job = playJob({ file });
    const called = { ...job.job(), call: { seq: 1, credit: 7, round: 0 } };
    const { call: _none, ...quiet } = called;
    expect(answerCall(called).state).toEqual(quiet);
    const former = { ...called, rules: UNASKED_CALL_RULES - 1 };
    expect(answerCall(former).state.lane.queue).toMatchObject([{ exit: { seq: 1 } }]);
  });

  test("but not junk", () => {
    const job = outside();
    for (const junk of [null, 3, { seq: 1 }, { seq: "1", credit: 2, round: 0 }])
      job.feed({ kind: "call-in", call: junk });
    expect(job.open("tell")).toEqual([]);
    expect(job.open("leave-lobby")).toEqual([]);
  });
});

describe("a job outside", () => {
  test("that is cancelled tells fleet and lobby", () => {
    const job = outside();
    job.feed({ kind: "cancel" });
    expect(job.open("tell")).toMatchObject([{ entry: { kind: "end", seq: 1 }, exit: { seq: 1 } }]);
    job.deliver();
    expect(job.outcome()).toEqual({ kind: "cancelled" });
  });

  test("that is held tells fleet and lobby, and asks under a new number when it is released", () => {
    const job = outside();
    job.feed({ kind: "hold" });
    job.wait();
    expect(job.open("tell")).toMatchObject([{ entry: { kind: "end", seq: 1 }, exit: { seq: 1 } }]);
    job.deliver();
    job.feed({ kind: "release" });
    job.deliver();
    expect(job.requests().at(-1)).toMatchObject({ seq: 2, submittedAtMs: START_MS });
  });

  test("ends at its deadline", () => {
    const job = outside({ spec: { deadlineMs: ms(60_000) } });
    expect(job.wait()).toBe(true);
    expect(job.now()).toBe(START_MS + 60_000);
    expect(job.open("tell")).toMatchObject([{ entry: { kind: "end" }, exit: { seq: 1 } }]);
  });

  test("measures its patience itself, from the time of its request, and asks the next fleet", () => {
    const cells = { fleets: ["eu", "us"], patienceMs: ms(300_000) };
    const job = outside({ spec: { cells } });
    expect(job.wait()).toBe(true);
    expect(job.now()).toBe(START_MS + 300_000);
    expect(job.open("tell")).toMatchObject([{ entry: { kind: "end", seq: 1 }, exit: { seq: 1 } }]);
    job.deliver();
    expect(job.open("until-forgotten")).toHaveLength(1);
  });

  test("counts its first patience from its submission, however late its first task ran, and any further one from its request", () => {
    const cells = { fleets: ["eu", "us"], patienceMs: ms(300_000) };
    const job = outside({ spec: { cells }, lateMs: 100_000 });
    expect(job.wait()).toBe(true);
    expect(job.now()).toBe(START_MS + 200_000);
    const tried = playJob({
      spec: { cells },
      lateMs: 400_000,
      file: { retry: { attempts: 2, backoff: "0s" } },
    });
    tried.feed(tried.grant(1));
    tried.ran(failedBy("PROCESS_EXITED"));
    tried.deliver();
    tried.wait();
    tried.deliver();
    expect(tried.requests().at(-1)).toMatchObject({ seq: 2, patienceMs: 300_000 });
  });

  test("with one fleet waits without any timer", () => {
    expect(outside().wait()).toBe(false);
  });

  test("answers a fleet that has lost its ledger with the request, without a credit", () => {
    const job = outside();
    job.feed({ kind: "assert" });
    const [tell] = job.open("tell");
    expect(tell?.entry).toMatchObject({ kind: "request", request: { seq: 1 } });
    expect(tell?.entry).not.toHaveProperty("request.credit");
  });
});

describe("a job that is held, or ends, in the moment of its call", () => {
  test.each([
    ["gives the credit back with its end", CALLED_END_RULES, true],
    ["kept it under former rules", CALLED_END_RULES - 1, false],
  ])("%s", (_what, rules, isGiven) => {
    const job = playJob({ rules });
    job.together({ kind: "cancel" }, call(1, 7));
    const [end] = job.open("tell");
    expect(end?.entry).toMatchObject({ kind: "end", seq: 1 });
    expect(end?.exit?.seq).toBe(isGiven ? 1 : undefined);
  });

  test("gives the credit back when it is over already, and tells those that follow it", () => {
    const job = playJob();
    job.feed({ kind: "cancel" });
    job.deliver();
    job.feed(call(1, 7));
    expect(job.stage()).toBe("over");
    expect(job.open("leave-lobby")).toMatchObject([{ exit: { seq: 1 } }]);
  });

  test("says that it leaves once its hold is durable", () => {
    const job = outside({ rules: DURABLE_ORDER_RULES });
    job.together({ kind: "hold" }, call(1, 7));
    expect(job.open("leave-lobby")).toEqual([]);
    expect(job.open("tell")).toEqual([]);
    job.wait();
    expect(job.open("tell")).toMatchObject([{ entry: { kind: "end", seq: 1 }, exit: { seq: 1 } }]);
  });

  test("said so at once under former rules", () => {
    const job = outside({ rules: DURABLE_ORDER_RULES - 1 });
    job.together({ kind: "hold" }, call(1, 7));
    expect(job.open("leave-lobby")).toHaveLength(1);
  });

  test.each([
    ["as long again after what a local activity answers", DURABLE_ORDER_RULES, 0],
    ["no longer under former rules", DURABLE_ORDER_RULES - 1, 1],
  ])("takes its request back %s", (_what, rules, ends) => {
    const job = playJob({ rules });
    job.feed({ kind: "assert", question: { leases: [] } });
    job.feed({ kind: "hold" });
    expect(job.stage()).toBe("holding");
    job.pass(1);
    job.deliverOne();
    expect(job.open("tell").filter(({ entry }) => entry.kind === "end")).toHaveLength(ends);
    job.wait();
    expect(job.open("tell")).toMatchObject([{ entry: { kind: "end", seq: 1 } }]);
  });
});
