/** @file One run of a gang by its machine: starts, failures, silence, stops, fences, and what its end says. */
import { describe, expect, test } from "vitest";
import type { HostId } from "../../../domain/values/ids.ts";
import { reportOf } from "../job/builders.ts";
import { hostsOf, playGang, type PlayedGang } from "./builders.ts";

const HOSTS = hostsOf(3);
const runsOn = (played: PlayedGang) => played.open("run").map(({ host }) => host);
const stopsOn = (played: PlayedGang) => played.open("stop").map(({ host }) => host);

describe("a gang", () => {
  test("starts on all hosts at once and completes when all have", () => {
    const played = playGang({ hosts: 2 });
    expect(runsOn(played)).toEqual(HOSTS.slice(0, 2));
    expect(played.open("run").map(({ summary }) => summary)).toEqual([
      "alpha/a1: 1 of 2 GPUs, ranks 0 to 0",
      "alpha/a2: 1 of 2 GPUs, ranks 1 to 1",
    ]);
    played.ran(0);
    expect(played.gang().end).toBeUndefined();
    played.ran(1, { checkpoint: { path: "/c/1", atMs: 7 } });
    expect(played.gang().end).toMatchObject({
      end: "completed",
      unconfirmedHosts: [],
      checkpoint: { path: "/c/1" },
    });
    expect(played.open("stop")).toEqual([]);
  });

  test("takes its times from the job's description and the host's silence", () => {
    const file = { timeLimit: "1h", run: { command: ["true"], grace: "10s" } };
    const [run] = playGang({ hosts: 1, file }).open("run");
    expect(run?.timeouts).toEqual({
      scheduleToStartMs: 60_000,
      startToCloseMs: 3_600_000 + 120_000 + 20_000,
      heartbeatMs: 60_000,
    });
  });

  test("waits for an agent that the grant does not name, longer each time, and then starts", () => {
    const played = playGang({ hosts: 2, located: 1 });
    expect([runsOn(played), played.open("find-host").length]).toEqual([[], 1]);
    played.found(1, null);
    const before = played.now();
    played.wait();
    played.found(1, null);
    const between = played.now();
    played.wait();
    expect([between - before, played.now() - between]).toEqual([2_000, 4_000]);
    played.found(1, "2");
    expect(played.open("run").map(({ agent }) => agent.epoch)).toEqual(["1", "2"]);
  });

  test.each([
    { kind: "stop", reason: "cancelled" },
    { kind: "fenced", hosts: HOSTS },
  ] as const)(
    "that still looks for an agent is called off by %j, and nothing was started",
    (event) => {
      const played = playGang({ hosts: 1, located: 0 });
      played.feed(event);
      expect(played.gang().end).toBeUndefined();
      played.found(0, "2");
      expect(played.gang().end).toMatchObject({ end: "stopped", unconfirmedHosts: [] });
      expect(played.commands.map(({ kind }) => kind)).toEqual(["find-host"]);
    },
  );
});

describe("a kill", () => {
  const file = { run: { command: ["true"], grace: "1h", checkpoint: { signal: "USR1" } } };

  test("without a reason to stop changes nothing", () => {
    const played = playGang({ hosts: 2, file });
    played.feed({ kind: "kill" });
    expect(played.open("stop")).toEqual([]);
  });

  test("asks for no checkpoint and no grace", () => {
    const played = playGang({ hosts: 1, file });
    played.feed({ kind: "kill" });
    played.feed({ kind: "stop", reason: "cancelled" });
    expect(played.open("stop").map(({ order }) => order)).toMatchObject([
      { isCheckpointFirst: false, isKill: true, reason: "cancelled" },
    ]);
  });

  test("overtakes a graceful stop, once, and the end waits for its own answers alone", () => {
    const played = playGang({ hosts: 2, file });
    played.feed({ kind: "stop", reason: "cancelled" });
    expect(played.open("stop").map(({ order }) => order.isKill)).toEqual([undefined, undefined]);
    played.feed({ kind: "kill" });
    played.feed({ kind: "kill" });
    expect(played.open("stop").map(({ order }) => order.isKill)).toEqual([
      undefined,
      undefined,
      true,
      true,
    ]);
    for (const at of [0, 1]) played.ran(at, { end: "stopped" });
    // The graceful orders, which were overtaken.
    for (const at of [0, 1]) played.stopped(at);
    expect(played.gang().end).toBeUndefined();
    for (const at of [0, 1]) played.stopped(at);
    expect(played.gang().end).toMatchObject({ end: "stopped", unconfirmedHosts: [] });
  });

  test("stays a kill when the order has to be repeated", () => {
    const played = playGang({ hosts: 1, file });
    played.feed({ kind: "stop", reason: "cancelled" });
    played.feed({ kind: "kill" });
    const [, killing] = played.open("stop");
    played.notStopped(0);
    expect(played.open("find-host")).toEqual([]);
    played.notStopped(0);
    played.found(0, "2");
    expect(killing?.order.isKill).toBe(true);
    expect(played.open("stop").at(-1)?.order).toMatchObject({ isKill: true });
  });
});

