/** @file The life of a job by its machine: entering, waiting, running, retries, holds, preemption, and every end. */
import { describe, expect, test } from "vitest";
import { parseHostId, type LeaseId } from "../../../domain/values/ids.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { stepJob } from "../../../machines/job/job.ts";
import { doesDeny } from "../../../protocol/job.ts";
import { holdProblem } from "../../../machines/job/paused.ts";
import { REFUSAL_REST_MS, restedAtMs } from "../../../machines/job/refused-hosts.ts";
import { RESTED_ANYWAY_RULES } from "../../../protocol/control-contract.ts";
import {
  failedBy,
  HOST,
  NO_FLEET,
  noteOf,
  playJob,
  preemptOrder,
  reasonOf,
  START_MS,
  type PlayedJob,
} from "./builders.ts";

const running = (play?: Parameters<typeof playJob>[0]): PlayedJob => {
  const played = playJob(play);
  played.feed(played.grant(1));
  return played;
};
const shown = ({ job }: PlayedJob): string => job().shown;
const marks = ({ commands }: PlayedJob) =>
  commands.flatMap((command) => (command.kind === "mark" ? [command.mark] : []));

test("grants to an array are kept while the job's file is being read, a hundred at most, and are junk afterwards", () => {
  const entering = playJob({ isEntering: true });
  for (let at = 0; at < 101; at += 1)
    entering.feed({ kind: "grants", offers: [entering.grant(1)] });
  expect(entering.job().earlyGrants).toHaveLength(100);
  const { job, feed } = playJob();
  const before = job().junkSignals;
  feed({ kind: "grants", offers: [] });
  expect([job().earlyGrants.length, job().junkSignals > before]).toEqual([0, true]);
});

/** A fleet may answer before the job has heard that its request came: a repair that asks then must not free the lease. */
test.each(["entering", "asking"] as const)(
  "a job that is %s does not deny a lease that it has in hand, nor while it runs there; afterwards it does",
  (stage) => {
    const lease = "lease-1" as LeaseId; // as the builder names it
    const played = playJob(
      stage === "entering" ? { isEntering: true } : { notified: { kind: "silent" } },
    );
    const denies = (): boolean => doesDeny(jobView(played.job()), lease);
    expect([played.stage(), denies()]).toEqual([stage, true]);
    played.feed(played.grant(1));
    expect([played.stage(), denies()]).toEqual([stage, false]);
    if (stage === "entering") return;
    played.deliver();
    expect([played.stage(), denies()]).toEqual(["running", false]);
    expect(doesDeny(jobView(played.job()), "lease-2" as LeaseId)).toBe(true); // another's
    expect(jobView(played.job()).grantedLease).toBeUndefined();
    played.ran({});
    expect(denies()).toBe(true);
  },
);

describe("a job that runs at once", () => {
  test("enters, runs, tells its fleet that it is over, and completes", () => {
    const played = running();
    expect(shown(played)).toBe("running");
    expect(played.open("run").map(({ order }) => order)).toMatchObject([
      { leaseId: "lease-1", attempt: 1, host: HOST, workflowRunId: "run-1" },
    ]);
    played.ran({ endedAtMs: START_MS + 5 });
    expect(played.outcome()).toBeUndefined();
    played.deliver();
    expect(played.told.map(({ entry }) => entry)).toMatchObject([
      { kind: "end", seq: 1, unconfirmedHosts: [] },
    ]);
    expect(played.outcome()).toMatchObject({
      kind: "completed",
      result: { attempts: 1, gpus: 2, hosts: [HOST], ranMs: 5 },
    });
    expect(marks(played)).toMatchObject([
      { state: "pending", fleet: "eu", gpus: 2 },
      { state: "running", clusters: ["alpha"] },
      { state: "completed" },
    ]);
  });

  test("does nothing more once it is over", () => {
    const played = running();
    played.ran({});
    played.deliver();
    const over = played.job();
    for (const event of [played.grant(1), noteOf(1, "WaitingForGpus"), { kind: "tick" } as const])
      expect(stepJob(over, event, 0)).toEqual({ state: over, commands: [] });
  });

  test("that is refused fails, and is listed under its home", () => {
    const played = playJob({ isEntering: true });
    played.feed({
      kind: "admission",
      admission: { kind: "refused", code: "MISCONFIGURED", message: "no command" },
    });
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "MISCONFIGURED" });
    expect(marks(played)).toEqual([{ state: "failed", fleet: "eu" }]);
  });
});

