/** @file What comes to a fleet's run between the moment at which it sets out to end and its end. */

import { describe, expect, it } from "vitest";
import { hostId, leaseId, token } from "../../../domain/values/ids.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { openChain } from "../../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import { refuseOrder } from "../../../machines/fleet/signed-orders.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { FLOODED_TURNS_RULES, SPACED_RUNS_RULES } from "../../../scheduling/ledger/upgrade.ts";
import {
  ask,
  fleetShape,
  gpus,
  grantItem,
  planOf,
  readyLedger,
} from "../../scheduling/builders.ts";
import { play, type Played } from "../harness.ts";

const HOST = hostId("c0", "h0");

const ledgerOf = (rules: number) => ({
  ...readyLedger(fleetShape([{ hosts: [{}, {}] }])),
  applyVersion: rules,
});

/** An order has come, and the run sets out to end. */
function ending(input: Partial<FleetInput> = {}): Played<FleetState, FleetEvent, FleetCommand> {
  const ledger = packLedger(readyLedger(fleetShape([{ hosts: [{}, {}] }])));
  const fleet = play<FleetState, FleetEvent, FleetCommand>(fleetMachine, {
    state: openFleet({ name: "eu", ledger, ...input }, -2_000, 0),
    commands: [],
  });
  fleet.feed({ kind: "order", order: { kind: "drain", hosts: [HOST], reason: "fan" } });
  fleet.feed({ kind: "tick" });
  expect(fleet.state().isEnding).toBe(true);
  return fleet;
}

