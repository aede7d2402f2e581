/** @file Orders of people to a job: other settings, suspend, resume, requeue, and their races with grants and calls. */

import { describe, expect, test } from "vitest";
import type { JobChanges } from "../../../domain/job/amendment.ts";
import { tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { readJobAmendment } from "../../../machines/job/amended.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { requeueProblem, suspendProblem } from "../../../machines/job/paused.ts";
import { failedBy, noteOf, playJob, START_MS, type Play, type PlayedJob } from "./builders.ts";

const amend = (played: PlayedJob, changes: JobChanges, more: object = {}): void => {
  const basis = played.job().amended.count;
  played.feed({ kind: "amend", order: { by: "ada", changes, basis, ...more } });
};
const order = { by: "ada" };
const running = (play?: Play): PlayedJob => {
  const played = playJob(play);
  played.feed(played.grant(1));
  return played;
};
/** Its hosts have stopped the run that an order has ended. */
const stop = (played: PlayedJob): void => {
  played.stopped();
  played.ran({ end: "stopped" });
  played.deliver();
};

describe("a change of a waiting job", () => {
  test("replaces its request under the next number, with its old age and its old request time", () => {
    const played = playJob();
    amend(played, { priority: 7 });
    // The update has to be durable before the fleet hears of it.
    expect(played.open("tell")).toEqual([]);
    played.wait();
    played.deliver();
    expect(played.ends()).toEqual([]);
    expect(played.requests()).toMatchObject([
      { seq: 2, priority: 7, submittedAtMs: START_MS, requestedAtMs: START_MS },
    ]);
    expect(jobView(played.job())).toMatchObject({
      state: "pending",
      spec: { priority: 7 },
      amended: {
        count: 1,
        last: [{ by: "ada", changes: [{ setting: "priority", before: 0, after: 7 }] }],
      },
    });
  });

  test("makes a grant of the former request stale, which is given back", () => {
    const played = playJob();
    played.together(
      { kind: "amend", order: { by: "ada", changes: { priority: 7 }, basis: 0 } },
      played.grant(1),
    );
    played.deliver();
    expect(played.ends()).toEqual([1]);
    expect(played.stage()).toBe("waiting");
    played.wait();
    played.deliver();
    played.feed(played.grant(2));
    expect(played.open("run").map(({ order: run }) => run.leaseId)).toEqual(["lease-2"]);
  });

  test("that is on its way is told once that is delivered", () => {
    const played = running();
    played.ran(failedBy("PROCESS_EXITED"));
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "failed" });
    const asking = playJob({ file: { retry: { attempts: 2, backoff: "1s" } } });
    asking.feed(asking.grant(1));
    asking.ran(failedBy("PROCESS_EXITED"));
    asking.deliver();
    asking.wait();
    expect(asking.stage()).toBe("asking");
    amend(asking, { priority: 3 });
    asking.wait();
    asking.deliver();
    while (asking.stage() !== "waiting" || asking.requests().at(-1)?.seq !== 3) {
      if (!asking.wait()) break;
      asking.deliver();
    }
    expect(asking.requests().map(({ seq, priority }) => [seq, priority])).toEqual([
      [2, 0],
      [3, 3],
    ]);
  });

  test("that waits outside tells the lobby of its former tenant, and later calls of it, too", () => {
    const played = playJob();
    played.feed(noteOf(1, "QueueFull"));
    amend(played, { tenant: tenantId("vision") }, { proof: "signed" });
    played.wait();
    expect(played.open("tell")).toMatchObject([
      {
        entry: { kind: "request", request: { seq: 2, tenant: "vision" } },
        exit: { tenant: "default", seq: 1 },
      },
    ]);
    played.deliver();
    played.feed({ kind: "call-in", call: { seq: 1, credit: 7, round: 0 } });
    expect(played.open("leave-lobby")).toMatchObject([{ exit: { tenant: "default", seq: 1 } }]);
    expect(played.commands.filter(({ kind }) => kind === "proofs")).toEqual([
      { kind: "proofs", proofs: ["signed"] },
    ]);
    expect(played.commands).toContainEqual({ kind: "mark", mark: { tenant: "vision" } });
  });

  test("that is held asks with it when it is released", () => {
    const played = playJob({ file: { hold: true } });
    amend(played, { max: 1 });
    played.feed({ kind: "release" });
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 1, gang: { gpus: 1, min: 1 } }]);
  });

  test("is followed by a hold, a cancellation and an end that mean both requests", () => {
    const held = playJob();
    held.feed(noteOf(1, "QueueFull"));
    amend(held, { priority: 1 });
    held.feed({ kind: "hold" });
    held.wait();
    expect(held.open("tell")).toMatchObject([{ entry: { kind: "end", seq: 2 }, exit: { seq: 1 } }]);
    held.deliver();
    expect(jobView(held.job()).state).toBe("held");
    const cancelled = playJob();
    amend(cancelled, { priority: 1 });
    cancelled.feed({ kind: "cancel" });
    cancelled.deliver();
    expect([cancelled.ends(), cancelled.requests()]).toEqual([[2], []]);
    expect(cancelled.outcome()).toEqual({ kind: "cancelled" });
  });

  test("of nothing is no change", () => {
    const played = playJob();
    amend(played, { priority: 0 });
    expect([played.wait(), played.job().amended.count]).toEqual([false, 0]);
  });
});

