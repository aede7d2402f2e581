/** @file The fleet's machine without a server: cycles, what waits for their end, deliveries, audits, recoveries, orders, the next run. */

import { describe, expect, it } from "vitest";
import { hostId, jobId, leaseId, runId, token } from "../../../domain/values/ids.ts";
import { allWaiting, NOTHING_WAITS } from "../../../lib/fair-queue.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { Tick } from "../../../machines/machine.ts";
import type { DeliveryReport } from "../../../protocol/control-contract.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import {
  NEWEST_RULES,
  OLDEST_RULES,
  QUIET_REPORT_RULES,
} from "../../../scheduling/ledger/ledger.ts";
import { OWN_TASK_RULES } from "../../../scheduling/ledger/upgrade.ts";
import { play, type Played } from "../harness.ts";
import {
  ask,
  end,
  fleetShape,
  gpus,
  grantItem,
  hello,
  hostNames,
  planOf,
  readyLedger,
} from "../../scheduling/builders.ts";

type Fleet = Played<FleetState, FleetEvent, FleetCommand>;

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const HOST = hostId("c0", "h0");
const LEASE = leaseId(token(1));
const NOTHING = planOf([]);
const GRANT_A = planOf([grantItem("a", gpus(["c0/h0", 0xf]))]);

/** A turn, if one is due at once, and the end of a run. */
const settle = (fleet: Fleet): void => {
  if (fleetMachine.dueAtMs(fleet.state()) <= 0) fleet.feed({ kind: "tick" });
  if (fleet.state().isEnding) fleet.tick();
};
const feed = (fleet: Fleet, event: FleetEvent | Tick, nowMs?: number): void => {
  fleet.feed(event, nowMs);
  settle(fleet);
};

/** A fleet whose first turn is over, at time 0; its run is old enough to end for an order. */
function started(more: Partial<FleetInput> = {}): Fleet {
  const input = { name: "eu", ledger: packLedger(readyLedger(SHAPE)), ...more };
  const fleet = play(fleetMachine, { state: openFleet(input, -2_000, 0), commands: [] });
  settle(fleet);
  return fleet;
}

const kinds = (fleet: Fleet): readonly string[] =>
  fleet.open.filter(({ kind }) => kind !== "record").map(({ kind }) => kind);

/** Entries come in, and their cycle ends with a plan. */
function decided(fleet: Fleet, entries: readonly unknown[], plan = NOTHING): void {
  feed(fleet, { kind: "inbox", batch: entries });
  feed(fleet, { kind: "decided", id: fleet.take("decide").id, plan });
}

/** Job a holds half of h0. */
function holding(more: Partial<FleetInput> = {}): Fleet {
  const fleet = started(more);
  decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
  const { id } = fleet.take("deliver");
  feed(fleet, { kind: "delivered", id, report: { accepted: [LEASE], gone: [] } });
  return fleet;
}

