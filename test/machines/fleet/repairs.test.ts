/** @file A fleet's repair without a server: which wishes it refuses, whom it asks, and what its note says when nobody answers. */

import { describe, expect, it } from "vitest";
import { jobId, leaseId, token } from "../../../domain/values/ids.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import { refuseRepair } from "../../../machines/fleet/repairs.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { OLDEST_RULES, type Ledger } from "../../../scheduling/ledger/ledger.ts";
import { play, type Played } from "../harness.ts";
import {
  ask,
  fleetShape,
  gpus,
  host,
  inbox,
  leased,
  planOf,
  readyLedger,
} from "../../scheduling/builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const ID = leaseId(token(1));
const GRANTED = leased(READY, { job: "a", gpus: 2 }, gpus(["c0/h0", 3]));
const HELD = apply(GRANTED, {
  kind: "delivered",
  accepted: [ID],
  gone: [],
  nowMs: 0,
}).ledger;
const BUSY = inbox(HELD, [ask({ job: "b", gpus: 99 })]).ledger;
const CHOICE = {
  key: "k",
  by: "ada",
  leases: [ID, leaseId(token(9))],
  requests: [jobId("b"), jobId("gone")],
  reservations: [jobId("c")],
};

type Fleet = Played<FleetState, FleetEvent, FleetCommand>;

function started(ledger: Ledger): Fleet {
  const input = { name: "eu", ledger: packLedger(ledger) };
  return play(fleetMachine, { state: openFleet(input, 0, 0), commands: [] });
}

/** A cycle that began meanwhile comes to its end. */
function settle(fleet: Fleet): void {
  if (fleet.open.some(({ kind }) => kind === "decide"))
    fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) }, 5);
}

describe("a fleet refuses a choice", () => {
  const fleet = started(BUSY).state();
  it.each([
    { name: "that is right: not", choice: CHOICE, want: undefined },
    { name: "that is nothing", choice: undefined, want: "BAD_INPUT" },
    {
      name: "about nothing",
      choice: { ...CHOICE, leases: [], requests: [], reservations: [] },
      want: "BAD_INPUT",
    },
    {
      name: "about too much",
      choice: { ...CHOICE, leases: Array.from({ length: 201 }, () => "lease-1") },
      want: "BAD_INPUT",
    },
    {
      name: "with junk for a lease",
      choice: { ...CHOICE, leases: [{ id: 1 }] },
      want: "BAD_INPUT",
    },
    {
      name: "with white space in an id",
      choice: { ...CHOICE, requests: ["a b"] },
      want: "BAD_INPUT",
    },
    { name: "of nobody", choice: { ...CHOICE, by: 7 }, want: "BAD_INPUT" },
    {
      name: "of somebody with a long name",
      choice: { ...CHOICE, by: "x".repeat(101) },
      want: "BAD_INPUT",
    },
  ])("$name", ({ choice, want }) => {
    expect(refuseRepair(fleet, choice)?.code).toBe(want);
  });

  it("while it follows the first rules, and says what helps", () => {
    const old = { ...fleet, ledger: { ...fleet.ledger, applyVersion: OLDEST_RULES } };
    expect(refuseRepair(old, CHOICE)?.code).toBe("NOT_ALLOWED");
    expect(refuseRepair(old, CHOICE)?.message).toContain("orbweaver fleet upgrade");
  });

  it("while it looks into another", () => {
    const played = started(BUSY);
    played.feed({ kind: "order", order: { kind: "repair", ...CHOICE } });
    expect(refuseRepair(played.state(), CHOICE)?.code).toBe("NOT_ALLOWED");
    expect(refuseRepair(played.state(), CHOICE)?.message).toContain("ada");
  });
});

describe("a repair", () => {
  it("asks about what the ledger still holds, and folds the answers", () => {
    const played = started(BUSY);
    played.feed({ kind: "order", order: { kind: "repair", ...CHOICE } });
    const { id, order } = played.take("repair");
    expect(order).toMatchObject({
      fleet: "eu",
      leases: [{ lease: ID, jobId: "a", runId: "a-run1", token: 1, hosts: ["c0/h0"] }],
      requests: [{ jobId: "b", runId: "b-run1" }],
    });
    const denied = [{ lease: ID, hosts: [host("c0/h0")] }];
    played.feed({ kind: "repaired", id, report: { denied, closed: order.requests } }, 5);
    settle(played);
    const { ledger, repair } = played.state();
    expect([ledger.leases.size, ledger.requests.size, repair]).toEqual([0, 0, undefined]);
    expect(ledger.repairs).toMatchObject([{ key: "k", by: "ada", atMs: 5, leftCount: 0 }]);
  });

  it("asks about no lease whose grant is on its way: its job denies it, and may have it when the answer comes. Under rules 6 it asks", () => {
    const asked = (ledger: Ledger) => {
      const played = started(ledger);
      played.feed({ kind: "order", order: { kind: "repair", ...CHOICE } });
      return played.take("repair").order.leases.map(({ lease }) => lease);
    };
    expect(GRANTED.outbox.has(ID)).toBe(true);
    expect(asked(GRANTED)).toEqual([]);
    expect(asked({ ...GRANTED, applyVersion: 6 })).toEqual([ID]);
  });

  it("that nobody could look into frees nothing, and says so", () => {
    const played = started(BUSY);
    played.feed({ kind: "order", order: { kind: "repair", ...CHOICE } });
    played.feed({ kind: "failed", id: played.take("repair").id }, 5);
    settle(played);
    const { ledger } = played.state();
    expect([ledger.leases.size, ledger.requests.size]).toEqual([1, 1]);
    expect(ledger.repairs?.[0]?.left).toEqual([ID, "request of b"]);
  });

  it("holds back the end of the run, and answers to another are ignored", () => {
    const played = started(BUSY);
    played.feed({ kind: "order", order: { kind: "repair", ...CHOICE } });
    played.feed({ kind: "repaired", id: 999, report: { denied: [], closed: [] } });
    expect(played.state().repair?.by).toBe("ada");
    expect(played.state().ledger.repairs).toBeUndefined();
  });
});