describe("a failure", () => {
  test("of one host stops the others, and the earliest cause is the gang's", () => {
    const played = playGang({ hosts: 3 });
    const cause = (message: string, atMs: number) =>
      ({ end: "failed", cause: { code: "PROCESS_EXITED", message, atMs } }) as const;
    played.ran(1, cause("second", 20));
    expect(stopsOn(played)).toEqual([HOSTS[0], HOSTS[2]]);
    expect(played.open("stop")[0]?.order.reason).toBe("another host of the gang failed");
    played.ran(0, cause("first", 10));
    played.stopped(0);
    played.stopped(2);
    played.ran(2, { end: "stopped" });
    expect(played.gang().end).toMatchObject({
      end: "failed",
      cause: { message: "first", host: HOSTS[0] },
      unconfirmedHosts: [],
    });
  });

  test("of a host that refused names it, and nothing runs there", () => {
    const played = playGang({ hosts: 1 });
    played.failed(0, "never started");
    expect(played.gang().end).toMatchObject({
      end: "failed",
      cause: { code: "HOST_REFUSED" },
      unconfirmedHosts: [],
    });
  });

  test.each([
    { name: "confirms", answer: (played: PlayedGang) => played.stopped(0), want: [] },
    {
      name: "does not confirm",
      answer: (played: PlayedGang) => {
        for (const _attempt of [1, 2]) {
          played.notStopped(0);
          played.found(0, null);
        }
        played.notStopped(0);
      },
      want: [HOSTS[0]],
    },
  ])("of an agent is followed by an order to stop, which the host $name", ({ answer, want }) => {
    const played = playGang({ hosts: 1 });
    played.failed(0, "broken");
    expect(played.gang().end).toBeUndefined();
    answer(played);
    expect(played.gang().end).toMatchObject({ end: "failed", unconfirmedHosts: want });
    expect(played.open("find-host")).toEqual([]);
  });

  test("of one task in a batch of many stops nothing; alone in its batch it stops the other hosts", () => {
    const failed = { tasks: [{ task: 0, end: "failed" }] } as const;
    const batch = { seq: 1, tasks: [0], slots: 1, gpusPerTask: 2, count: 9 };
    const alone = playGang({ hosts: 2, taskBatch: batch });
    alone.ran(0, failed);
    expect(stopsOn(alone)).toEqual([HOSTS[1]]);
    const many = playGang({ hosts: 1, taskBatch: { ...batch, tasks: [0, 1] } });
    many.ran(0, { tasks: [...failed.tasks, { task: 1, end: "completed" }] });
    expect(many.gang().end).toMatchObject({ end: "completed" });
  });
});