describe("a cycle", () => {
  it("folds all that came together as one inbox and decides once", () => {
    const fleet = started();
    fleet.feed({ kind: "inbox", batch: [ask({ job: "a" })] });
    fleet.feed({ kind: "inbox", batch: [ask({ job: "b" })] });
    settle(fleet);
    expect(kinds(fleet)).toEqual(["decide"]);
    expect([...fleet.state().ledger.requests.keys()]).toEqual(["a", "b"]);
  });

  it("applies its plan for the time of its start and posts the grants at once", () => {
    const fleet = started();
    feed(fleet, { kind: "inbox", batch: [ask({ job: "a", gpus: 4 })] }, 5_000);
    const decide = fleet.take("decide");
    expect(decide.nowMs).toBe(5_000);
    feed(fleet, { kind: "decided", id: decide.id, plan: GRANT_A }, 6_000);
    expect(fleet.state().ledger.leases.get(LEASE)?.grantedAtMs).toBe(5_000);
    const { grants } = fleet.take("deliver").post;
    expect(grants.map(({ lease, agents }) => [lease.id, agents.length])).toEqual([[LEASE, 1]]);
    expect(grants[0]?.lease).not.toHaveProperty("terms");
  });

  it("waits for no clock and takes no turn while the plan is in the making", () => {
    const fleet = started();
    feed(fleet, { kind: "inbox", batch: [ask({ job: "a" })] });
    expect(fleetMachine.dueAtMs(fleet.state())).toBe(Infinity);
    const before = fleet.state();
    fleet.feed({ kind: "tick" }, 90_000);
    expect(fleet.state()).toBe(before);
  });

  it("defers reports and orders until the plan has been applied and posted, and then keeps their order", () => {
    const fleet = holding();
    feed(fleet, { kind: "inbox", batch: [ask({ job: "b", gpus: 8 })] });
    const { id } = fleet.take("decide");
    const { ledger } = fleet.state();
    feed(fleet, { kind: "order", order: { kind: "drain", hosts: [HOST], reason: "fan" } });
    feed(fleet, { kind: "inbox", batch: [ask({ job: "c" })] });
    feed(fleet, { kind: "order", order: { kind: "undrain", hosts: [HOST] } });
    expect(fleet.state().ledger).toBe(ledger);
    fleet.open.length = 0;
    fleet.feed({
      kind: "decided",
      id,
      plan: planOf([grantItem("b", gpus(["c0/h1", 0xff]))]),
    });
    expect(
      fleet.open.map((each) => (each.kind === "record" ? each.event.kind : each.kind)),
    ).toEqual(["plan", "deliver", "drain", "undrain"]);
    expect(fleet.state().inbox.batches.size).toBe(1);
  });

  it("ignores a plan that no cycle waits for", () => {
    const fleet = started();
    const before = fleet.state();
    fleet.feed({ kind: "decided", id: 7, plan: NOTHING });
    expect(fleet.state()).toBe(before);
  });

  it("comes again after a second when the ledger refused a part of the plan", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a" })], planOf([grantItem("stranger", gpus(["c0/h0", 1]))]));
    expect(fleet.tick()).toBe(1_000);
    expect(kinds(fleet)).toEqual(["decide"]);
  });

  it("comes at the time that the plan names", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a" })], { ...NOTHING, wakeAtMs: 700 });
    expect(fleet.tick()).toBe(700);
    expect(kinds(fleet)).toEqual(["decide"]);
  });

  it("does not come when no job lacks anything", () => {
    const fleet = holding();
    feed(fleet, { kind: "inbox", batch: [end("a")] });
    expect(kinds(fleet)).toEqual([]);
  });
});

describe("deliveries", () => {
  it("go again a second later, with what they did not bring", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    feed(fleet, { kind: "failed", id: fleet.take("deliver").id }, 100);
    expect(kinds(fleet)).toEqual([]);
    expect(fleet.tick()).toBe(1_100);
    expect(fleet.take("deliver").post.grants.map(({ lease }) => lease.id)).toEqual([LEASE]);
  });

  it("give up what no job takes, once its host has said that nothing runs", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    const { id } = fleet.take("deliver");
    feed(fleet, { kind: "delivered", id, report: { accepted: [], gone: [LEASE] } });
    expect([...fleet.state().ledger.leases.values()]).toMatchObject([{ state: "vacating" }]);
  });

  it("make no turn by the report that every grant has arrived; by older rules, and where one has not, they do", () => {
    const isTurnDue = (rules: number, report: DeliveryReport): boolean => {
      const ledger = packLedger({ ...readyLedger(SHAPE), applyVersion: rules });
      const fleet = started({ ledger });
      decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
      fleet.feed({ kind: "delivered", id: fleet.take("deliver").id, report });
      return fleetMachine.dueAtMs(fleet.state()) <= 0;
    };
    const arrived = { accepted: [LEASE], gone: [] };
    expect(isTurnDue(QUIET_REPORT_RULES, arrived)).toBe(false);
    expect(isTurnDue(QUIET_REPORT_RULES - 1, arrived)).toBe(true);
    expect(isTurnDue(QUIET_REPORT_RULES, { accepted: [], gone: [LEASE] })).toBe(true);
    expect(isTurnDue(QUIET_REPORT_RULES, { accepted: [], gone: [] })).toBe(true);
  });

  it("have their cycle made up for by a report that is quiet otherwise", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    const { id } = fleet.take("deliver");
    fleet.feed({ kind: "inbox", batch: [ask({ job: "b" })] });
    feed(fleet, { kind: "delivered", id, report: { accepted: [LEASE], gone: [] } });
    expect(kinds(fleet)).toEqual(["decide"]);
  });

  it("are followed at once by the order to give up a lease that could not leave before its grant", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    const { id } = fleet.take("deliver");
    const [job, all] = [jobId("b"), gpus(["c0/h0", 0xff])];
    feed(fleet, { kind: "inbox", batch: [ask({ job: "b", class: "inference", gpus: 8 })] }, 61_000);
    const plan = {
      ...NOTHING,
      reserve: [{ jobId: job, gpus: all, kind: "preemption" as const }],
      evict: [
        {
          ...{ kind: "evict" as const, lease: LEASE, forJob: job },
          ...{ lostGpuSeconds: 1, reason: "test" },
        },
      ],
    };
    feed(fleet, { kind: "decided", id: fleet.take("decide").id, plan }, 61_000);
    expect(fleet.state().ledger.leases.get(LEASE)?.eviction).toMatchObject({ forJob: job });
    fleet.open.length = 0;
    feed(fleet, { kind: "delivered", id, report: { accepted: [LEASE], gone: [] } }, 61_000);
    expect(fleet.take("deliver").post.evictions).toMatchObject([{ order: { lease: LEASE } }]);
  });

  it("are four at a time; later grants leave with the first free place", () => {
    const fleet = started();
    const jobs = ["a", "b", "c", "d", "e"];
    jobs.forEach((job, at) =>
      decided(fleet, [ask({ job })], planOf([grantItem(job, gpus(["c0/h0", 1 << at]))])),
    );
    expect(kinds(fleet)).toEqual(["deliver", "deliver", "deliver", "deliver"]);
    const { id } = fleet.take("deliver");
    feed(fleet, { kind: "delivered", id, report: { accepted: [LEASE], gone: [] } });
    const last = fleet.open.filter(({ kind }) => kind === "deliver").at(-1);
    expect(last).toMatchObject({ post: { grants: [{ lease: { jobId: "e" } }] } });
  });

  it("notify a waiting job after three seconds, and not again for the same reason", () => {
    const fleet = started();
    const request = { jobId: jobId("a"), runId: runId("a-run1"), seq: 1 };
    const reason = {
      code: "WaitingForGpus" as const,
      message: "none is free",
      numbers: {},
      holders: [],
      wakeOn: ["timer" as const],
    };
    decided(fleet, [ask({ job: "a" })], planOf([], [{ request, reason }]));
    expect(fleet.tick()).toBe(3_000);
    const { id, post } = fleet.take("deliver");
    expect(post.pending).toEqual([{ ...request, reason }]);
    feed(fleet, { kind: "delivered", id, report: { accepted: [], gone: [] } });
    fleet.tick();
    expect(kinds(fleet)).toEqual(["audit"]);
  });
});