describe("a change of a running job", () => {
  test("leaves the run as it is, and is what the next request says", () => {
    const played = running();
    amend(played, { priority: 7, max: 1, timeLimitMs: ms(9_000) });
    expect(played.open("tell")).toEqual([]);
    played.feed({ kind: "requeue", order });
    stop(played);
    expect(played.requests()).toMatchObject([
      { seq: 2, priority: 7, gang: { gpus: 1 }, timeLimitMs: 9_000, submittedAtMs: START_MS },
    ]);
  });

  test("of its deadline counts at once", () => {
    const played = running();
    amend(played, { deadlineMs: ms(1_000) });
    played.wait();
    expect(played.now()).toBe(START_MS + 1_000);
    stop(played);
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "DEADLINE_EXCEEDED" });
  });
});

describe("a change is refused", () => {
  const refusal = (played: PlayedJob, changes: unknown, more: object = {}): unknown => {
    const basis = played.job().amended.count;
    const asked = { by: "ada", changes, basis, ...more };
    const read = readJobAmendment(played.job(), asked, START_MS + 5_000);
    return "code" in read ? read.code : "allowed";
  };

  test.each([
    ["junk", playJob, undefined, {}, "BAD_INPUT"],
    ["without an author", playJob, { priority: 1 }, { by: 7 }, "BAD_INPUT"],
    ["an impossible gang", playJob, { min: 3 }, {}, "BAD_INPUT"],
    ["a deadline that has passed", playJob, { deadlineMs: 4_000 }, {}, "BAD_INPUT"],
    ["of a former state of the job", playJob, { priority: 1 }, { basis: 4 }, "NOT_ALLOWED"],
    ["the tenant of a run", running, { tenant: "vision" }, {}, "NOT_ALLOWED"],
    [
      "before the file is read",
      () => playJob({ isEntering: true }),
      { priority: 1 },
      {},
      "NOT_ALLOWED",
    ],
  ] as const)("%s", (_name, play, changes, more, want) => {
    expect(refusal(play(), changes, more)).toBe(want);
  });

  test("of the time limit that a grant's ticket names already, though its job has not begun to start", () => {
    const played = playJob();
    const changes = { timeLimitMs: 9_000 };
    played.together(played.grant(1), { kind: "amend", order: { by: "ada", changes, basis: 0 } });
    expect(played.job().amended.count).toBe(0);
    expect(played.job().spec?.timeLimitMs).toBeUndefined();
  });

  test("once the job is being ended", () => {
    const played = running();
    played.feed({ kind: "cancel" });
    expect(refusal(played, { priority: 1 })).toBe("NOT_ALLOWED");
  });
});