describe("a failed run", () => {
  test("is followed by another after the retry rule's pause, under the next number", () => {
    const played = running({ file: { retry: { attempts: 2, backoff: "7s" } } });
    played.ran(failedBy("PROCESS_EXITED"));
    played.deliver();
    expect([played.stage(), shown(played)]).toEqual(["backing-off", "pending"]);
    expect(played.wait()).toBe(true);
    expect(played.now()).toBe(START_MS + 7_000);
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 2, submittedAtMs: START_MS }]);
    played.feed(played.grant(2));
    played.ran(failedBy("PROCESS_EXITED"));
    played.deliver();
    expect(played.outcome()).toMatchObject({
      kind: "failed",
      code: "PROCESS_EXITED",
      details: { attempts: 2, host: HOST },
    });
  });

  test("is final when another would end the same", () => {
    const played = running({ file: { retry: { attempts: 5 } } });
    played.ran(failedBy("COMMAND_NOT_FOUND"));
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "COMMAND_NOT_FOUND" });
  });

  test("on a host that refused is not offered that host again, until no other is left", () => {
    const played = running();
    const [run] = played.open("run");
    const cause = { code: "HOST_REFUSED", message: "the disk is full", atMs: 0 } as const;
    played.feed({
      kind: "ran",
      id: run?.id ?? "",
      host: HOST,
      outcome: { kind: "failed", means: "never started", cause },
    });
    played.deliver();
    played.wait();
    played.deliver();
    expect(played.requests().at(-1)).toMatchObject({ seq: 2, avoidHosts: [HOST] });
    played.feed(noteOf(2, "NoMatchingFlavor"));
    played.deliver();
    expect(played.ends()).toEqual([1, 2]);
    expect(played.requests().at(-1)).toMatchObject({ seq: 3 });
    expect(played.requests().at(-1)).not.toHaveProperty("avoidHosts");
  });
});

test.each([
  { rules: RESTED_ANYWAY_RULES, want: true },
  { rules: RESTED_ANYWAY_RULES - 1, want: false },
])(
  "under rules $rules a refusal counts no more after ten minutes whatever was told last: $want",
  ({ rules, want }) => {
    const refused = { avoidHosts: [HOST], pending: reasonOf("QueueOnHold") };
    const atMs = restedAtMs(refused, { rules, askedAtMs: 1_000 });
    expect(atMs).toBe(want ? 1_000 + REFUSAL_REST_MS : Infinity);
  },
);

test("after ten minutes a refusal counts no more, and the job keeps its age; before that it does", () => {
  const played = running();
  const [run] = played.open("run");
  const cause = { code: "HOST_REFUSED", message: "the disk is full", atMs: 0 } as const;
  const outcome = { kind: "failed", means: "never started", cause } as const;
  played.feed({ kind: "ran", id: run?.id ?? "", host: HOST, outcome });
  played.deliver();
  played.wait();
  played.deliver();
  const askedAtMs = played.now();
  played.feed(noteOf(2, "WaitingForGpus"));
  expect(played.requests().at(-1)).toMatchObject({ seq: 2, avoidHosts: [HOST] });
  expect(played.wait()).toBe(true);
  expect(played.now()).toBe(askedAtMs + REFUSAL_REST_MS);
  played.deliver();
  expect(played.ends()).toEqual([1]);
  const [before, after] = played.requests().slice(-2);
  expect(after).toMatchObject({ seq: 3, requestedAtMs: before?.requestedAtMs });
  expect(after).not.toHaveProperty("avoidHosts");
});