describe("audits", () => {
  it("look at holders and waiting jobs every 30 s, one at a time, and release what closed runs held", () => {
    const fleet = holding();
    expect(fleet.tick()).toBe(30_000);
    const { id, order } = fleet.take("audit");
    expect(order).toEqual({ holders: [{ jobId: "a", runId: "a-run1" }], asked: [] });
    expect(fleetMachine.dueAtMs(fleet.state())).toBe(Infinity);
    feed(fleet, { kind: "audited", id, report: { closed: order.holders } }, 31_000);
    expect(fleet.state().ledger.leases.get(LEASE)?.state).toBe("vacating");
    expect(fleet.take("deliver").post.sweeps).toMatchObject([{ fleet: "eu", lease: LEASE }]);
  });

  it("come again by their clock when their activity gave up", () => {
    const fleet = holding();
    fleet.tick();
    feed(fleet, { kind: "failed", id: fleet.take("audit").id }, 40_000);
    expect(fleet.tick()).toBe(70_000);
    expect(kinds(fleet)).toEqual(["audit"]);
  });

  it("send a sweep again that has had no effect", () => {
    const fleet = holding();
    const unconfirmed = end("a", { unconfirmed: ["c0/h0"] });
    feed(fleet, { kind: "inbox", batch: [unconfirmed] });
    const first = fleet.take("deliver");
    expect(first.post.sweeps).toHaveLength(1);
    feed(fleet, { kind: "delivered", id: first.id, report: { accepted: [], gone: [] } });
    expect(kinds(fleet)).toEqual([]);
    fleet.tick();
    feed(fleet, { kind: "audited", id: fleet.take("audit").id, report: { closed: [] } });
    expect(fleet.take("deliver").post.sweeps).toEqual(first.post.sweeps);
  });
});