describe("suspend", () => {
  test("stops the run with a checkpoint and holds the job; resume asks again with its age", () => {
    const played = running({ file: { run: { command: ["x"], checkpoint: { signal: "USR1" } } } });
    played.feed({ kind: "suspend", order });
    expect(played.open("stop").map((command) => command.order)).toMatchObject([
      { isCheckpointFirst: true, reason: "suspended" },
    ]);
    stop(played);
    expect(played.requests()).toEqual([]);
    expect(jobView(played.job())).toMatchObject({
      state: "held",
      pause: { kind: "suspend", by: "ada" },
      attempts: [{ end: "stopped", givenUp: { kind: "suspend", by: "ada" } }],
    });
    played.feed({ kind: "release" });
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 2, submittedAtMs: START_MS }]);
    expect(jobView(played.job()).pause).toBeUndefined();
    played.feed(played.grant(2));
    played.ran({});
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed", result: { attempts: 2 } });
    const states = played.commands.flatMap((command) =>
      command.kind === "mark" ? [command.mark.state] : [],
    );
    expect(states).toEqual(["pending", "running", "held", "pending", "running", "completed"]);
  });

  test("counts the time limit on where the run stopped, and a requeue begins it anew", () => {
    const played = running({ file: { timeLimit: "10s" } });
    played.feed({ kind: "suspend", order });
    played.stopped();
    played.ran({ end: "stopped", startedAtMs: START_MS, endedAtMs: START_MS + 4_000 });
    played.deliver();
    played.feed({ kind: "release" });
    played.deliver();
    played.feed(played.grant(2));
    expect(played.open("run").map((command) => command.order)).toMatchObject([
      { timeLimitMs: 10_000, ranMs: 4_000 },
    ]);
    played.feed({ kind: "requeue", order });
    stop(played);
    played.feed(played.grant(3));
    expect(played.open("run")[0]?.order.ranMs).toBeUndefined();
  });

  test("of a waiting job is a hold", () => {
    const played = playJob();
    played.feed({ kind: "suspend", order });
    played.wait();
    played.deliver();
    expect(jobView(played.job())).toMatchObject({ state: "held", pause: { kind: "hold" } });
  });

  test("in the moment of the grant starts nothing", () => {
    const played = playJob();
    played.together(played.grant(1), { kind: "suspend", order });
    played.wait();
    played.deliver();
    expect([played.open("run"), played.ends()]).toEqual([[], [1]]);
    expect(jobView(played.job()).state).toBe("held");
  });

  test("of a run that completes in the same moment is forgotten", () => {
    const played = running();
    played.feed({ kind: "suspend", order });
    played.ran({});
    played.stopped();
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed" });
  });

  test("is overtaken by a release, a cancellation and a preemption", () => {
    const released = running();
    released.feed({ kind: "suspend", order });
    released.feed({ kind: "release" });
    stop(released);
    expect(released.requests()).toMatchObject([{ seq: 2 }]);
    const cancelled = running();
    cancelled.feed({ kind: "suspend", order });
    cancelled.feed({ kind: "cancel" });
    stop(cancelled);
    expect(cancelled.outcome()).toEqual({ kind: "cancelled" });
    expect(suspendProblem(cancelled.job())).toMatch(/is cancelled/);
  });
});

describe("requeue", () => {
  test("stops the run without a charge, as often as it is asked for, and asks again at once", () => {
    const played = running();
    for (let seq = 1; seq <= 12; seq += 1) {
      played.feed({ kind: "requeue", order });
      stop(played);
      expect(played.requests().at(-1)).toMatchObject({ seq: seq + 1, submittedAtMs: START_MS });
      played.feed(played.grant(seq + 1));
    }
    played.ran({});
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed", result: { attempts: 13 } });
  });

  test("is refused where nothing runs", () => {
    expect(requeueProblem(playJob().job())).toMatch(/only a running job/);
    expect(requeueProblem(running().job())).toBeUndefined();
  });
});