describe("cancellation and deadline", () => {
  test("a grant and a cancellation of one moment start nothing, whichever comes first", () => {
    for (const isGrantFirst of [true, false]) {
      const played = playJob();
      const events = [played.grant(1), { kind: "cancel" } as const];
      played.together(...(isGrantFirst ? events : events.reverse()));
      played.deliver();
      expect(played.open("run")).toEqual([]);
      expect([played.ends(), played.outcome()]).toEqual([[1], { kind: "cancelled" }]);
    }
  });

  test("a run is stopped first, and the job is cancelled although it stopped cleanly", () => {
    const played = running();
    played.feed({ kind: "cancel" });
    expect(shown(played)).toBe("stopping");
    played.stopped();
    played.ran({ end: "stopped" });
    played.deliver();
    expect(played.outcome()).toEqual({ kind: "cancelled" });
    expect(marks(played).at(-1)).toEqual({ state: "cancelled" });
  });

  test("a run that completes while it is being cancelled has completed", () => {
    const played = running();
    played.feed({ kind: "cancel" });
    played.ran({});
    played.stopped();
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed" });
  });

  test.each(["waiting", "running"])("the deadline ends a job that is %s", (at) => {
    const played = playJob({ file: { deadline: "1m" } });
    if (at === "running") played.feed(played.grant(1));
    expect(played.wait()).toBe(true);
    expect(played.now()).toBe(START_MS + 60_000);
    if (at === "running") {
      played.stopped();
      played.ran({ end: "stopped" });
    }
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "DEADLINE_EXCEEDED" });
  });
});

describe("a hold", () => {
  test("takes the request back, but not in the moment in which it was ordered", () => {
    const played = playJob();
    played.feed({ kind: "hold" });
    expect(played.open("tell")).toEqual([]);
    played.wait();
    expect(played.now()).toBe(START_MS + 1);
    played.deliver();
    expect([played.ends(), shown(played), played.stage()]).toEqual([[1], "held", "held"]);
    played.feed({ kind: "release" });
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 2 }]);
  });

  test("gives back a grant that was on its way, and runs on a later one", () => {
    const played = playJob();
    played.feed({ kind: "hold" });
    played.wait();
    played.feed(played.grant(1));
    played.deliver();
    expect(played.ends()).toEqual([1, 1]);
    played.feed({ kind: "release" });
    played.deliver();
    played.feed(played.grant(2));
    played.feed(played.grant(2));
    expect(played.open("run").map(({ order }) => order.leaseId)).toEqual(["lease-2"]);
  });

  test("of the file asks no fleet until it is released, and a release before the file is read counts", () => {
    const held = playJob({ file: { hold: true } });
    expect([held.stage(), held.open("tell")]).toEqual(["held", []]);
    expect(marks(held).map(({ state }) => state)).toEqual(["held"]);
    held.feed({ kind: "release" });
    held.deliver();
    expect(held.requests()).toMatchObject([{ seq: 1 }]);
    expect(held.wait()).toBe(false);
  });

  test("is refused for a job that runs", () => {
    expect(holdProblem(playJob().job())).toBeUndefined();
    expect(holdProblem(running().job())).toMatch(/^job played is running/);
  });
});