describe("a run that has set out to end", () => {
  it("hears first what its input has no room for", () => {
    const fleet = ending({ areWordsSigned: true });
    const value = new Uint8Array(200 * 1_024);
    fleet.feed({ kind: "inbox", batch: "much", bytes: value.length, value });
    fleet.tick();
    expect(fleet.take("check").list.words).toHaveLength(1);
  });

  it("hands orders on where a flooded run has to drop the rest, which is asked for again", () => {
    // Later ones read no words of that size.
    const ledger = packLedger(ledgerOf(FLOODED_TURNS_RULES));
    const fleet = ending({ areWordsSigned: true, ledger });
    const value = new Uint8Array(200 * 1_024);
    // Past the most that a run may hold.
    for (let at = 0; at < 17; at += 1)
      fleet.feed({ kind: "inbox", batch: "much", bytes: 1_000_000, value });
    const order = { name: "undrain", id: "o1" } as const;
    fleet.feed({ kind: "unproven-order", batch: { hosts: [HOST] }, bytes: 20, order });
    fleet.tick();
    fleet.take("finish-handlers");
    fleet.feed({ kind: "handlers-finished" });
    const { input } = fleet.take("continue-as-new");
    expect(input).toMatchObject({ areWordsLost: true, words: [{ order }] });
  });

  it("waits for a repair that began meanwhile", () => {
    const fleet = ending();
    const leases = [leaseId(token(1))];
    const choice = { key: "k", by: "ann", leases, requests: [], reservations: [] };
    fleet.feed({ kind: "order", order: { kind: "repair", ...choice } });
    fleet.tick();
    const { id } = fleet.take("repair");
    expect(fleet.open.map(({ kind }) => kind)).not.toContain("finish-handlers");
    fleet.feed({ kind: "repaired", id, report: { denied: [], closed: [] } });
    fleet.tick();
    fleet.tick();
    fleet.take("finish-handlers");
  });

  it("hears more than eight words first, goes on planning, and ends when its clock rings with few", () => {
    const fleet = ending({ areWordsSigned: true });
    const said = (count: number): void => {
      for (let at = 0; at < count; at += 1) {
        const value = new Uint8Array(20);
        fleet.feed({ kind: "inbox", batch: [ask({ job: "a" })], bytes: value.length, value });
      }
    };
    said(9);
    fleet.tick();
    const { id, list } = fleet.take("check");
    expect(list.words).toHaveLength(9);
    said(8);
    fleet.feed({ kind: "checked", id, verdicts: { refused: [] } });
    fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) });
    expect(fleet.state()).toMatchObject({ isEnding: true, phase: "open" });
    fleet.tick();
    fleet.take("finish-handlers");
    fleet.feed({ kind: "handlers-finished" });
    expect(fleet.take("continue-as-new").input.words).toHaveLength(8);
  });

  it.each([
    { rules: SPACED_RUNS_RULES, waitedMs: 2_000, want: "finish-handlers" },
    { rules: SPACED_RUNS_RULES, waitedMs: 1_999, want: "check" },
    { rules: SPACED_RUNS_RULES - 1, waitedMs: 1, want: "finish-handlers" },
  ] as const)(
    "by rules $rules, a long one with a hundred words after $waitedMs ms: $want",
    ({ rules, waitedMs, want }) => {
      const fleet = ending({ areWordsSigned: true, ledger: packLedger(ledgerOf(rules)) });
      const said = (count: number): void => {
        for (let at = 0; at < count; at += 1)
          fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
      };
      said(2_300);
      for (let slice = 0; slice < 3; slice += 1) {
        fleet.tick();
        fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
      }
      said(100);
      const { atMs = 0 } = fleet.state().clock ?? {};
      fleet.feed({ kind: "tick" }, atMs + waitedMs);
      fleet.take(want);
    },
  );

  it.each([
    { rules: FLOODED_TURNS_RULES, count: 33, isDue: true },
    { rules: FLOODED_TURNS_RULES, count: 32, isDue: false },
    { rules: FLOODED_TURNS_RULES - 1, count: 33, isDue: false },
  ])(
    "by rules $rules, does not wait for its clock once $count words have come: $isDue",
    ({ rules, count, isDue }) => {
      const fleet = ending({ areWordsSigned: true, ledger: packLedger(ledgerOf(rules)) });
      for (let at = 1; at < count; at += 1)
        fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
      fleet.feed({ kind: "inbox", batch: [ask({ job: "a", gpus: 4 })], bytes: 9 });
      const { atMs } = fleet.state().clock ?? {};
      expect(fleetMachine.dueAtMs(fleet.state())).toBe(isDue ? 0 : atMs);
      if (!isDue) return;
      fleet.tick();
      fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
      const plan = planOf([grantItem("a", gpus(["c0/h1", 0xf]))]);
      fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan });
      expect(fleet.take("deliver").post.grants).toHaveLength(1);
      expect(fleet.state()).toMatchObject({ isEnding: false, phase: "open" });
    },
  );

  it("looks a second after a flood whether it may end, and ends", () => {
    const fleet = ending({ areWordsSigned: true });
    for (let at = 0; at < 2_000; at += 1)
      fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
    for (let slice = 0; slice < 2; slice += 1) {
      fleet.tick();
      fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
    }
    for (let at = 0; at < 40; at += 1)
      fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
    const heardAtMs = fleet.tick();
    fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
    expect(fleet.state().clock?.atMs).toBe(heardAtMs + 1_000);
    fleet.tick();
    expect(fleet.state().isEnding).toBe(true);
    fleet.tick();
    fleet.take("finish-handlers");
  });

  it("looks a second after a flood whether it may end, and ends, also where it is short and operators have changed it", () => {
    const fleet = ending({ areWordsSigned: true });
    for (let at = 0; at < 33; at += 1)
      fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
    const heardAtMs = fleet.tick();
    fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
    expect(fleet.state()).toMatchObject({ isEnding: false, clock: { atMs: heardAtMs + 1_000 } });
    fleet.tick();
    fleet.tick();
    fleet.take("finish-handlers");
  });

  it("goes on planning past eight thousand words, too, where more has come than its input has room for", () => {
    const fleet = ending({ areWordsSigned: true });
    const hear = (): void =>
      fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
    for (let at = 0; at < 8_500; at += 1)
      fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
    for (let slice = 0; slice < 9; slice += 1) {
      fleet.tick();
      hear();
    }
    expect(fleet.state()).toMatchObject({ isEnding: true, isBacklogged: false });
    const value = new Uint8Array(6_000);
    for (let at = 0; at < 40; at += 1)
      fleet.feed({ kind: "inbox", batch: "junk", bytes: value.length, value });
    fleet.feed({ kind: "inbox", batch: [ask({ job: "a", gpus: 4 })], bytes: 9 });
    fleet.tick();
    hear();
    const plan = planOf([grantItem("a", gpus(["c0/h1", 0xf]))]);
    fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan });
    expect(fleet.take("deliver").post.grants).toHaveLength(1);
    fleet.tick();
    fleet.take("finish-handlers");
  });

  it.each([
    { rules: FLOODED_TURNS_RULES, want: 8 },
    { rules: FLOODED_TURNS_RULES - 1, want: 4 },
  ])("by rules $rules, ends in the flood itself after $want thousand words", ({ rules, want }) => {
    const fleet = ending({ areWordsSigned: true, ledger: packLedger(ledgerOf(rules)) });
    const hasEnded = (): boolean => fleet.open.some(({ kind }) => kind === "finish-handlers");
    let turns = 0;
    while (!hasEnded()) {
      for (let at = 0; at < 1_000; at += 1)
        fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, value: new Uint8Array(6) });
      fleet.tick();
      if (hasEnded()) break;
      fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
      turns += 1;
    }
    // The server takes ten thousand for a run.
    expect(turns).toBe(want);
  });
});