describe("a broken GPU", () => {
  const file = { run: { command: ["true"], checkpoint: { signal: "USR1" } } };
  const hearsOfFaults = true;

  test("is heard by gangs over several hosts that write checkpoints, and by no others", () => {
    const heard = (setup: Parameters<typeof playGang>[0]) =>
      playGang(setup)
        .open("run")
        .map(({ order }) => order.hearsOfFaults);
    expect(heard({ hosts: 2, file, hearsOfFaults })).toEqual([true, true]);
    expect(heard({ hosts: 2, file })).toEqual([undefined, undefined]);
    expect(heard({ hosts: 1, file, hearsOfFaults })).toEqual([undefined]);
    expect(heard({ hosts: 2, hearsOfFaults })).toEqual([undefined, undefined]);
  });

  test("has all hosts write a checkpoint and stop, and the host is lost to the run", () => {
    const played = playGang({ hosts: 3, file, hearsOfFaults });
    played.failed(1, "faulty");
    expect(stopsOn(played)).toEqual(HOSTS);
    const wanted = { isCheckpointFirst: true, reason: "faulty" };
    expect(played.open("stop").map(({ order }) => order)).toMatchObject([wanted, wanted, wanted]);
    const cause = { code: "HOST_LOST", message: "GPU 3", atMs: 5 } as const;
    const report = reportOf(HOSTS[1] as HostId, 9, { end: "failed", cause });
    for (const at of [0, 2]) played.ran(at, { end: "stopped" });
    for (const at of [0, 2]) played.stopped(at, { checkpoint: { path: `/c/${at}`, atMs: at } });
    expect(played.gang().end).toBeUndefined();
    played.stopped(1, { report });
    expect(played.gang().end).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", message: "GPU 3", host: HOSTS[1] },
      checkpoint: { path: "/c/2" },
      unconfirmedHosts: [],
    });
  });

  test("of a host that confirms nothing leaves it unconfirmed; of one that knows of no run, what it said first counts", () => {
    const played = playGang({ hosts: 2, file, hearsOfFaults });
    played.failed(0, "faulty");
    played.failed(1, "faulty");
    played.stopped(1);
    for (const _attempt of [1, 2]) {
      played.notStopped(0);
      played.found(0, null);
    }
    played.notStopped(0);
    expect(played.gang().end).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", host: HOSTS[1] },
      unconfirmedHosts: [HOSTS[0]],
    });
  });

  test("under a run that completes meanwhile changes nothing in its end", () => {
    const played = playGang({ hosts: 2, file, hearsOfFaults });
    played.failed(0, "faulty");
    played.ran(1);
    played.stopped(1);
    played.stopped(0, { report: reportOf(HOSTS[0] as HostId, 9) });
    expect(played.gang().end).toMatchObject({ end: "completed" });
  });
});

describe("silence", () => {
  test("proves nothing: the host is asked again, at its new address, to adopt the same lease", () => {
    const played = playGang({ hosts: 1 });
    const [first] = played.open("run");
    played.failed(0, "silent");
    expect(played.gang().end).toBeUndefined();
    played.wait();
    played.found(0, "2");
    const [again] = played.open("run");
    expect(again?.agent.epoch).toBe("2");
    expect(again?.order).toEqual(first?.order);
    played.ran(0);
    expect(played.gang().end).toMatchObject({ end: "completed" });
    expect([...played.gang().agents.values()].map(({ epoch }) => epoch)).toEqual(["2"]);
  });

  test("of a host whose lease is gone ends its part as a fence does, and the others are stopped", () => {
    const played = playGang({ hosts: 2, isLeaseAsked: true });
    played.failed(0, "silent");
    played.wait();
    expect(played.open("find-host")).toMatchObject([{ lease: played.gang().input.grant.lease.id }]);
    played.foundNoLease(0);
    expect(stopsOn(played)).toEqual([HOSTS[1]]);
    played.ran(1, { end: "stopped" });
    played.stopped(1);
    expect(played.gang().end).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", host: HOSTS[0] },
      unconfirmedHosts: [HOSTS[0]],
    });
  });

  test("of a host whose lease is gone ends an order to stop it, and calls off what has not started", () => {
    const stopping = playGang({ hosts: 1, isLeaseAsked: true });
    stopping.failed(0, "silent");
    stopping.feed({ kind: "stop", reason: "cancelled" });
    stopping.notStopped(0);
    stopping.foundNoLease(0);
    expect(stopping.gang().end).toMatchObject({ unconfirmedHosts: [HOSTS[0]] });
    const locating = playGang({ hosts: 1, located: 0, isLeaseAsked: true });
    locating.foundNoLease(0);
    expect(locating.gang().end).toMatchObject({ end: "stopped", unconfirmedHosts: [] });
  });

  test("under former rules is no reason to ask about the lease", () => {
    const played = playGang({ hosts: 1, located: 0 });
    expect(played.open("find-host").map((find) => "lease" in find)).toEqual([false]);
  });

  test("grows up to five minutes between two questions", () => {
    const played = playGang({ hosts: 1 });
    const pauses = Array.from({ length: 9 }, () => {
      played.failed(0, "silent");
      const before = played.now();
      played.wait();
      played.found(0, null);
      return played.now() - before;
    });
    expect(pauses.slice(0, 3)).toEqual([2_000, 4_000, 8_000]);
    expect(pauses.at(-1)).toBe(300_000);
  });

  test("of a host leaves it unconfirmed when the gang is stopped, unless the host answers the order", () => {
    for (const isAnswered of [true, false]) {
      const played = playGang({ hosts: 1 });
      played.failed(0, "silent");
      played.feed({ kind: "stop", reason: "cancelled" });
      if (isAnswered) played.stopped(0);
      else
        for (const attempt of [1, 2, 3]) {
          played.notStopped(0);
          if (attempt < 3) played.found(0, null);
        }
      expect(played.gang().end?.unconfirmedHosts).toEqual(isAnswered ? [] : [HOSTS[0]]);
    }
  });

  test("of an agent that died does not hide how the run ended when the host knows", () => {
    const played = playGang({ hosts: 1 });
    played.failed(0, "silent");
    played.feed({ kind: "stop", reason: "deadline" });
    const report = { host: HOSTS[0], hasStarted: true, endedAtMs: 9, ranks: [], end: "completed" };
    played.stopped(0, { report });
    expect(played.gang().end).toMatchObject({ end: "completed", unconfirmedHosts: [] });
  });
});