describe("preemption", () => {
  test("stops the run, and the job asks again at once with its seniority and without a charge", () => {
    const played = running();
    for (let seq = 1; seq <= 12; seq += 1) {
      played.feed(preemptOrder(`lease-${seq}`));
      expect(shown(played)).toBe("stopping");
      played.stopped();
      played.ran({ end: "stopped" });
      played.deliver();
      expect(played.requests().at(-1)).toMatchObject({ seq: seq + 1, submittedAtMs: START_MS });
      played.feed(played.grant(seq + 1));
    }
    played.ran({});
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed", result: { attempts: 13 } });
    expect(jobView(played.job()).attempts[0]).toMatchObject({
      end: "stopped",
      preempted: { forJob: "other" },
    });
  });

  test("under a fleet's limits protects the job for the cool-down, and after the last time for good; growth counts for nothing", () => {
    const limits = { most: 2, coolDownMs: 1_800_000 };
    const played = running();
    const rules = ["other", "played", "other", "other"].map((forJob, at) => {
      const seq = at + 1;
      played.feed(preemptOrder(`lease-${seq}`, { forJob, limits }));
      played.stopped();
      played.ran({ end: "stopped" });
      played.deliver();
      played.feed(played.grant(seq + 1));
      return played.requests().at(-1)?.preemption;
    });
    const after = (isPreemptible: boolean) => ({
      isPreemptible,
      mayShrink: false,
      minRuntimeMs: 1_800_000,
    });
    expect(rules).toEqual([after(true), after(true), after(false), after(false)]);
    played.feed(preemptOrder("lease-5"));
    played.stopped();
    played.ran({ end: "stopped" });
    played.deliver();
    expect(played.requests().at(-1)).not.toHaveProperty("preemption");
  });

  test("in the moment of the grant starts nothing", () => {
    const played = playJob();
    played.together(played.grant(1), preemptOrder("lease-1"));
    played.deliver();
    expect(played.open("run")).toEqual([]);
    expect([played.ends(), played.requests().length]).toEqual([[1], 1]);
  });

  test("that leaves a part makes the job accept less at once", () => {
    const played = running({ file: { gang: { gpus: 2, min: 1 } } });
    played.feed(preemptOrder("lease-1", { keep: [{ host: HOST, mask: 0b1 }] }));
    played.stopped();
    played.ran({ end: "stopped" });
    played.deliver();
    expect(played.requests().at(-1)).toMatchObject({ gang: { gpus: 2, min: 1, timeoutMs: 0 } });
    expect(jobView(played.job()).attempts[0]?.preempted?.keptGpus).toBe(1);
  });

  test("of a run that completes in the same moment is forgotten", () => {
    const played = running();
    played.feed(preemptOrder("lease-1"));
    played.ran({});
    played.stopped();
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed" });
    expect(jobView(played.job()).attempts[0]?.preempted).toBeUndefined();
  });

  test("of another lease, or by junk, changes nothing", () => {
    const played = running();
    const junkLimits = { lease: "lease-1", forJob: "o", reason: "r", limits: { most: "2" } };
    for (const order of [undefined, { lease: "lease-1" }, 7, junkLimits])
      played.feed({ kind: "preempt", order });
    played.feed(preemptOrder("lease-7"));
    expect(played.open("stop")).toEqual([]);
  });
});

describe("junk instead of signals", () => {
  test.each([undefined, null, 7, "grant", {}, { seq: 1 }, { seq: 1, lease: {}, agents: [] }])(
    "%j changes nothing",
    (junk) => {
      const played = playJob();
      played.feed({ kind: "grant", offer: junk });
      played.feed({ kind: "pending", note: junk });
      played.feed({ kind: "fenced", loss: junk });
      expect([played.stage(), played.open("tell")]).toEqual(["waiting", []]);
    },
  );

  test("is counted and shown, whatever its name; an honest word is not", () => {
    const played = playJob();
    expect(jobView(played.job()).junkSignals).toBeUndefined();
    for (const junk of [undefined, 7, { lease: 1 }]) {
      played.feed({ kind: "grant", offer: junk });
      played.feed({ kind: "pending", note: junk });
      played.feed({ kind: "preempt", order: junk });
      played.feed({ kind: "fenced", loss: junk });
      played.feed({ kind: "call-in", call: junk });
      played.feed({ kind: "junk" });
    }
    played.feed(played.grant(1));
    expect(jobView(played.job())).toMatchObject({ junkSignals: 18, state: "running" });
  });
});

