/** @file What comes to a fleet's run between the moment at which it sets out to end and its end. */

import { describe, expect, it } from "vitest";
import { hostId, leaseId, token } from "../../../domain/values/ids.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { SPACED_RUNS_RULES } from "../../../scheduling/ledger/upgrade.ts";
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
    const fleet = ending({ areWordsSigned: true });
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
      const ledger = { ...readyLedger(fleetShape([{ hosts: [{}, {}] }])), applyVersion: rules };
      const fleet = ending({ areWordsSigned: true, ledger: packLedger(ledger) });
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

  it("ends in the flood itself when it has become too long", () => {
    const fleet = ending({ areWordsSigned: true });
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
    // And with half the signals that the server takes for a run.
    expect(turns).toBe(4);
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