it.each([
  { rules: SPACED_RUNS_RULES, want: true },
  { rules: SPACED_RUNS_RULES - 1, want: false },
])("by rules $rules, headers count for the end of a run: $want", ({ rules, want }) => {
  const ledger = { ...readyLedger(fleetShape([{ hosts: [{}] }])), applyVersion: rules };
  const fleet = play<FleetState, FleetEvent, FleetCommand>(fleetMachine, {
    state: openFleet({ name: "eu", ledger: packLedger(ledger) }, 0, 0),
    commands: [],
  });
  const sideBytes = 4_000_000;
  fleet.feed({ kind: "inbox", batch: "junk", bytes: 6, sideBytes });
  for (let at = 0; at < 4; at += 1)
    fleet.feed({ kind: "unknown-signal", signal: "x", bytes: 0, sideBytes, sender: "mallory" });
  fleet.feed({ kind: "tick" });
  expect(fleet.state().isEnding).toBe(want);
});

describe("a value that is nested without an end", () => {
  const deep = (levels: number): unknown =>
    JSON.parse("[".repeat(levels) + "]".repeat(levels)) as unknown;
  const LEVELS = 50_000;

  it("does not keep a run from its end", () => {
    const fleet = ending({ areWordsSigned: true });
    fleet.feed({ kind: "inbox", batch: deep(LEVELS), bytes: 2 * LEVELS });
    fleet.tick();
    fleet.take("finish-handlers");
    fleet.feed({ kind: "handlers-finished" });
    expect(fleet.take("continue-as-new").input).not.toHaveProperty("words");
  });

  it.each([
    { rules: FLOODED_TURNS_RULES, levels: LEVELS },
    { rules: FLOODED_TURNS_RULES, levels: 65 },
  ])(
    "is junk by rules $rules where it has $levels levels, whoever sent it and in whatever entry",
    ({ rules, levels }) => {
      const fleet = play<FleetState, FleetEvent, FleetCommand>(fleetMachine, {
        state: openChain(
          openFleet({ name: "eu", ledger: packLedger(ledgerOf(rules)) }, 0, 0),
          { name: "eu", ledger: packLedger(ledgerOf(rules)) },
          "run",
        ),
        commands: [],
      });
      const batch = [{ kind: "lobby", more: deep(levels) }];
      fleet.feed({ kind: "inbox", batch, bytes: 2 * levels, sender: "mallory" });
      fleet.tick();
      expect(fleet.state().ledger.deadLetters).toMatchObject([
        {
          code: "EntryMalformed",
          sender: "mallory",
          message: expect.stringContaining("nested deeper") as string,
        },
      ]);
    },
  );

  it("is no part of an order", () => {
    const fleet = ending({ areWordsSigned: true });
    const order = { hosts: [HOST], reason: "fan", more: deep(LEVELS) };
    expect(refuseOrder(fleet.state(), "drain", order)).toMatchObject({ code: "BAD_INPUT" });
  });
});

describe("a run that operators have changed", () => {
  /** It begins at time 0. */
  const begun = (rules: number): Played<FleetState, FleetEvent, FleetCommand> => {
    const ledger = { ...readyLedger(fleetShape([{ hosts: [{}, {}] }])), applyVersion: rules };
    const fleet = play<FleetState, FleetEvent, FleetCommand>(fleetMachine, {
      state: openFleet({ name: "eu", ledger: packLedger(ledger) }, 0, 0),
      commands: [],
    });
    fleet.feed({ kind: "tick" });
    fleet.feed({ kind: "order", order: { kind: "undrain", hosts: [HOST] } }, 100);
    fleet.feed({ kind: "tick" }, 100);
    return fleet;
  };
  const kinds = (fleet: Played<FleetState, FleetEvent, FleetCommand>): readonly string[] =>
    fleet.open.filter(({ kind }) => kind !== "record").map(({ kind }) => kind);

  it("ends when it is two seconds old, and plans meanwhile", () => {
    const fleet = begun(SPACED_RUNS_RULES);
    expect([kinds(fleet), fleet.state().clock?.atMs]).toEqual([[], 2_000]);
    fleet.feed({ kind: "inbox", batch: [ask({ job: "a", gpus: 4 })] }, 500);
    fleet.feed({ kind: "tick" }, 500);
    const plan = planOf([grantItem("a", gpus(["c0/h0", 0xf]))]);
    fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan }, 500);
    const { id } = fleet.take("deliver");
    expect(fleet.state().clock?.atMs).toBe(2_000);
    fleet.feed({ kind: "tick" }, 2_000);
    expect([kinds(fleet), fleet.state().isEnding]).toEqual([[], false]);
    const report = { accepted: [leaseId(token(1))], gone: [] };
    fleet.feed({ kind: "delivered", id, report }, 2_100);
    expect(fleetMachine.dueAtMs(fleet.state())).toBe(0);
    fleet.feed({ kind: "tick" }, 2_100);
    expect(fleet.state().isEnding).toBe(true);
  });

  it("ends at once by former rules", () => {
    expect(begun(SPACED_RUNS_RULES - 1).state().isEnding).toBe(true);
  });
});