describe("a fleet that lost its ledger", () => {
  const lost = () =>
    started({
      ledger: packLedger(emptyLedger(SHAPE)),
      isRecovering: true,
      recoverAtMs: [0, 60_000],
    });

  it("asks agents and jobs first, and grants nothing until a second after they were asked", () => {
    const fleet = lost();
    const { id, order } = fleet.take("recover");
    expect(order).toEqual({ fleet: "eu", clusters: ["c0"], isLedgerLost: true });
    feed(fleet, { kind: "inbox", batch: [hello(hostNames(SHAPE)), ask({ job: "a" })] }, 10);
    expect(kinds(fleet)).toEqual([]);
    feed(fleet, { kind: "recovered", id }, 500);
    expect(kinds(fleet)).toEqual([]);
    expect(fleet.tick()).toBe(1_500);
    expect(kinds(fleet)).toEqual(["decide"]);
  });

  it.each(["recovered", "failed"] as const)(
    "asks again at the next time, and the first answer ends the quiet: %s",
    (kind) => {
      const fleet = lost();
      feed(fleet, { kind, id: fleet.take("recover").id });
      expect(fleet.tick()).toBe(60_000);
      expect(fleet.take("recover").order.isLedgerLost).toBe(true);
      expect(fleet.state().recovery).toMatchObject({ quietUntilMs: 1_000, recoverAtMs: [] });
    },
  );

  it("hands the times at which it has yet to ask to the next run", () => {
    const fleet = lost();
    feed(fleet, { kind: "recovered", id: fleet.take("recover").id });
    feed(fleet, { kind: "order", order: { kind: "drain", hosts: [HOST], reason: "fan" } });
    feed(fleet, { kind: "handlers-finished" });
    expect(fleet.take("continue-as-new").input.recoverAtMs).toEqual([60_000]);
  });
});