describe("launch extras", () => {
  const extras = { env: { A: "1" }, files: [], notes: [] };

  test("are made before the start and go to the hosts", () => {
    const played = running({ extras: ["plan"] });
    const [make] = played.open("make-extras");
    expect(make?.order).toMatchObject({ attempt: 1, parts: ["plan"] });
    expect(played.open("run")).toEqual([]);
    played.feed({ kind: "extras", id: make?.id ?? 0, report: extras });
    expect(played.open("run")[0]?.order.launchExtras).toEqual({ env: { A: "1" }, files: [] });
  });

  test("may name the host on which ranks begin", () => {
    const hosts = ["alpha/a1", "alpha/a2"].map(parseHostId);
    const played = playJob({ extras: ["plan"] });
    played.feed(played.grant(1, { gpus: hosts.map((host) => ({ host, mask: 0b11 })) }));
    const [make] = played.open("make-extras");
    expect(make?.order.mayLead).toBe(true);
    const report = { ...extras, ...(hosts[1] !== undefined && { leadHost: hosts[1] }) };
    played.feed({ kind: "extras", id: make?.id ?? 0, report });
    const led = [...hosts].reverse();
    for (const { order } of played.open("run"))
      expect(order.gang.map(({ host }) => host)).toEqual(led);
    const [attempt] = jobView(played.job()).attempts;
    expect(attempt?.gpus.map(({ host, ranks }) => [host, ranks])).toEqual([
      [led[0], [0, 1]],
      [led[1], [2, 3]],
    ]);
  });

  test("that nobody made in time cost a note and not the run", () => {
    const played = running({ extras: ["plan"] });
    played.feed({ kind: "extras", id: played.open("make-extras")[0]?.id ?? 0, report: null });
    expect(played.open("run")).toHaveLength(1);
    expect(jobView(played.job()).attempts[0]?.launchExtras).toMatchObject([{ kind: "fallback" }]);
  });

  test("are given up when the job is cancelled meanwhile, and nothing starts", () => {
    const played = running({ extras: ["plan"] });
    const id = played.open("make-extras")[0]?.id ?? 0;
    played.feed({ kind: "cancel" });
    expect(played.open("cancel-extras")).toEqual([{ kind: "cancel-extras", id }]);
    played.feed({ kind: "extras", id, report: extras });
    played.deliver();
    expect([played.open("run"), played.outcome()]).toEqual([[], { kind: "cancelled" }]);
  });
});

describe("without a fleet", () => {
  test("the job says so, pauses longer each time, and asks again", () => {
    const played = playJob({ notified: NO_FLEET });
    expect(jobView(played.job()).pending?.code).toBe("NoFleet");
    const pauses = [0, 1, 2].map(() => {
      const before = played.now();
      played.wait();
      played.deliver(NO_FLEET);
      return played.now() - before;
    });
    expect(pauses).toEqual([5_000, 10_000, 20_000]);
    expect(played.requests().every(({ seq }) => seq === 1)).toBe(true);
  });

  test("a fleet that is back and asks gets the request, and its grant is taken", () => {
    const played = playJob({ notified: NO_FLEET });
    played.feed({ kind: "assert" });
    played.deliver();
    expect(played.requests()).toMatchObject([{ seq: 1 }]);
    played.feed(played.grant(1));
    expect(played.stage()).toBe("running");
  });
});

test("a grant for the next request, which a lost task had made, is kept until the job comes to it, and nothing is asked again", () => {
  const played = running({ file: { retry: { attempts: 2, backoff: "7s" } } });
  played.ran(failedBy("PROCESS_EXITED"));
  played.feed(played.grant(2));
  expect(played.stage()).toBe("settling");
  played.deliver();
  expect(played.stage()).toBe("backing-off");
  expect(played.wait()).toBe(true);
  played.deliver();
  expect(played.stage()).toBe("running");
  expect(played.requests().filter(({ seq }) => seq === 2)).toEqual([]);
});

test("a host of another lease that is fenced is no loss; one of its own ends its part", () => {
  const played = running();
  const lost = (lease: string) => ({ kind: "fenced", loss: { lease, hosts: [HOST] } }) as const;
  played.feed(lost("lease-7"));
  expect(played.stage()).toBe("running");
  played.feed({
    kind: "fenced",
    loss: { lease: "lease-1", hosts: [parseHostId("alpha/a9")] },
  });
  expect(played.stage()).toBe("running");
  played.feed(lost("lease-1"));
  expect(played.stage()).toBe("settling");
  // The ledger knows whether the fence still counts: the host may have come back since.
  expect(played.commands.at(-1)).toMatchObject({
    kind: "tell",
    entry: { unconfirmedHosts: [HOST] },
  });
});