describe("a stop", () => {
  test("asks each host, then cancels the runs that are still watched", () => {
    const played = playGang({ hosts: 2 });
    const order = { seq: 1, lease: "lease-1", forJob: "other", reason: "due", graceMs: 1 } as never;
    played.feed({ kind: "preempt", order });
    expect(played.gang().isStopping).toBe(true);
    expect(played.open("stop")[0]?.order.reason).toBe("preempted for other");
    played.stopped(0);
    expect(played.commands.at(-1)?.kind).toBe("stop");
    played.stopped(1);
    expect(played.commands.at(-1)).toMatchObject({
      kind: "stop-watching",
      ids: played.open("run").map(({ id }) => id),
    });
    played.cancelled(0);
    played.ran(1, { end: "stopped" });
    expect(played.gang().end).toMatchObject({ end: "stopped", unconfirmedHosts: [] });
  });

  test("is ordered once, whatever else happens", () => {
    const played = playGang({ hosts: 2 });
    played.feed({ kind: "stop", reason: "cancelled" });
    played.feed({ kind: "stop", reason: "deadline" });
    played.ran(0, { end: "failed", cause: { code: "PROCESS_EXITED", message: "", atMs: 0 } });
    expect(played.commands.filter(({ kind }) => kind === "stop")).toHaveLength(2);
    expect(played.open("stop")[0]?.order.reason).toBe("cancelled");
  });
});

describe("a fence", () => {
  test("ends the part of a silent host and stops the others; whether it still counts is for the ledger to say", () => {
    const played = playGang({ hosts: 2 });
    played.failed(0, "silent");
    played.feed({ kind: "fenced", hosts: HOSTS.slice(0, 1) });
    expect(stopsOn(played)).toEqual([HOSTS[1]]);
    played.stopped(1);
    played.ran(1, { end: "stopped" });
    expect(played.gang().end).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", host: HOSTS[0] },
      unconfirmedHosts: HOSTS.slice(0, 1),
    });
  });

  test("does not wait for the activity that still watches the host, and cancels it", () => {
    const played = playGang({ hosts: 1 });
    const [run] = played.open("run");
    played.feed({ kind: "fenced", hosts: HOSTS });
    expect(played.gang().end).toMatchObject({ end: "failed", cause: { code: "HOST_LOST" } });
    expect(played.commands.at(-1)).toEqual({ kind: "stop-watching", ids: [run?.id] });
  });

  test("of a host that is being stopped is not waited for, and confirms nothing", () => {
    const played = playGang({ hosts: 1 });
    played.feed({ kind: "stop", reason: "cancelled" });
    played.feed({ kind: "fenced", hosts: HOSTS });
    expect(played.gang().end).toMatchObject({ unconfirmedHosts: HOSTS.slice(0, 1) });
  });
});