describe("an operator's order", () => {
  it("ends the run, and the next one knows it and all that came until then", () => {
    const fleet = holding();
    feed(fleet, { kind: "order", order: { kind: "drain", hosts: [HOST], reason: "fan" } });
    fleet.take("finish-handlers");
    feed(fleet, { kind: "inbox", batch: [ask({ job: "b" })] });
    feed(fleet, { kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    const { ledger, deliveries } = openFleet(input, 0, 0);
    expect(ledger.hosts.get(HOST)?.isDrained).toBe(true);
    expect([...ledger.requests.keys(), ...ledger.leases.keys()]).toEqual(["b", LEASE]);
    expect(deliveries.underway.size).toBe(0);
    expect(input).not.toHaveProperty("isReportDue");
  });

  it("to follow newer rules ends the run, and only the next one follows them", () => {
    const ledger = packLedger({ ...readyLedger(SHAPE), applyVersion: OLDEST_RULES });
    const fleet = holding({ ledger });
    feed(fleet, { kind: "order", order: { kind: "upgrade", rules: NEWEST_RULES } });
    expect(fleet.state().ledger.applyVersion).toBe(OLDEST_RULES);
    feed(fleet, { kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    expect(input.rules).toBe(NEWEST_RULES);
    const { ledger: next } = openFleet(input, 0, 0);
    expect(next.applyVersion).toBe(NEWEST_RULES);
    expect([...next.leases.keys()]).toEqual([LEASE]);
  });

  it("to follow newer rules while a lost ledger is rebuilt leaves the window for late answers open", () => {
    const ledger = packLedger({ ...emptyLedger(SHAPE), applyVersion: OLDEST_RULES });
    const fleet = started({ ledger, isRecovering: true, recoverAtMs: [0, 60_000] });
    feed(fleet, { kind: "recovered", id: fleet.take("recover").id }, 500);
    feed(fleet, { kind: "order", order: { kind: "upgrade", rules: NEWEST_RULES } }, 2_000);
    feed(fleet, { kind: "handlers-finished" }, 2_000);
    const { input } = fleet.take("continue-as-new");
    const { ledger: next, recovery } = openFleet(input, 2_000, 2_000);
    expect(recovery.recoverAtMs).toEqual([60_000]);
    expect(next.recovery?.tokensBelow).toBeGreaterThan(2 ** 20);
    expect(next.recovery?.untilMs).toBeUndefined();
  });

  it("to follow the rules that it follows changes nothing", () => {
    const fleet = holding();
    const before = fleet.state();
    fleet.feed({ kind: "order", order: { kind: "upgrade", rules: NEWEST_RULES } });
    expect(fleet.state()).toEqual(before);
  });

  it("to configure makes the next run ask agents for reports", () => {
    const fleet = holding();
    const shape = fleetShape([{ hosts: [{}, {}, {}] }]);
    feed(fleet, { kind: "order", order: { kind: "configure", shape } });
    feed(fleet, { kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    expect(input.isReportDue).toBe(true);
    const next = started(input);
    expect(next.take("recover").order).toMatchObject({ isLedgerLost: false });
    expect(next.state().recovery.isReportDue).toBe(false);
  });

  it("lets deliveries arrive first", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    feed(fleet, { kind: "order", order: { kind: "fence", hosts: [hostId("c0", "h1")] } });
    const { id } = fleet.take("deliver");
    expect(kinds(fleet)).toEqual([]);
    feed(fleet, { kind: "delivered", id, report: { accepted: [LEASE], gone: [] } });
    expect(kinds(fleet)).toEqual(["finish-handlers"]);
  });
});

describe("the end of a run", () => {
  const noise = (fleet: Fleet, count: number): void => {
    for (let at = 0; at < count; at += 1) feed(fleet, { kind: "inbox", batch: ["noise"] });
  };

  /** Its rules are those before the end waited for a quiet moment. */
  const former = {
    ledger: packLedger({ ...readyLedger(SHAPE), applyVersion: OWN_TASK_RULES - 1 }),
  };

  it("comes after 1,500 events, not while a delivery is on its way, by former rules", () => {
    const fleet = started(former);
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    noise(fleet, 250);
    expect(kinds(fleet)).toEqual(["deliver"]);
    const { id } = fleet.take("deliver");
    feed(fleet, { kind: "delivered", id, report: { accepted: [LEASE], gone: [] } });
    expect(kinds(fleet)).toEqual(["finish-handlers"]);
  });

  it("comes after 3,000 events at any cost, by former rules", () => {
    const fleet = started(former);
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    noise(fleet, 450);
    expect(kinds(fleet)).toEqual(["deliver", "finish-handlers"]);
    feed(fleet, { kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    expect(started(input).take("deliver").post.grants).toHaveLength(1);
  });

  it("comes after 1,800 events at any cost", () => {
    const fleet = started();
    decided(fleet, [ask({ job: "a", gpus: 4 })], GRANT_A);
    while (fleet.state().spent.events < 1_800) noise(fleet, 1);
    expect(kinds(fleet)).toEqual(["deliver", "finish-handlers"]);
    feed(fleet, { kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    expect(started(input).take("deliver").post.grants).toHaveLength(1);
  });

  it("is a task of its own, and what comes before it is heard by the next run", () => {
    const fleet = started({ areWordsSigned: true });
    const word = (batch: unknown): Extract<FleetEvent, { readonly kind: "inbox" }> => {
      const value = new TextEncoder().encode(JSON.stringify(batch));
      return { ...{ kind: "inbox", batch, sender: "jobs" }, bytes: value.length, value };
    };
    const hosts = [HOST];
    fleet.feed({ kind: "order", order: { kind: "drain", hosts, reason: "fan" } });
    fleet.feed({ kind: "tick" });
    expect([kinds(fleet), fleet.state().isEnding]).toEqual([[], true]);
    const said = word([ask({ job: "ö" })]);
    fleet.feed(said);
    expect(fleetMachine.dueAtMs(fleet.state())).toBe(1);
    fleet.tick();
    fleet.take("finish-handlers");
    fleet.feed({ kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    expect(input).not.toHaveProperty("areWordsLost");
    const carried = JSON.parse(JSON.stringify(input)) as FleetInput;
    const [heard] = allWaiting(openFleet(carried, 1, 1).words?.waiting ?? NOTHING_WAITS);
    const { kind: _kind, ...rest } = said;
    expect(heard).toEqual({ ...rest, lane: "jobs", sinceMs: -2_000 });
    const next = play(fleetMachine, { state: openFleet(carried, 1, 1), commands: [] });
    settle(next);
    expect(next.take("check").list.words).toHaveLength(1);
  });

  it("gives no commands afterwards", () => {
    const fleet = holding();
    feed(fleet, { kind: "order", order: { kind: "undrain", hosts: [HOST] } });
    feed(fleet, { kind: "handlers-finished" });
    fleet.open.length = 0;
    feed(fleet, { kind: "inbox", batch: [ask({ job: "z" })] });
    feed(fleet, { kind: "tick" }, 1e6);
    expect([fleet.open, fleetMachine.dueAtMs(fleet.state())]).toEqual([[], Infinity]);
  });
});

it("a junk signal is one junk entry, an empty batch is none", () => {
  const fleet = started();
  feed(fleet, { kind: "inbox", batch: undefined });
  feed(fleet, { kind: "inbox", batch: { no: "list" } });
  const { ledger } = fleet.state();
  expect(ledger.deadLetters).toMatchObject([{ code: "EntryMalformed", times: 2 }]);
  feed(fleet, { kind: "inbox", batch: [] });
  expect(fleet.state().ledger).toBe(ledger);
});
