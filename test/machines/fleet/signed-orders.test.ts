/** @file Orders to a fleet that asks for proof: pending until their turn, then carried out, refused, or counted as nobody's. */

import { describe, expect, it } from "vitest";
import { parseHostId } from "../../../domain/values/ids.ts";
import { continueAsNew } from "../../../machines/fleet/continue.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import { orderEvent, orderOutcome } from "../../../machines/fleet/signed-orders.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import type { FleetOrderName } from "../../../protocol/word-proof.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import {
  NEWEST_RULES,
  SIGNED_ORDER_RULES,
  SIGNED_RULES,
} from "../../../scheduling/ledger/ledger.ts";
import { SPACED_RUNS_RULES } from "../../../scheduling/ledger/upgrade.ts";
import { fleetShape, readyLedger } from "../../scheduling/builders.ts";

const HOST = parseHostId("c0/h0");
const proofBy = (role: string, nonce: string): string =>
  [role, `ed25519:${"k".repeat(43)}`, "1000", nonce.padEnd(16, "-"), "s".repeat(86)].join(" ");

class Played {
  state: FleetState;
  readonly commands: FleetCommand[] = [];
  constructor(rules: number, input: Partial<FleetInput> = {}) {
    const ledger = { ...readyLedger(fleetShape([{ hosts: [{}, {}] }])), applyVersion: rules };
    this.state = openFleet(
      { name: "eu", ledger: packLedger(ledger), areWordsSigned: true, ...input },
      0,
      0,
    );
  }

  /** The run that follows. */
  next(): Played {
    const { commands } = continueAsNew({ state: this.state, commands: [] }, 10);
    const last = commands.at(-1);
    if (last?.kind !== "continue-as-new") throw new Error("the run goes on");
    return new Played(this.state.ledger.applyVersion, last.input);
  }

  feed(event: FleetEvent | { readonly kind: "tick" }): void {
    const step = fleetMachine.step(this.state, event, 10);
    this.state = step.state;
    this.commands.push(...step.commands);
  }

  order(name: FleetOrderName, argument: unknown, id: string, proof = proofBy("user", id)): void {
    const value = new Uint8Array(8);
    const arrived = { name, argument, id, proof, value, bytes: 8, sender: `client ${id}` };
    this.feed(orderEvent(this.state, arrived));
  }

  /** Begins a turn; the words at these places are refused. */
  turn(...refused: readonly number[]): void {
    this.feed({ kind: "tick" });
    const check = this.commands.filter((each) => each.kind === "check").at(-1);
    if (check === undefined) throw new Error("nothing was asked");
    const verdicts = { refused: refused.length > 0 ? [{ reason: "no", words: refused }] : [] };
    this.feed({ kind: "checked", id: check.id, verdicts });
  }

  outcome = (id: string): string => {
    const outcome = orderOutcome(this.state, id);
    return outcome.kind === "refused" ? outcome.code : outcome.kind;
  };
}

const isDrained = ({ state }: Played): boolean => state.ledger.hosts.get(HOST)?.isDrained === true;

describe("an order to a fleet that asks for proof", () => {
  it("is pending, asked about under its own name, and carried out once it is proven", () => {
    const fleet = new Played(SIGNED_ORDER_RULES);
    fleet.order("drain", { hosts: [HOST], reason: "fan" }, "one");
    expect([fleet.outcome("one"), isDrained(fleet)]).toEqual(["pending", false]);
    fleet.turn();
    const asked = fleet.commands.find((each) => each.kind === "check");
    expect(asked?.list.words.map(({ signal }) => signal)).toEqual(["drain"]);
    expect([fleet.outcome("one"), isDrained(fleet)]).toEqual(["done", true]);
  });

  it("that nobody believes is a dead letter with its sender, and changes nothing", () => {
    const fleet = new Played(SIGNED_ORDER_RULES);
    fleet.order("fence", { hosts: [HOST] }, "one");
    fleet.turn(0);
    expect(fleet.outcome("one")).toBe("NOT_ALLOWED");
    expect(fleet.state.ledger.hosts.get(HOST)?.isFenced).toBeUndefined();
    expect(fleet.state.ledger.deadLetters).toMatchObject([
      { code: "EntryUnproven", sender: "client one" },
    ]);
    expect(fleet.state.ledger.deadLetters[0]?.message).toContain("fence: no");
  });

  it("with a proof that was heard before is not believed, and the first outcome stays", () => {
    const fleet = new Played(SIGNED_ORDER_RULES);
    fleet.order("drain", { hosts: [HOST], reason: "fan" }, "one");
    fleet.order("undrain", { hosts: [HOST] }, "two", proofBy("user", "one"));
    fleet.turn();
    expect([fleet.outcome("one"), fleet.outcome("two")]).toEqual(["done", "NOT_ALLOWED"]);
    expect(isDrained(fleet)).toBe(true);
  });

  it.each([
    ["a drain of a host that is not drained", { reason: "hot", isNew: true }, "done"],
    ["any other drain", { reason: "hot" }, "NOT_ALLOWED"],
  ])("of an agent is obeyed as far as agents order: %s", (_case, terms, want) => {
    const fleet = new Played(SIGNED_ORDER_RULES);
    fleet.order("drain", { hosts: [HOST], ...terms }, "one", proofBy("agent", "one"));
    fleet.turn();
    expect([fleet.outcome("one"), isDrained(fleet)]).toEqual([want, want === "done"]);
  });

  it("is looked at once more when it is proven: what no longer makes sense is refused", () => {
    const fleet = new Played(SIGNED_ORDER_RULES);
    fleet.order("drain", { hosts: [HOST], reason: "a", isNew: true }, "one");
    fleet.order("drain", { hosts: [HOST], reason: "b", isNew: true }, "two");
    fleet.turn();
    expect([fleet.outcome("one"), fleet.outcome("two")]).toEqual(["done", "NOT_ALLOWED"]);
    expect(fleet.state.ledger.hosts.get(HOST)?.drainReason).toBe("a");
  });

  it("keeps its outcome in the next run, and under a flood of orders that nobody believes", () => {
    const fleet = new Played(SIGNED_ORDER_RULES);
    fleet.order("drain", { hosts: [HOST], reason: "fan" }, "one");
    for (let at = 0; at < 100; at += 1)
      fleet.order("fence", { hosts: [HOST] }, `flood-${String(at)}`);
    fleet.turn(...Array.from({ length: 100 }, (_, at) => at + 1));
    expect(fleet.outcome("one")).toBe("done");
    expect(fleet.state.settledOrders.length).toBeLessThan(40);
    const next = openFleet(
      {
        name: "eu",
        ledger: packLedger(fleet.state.ledger),
        settledOrders: fleet.state.settledOrders,
      },
      0,
      0,
    );
    expect(orderOutcome(next, "one")).toEqual({ kind: "done", answer: null });
    expect(orderOutcome(next, "never")).toEqual({ kind: "unknown" });
  });

  it("counts once over all runs: a proof that is said again to a later one is not believed", () => {
    const fleet = new Played(NEWEST_RULES);
    fleet.order("drain", { hosts: [HOST], reason: "fan" }, "one");
    fleet.turn();
    fleet.order("undrain", { hosts: [HOST] }, "two");
    fleet.turn();
    const next = fleet.next();
    next.order("drain", { hosts: [HOST], reason: "fan" }, "eavesdropped", proofBy("user", "one"));
    // The client asks again with the same signature where the answer was lost.
    next.order("undrain", { hosts: [HOST] }, "two");
    next.turn();
    expect([next.outcome("eavesdropped"), next.outcome("two")]).toEqual(["NOT_ALLOWED", "done"]);
    expect(isDrained(next)).toBe(false);
    expect(next.next().state.words?.orderNumbers).toHaveLength(2);
  });

  it("leaves no numbers to a run of former rules, which a worker of a former release may go on with", () => {
    const fleet = new Played(SPACED_RUNS_RULES - 1);
    fleet.order("drain", { hosts: [HOST], reason: "fan" }, "one");
    fleet.turn();
    expect(fleet.next().state.words?.orderNumbers).toEqual([]);
  });

  it("leaves the next run the numbers of the last 256 alone", () => {
    const fleet = new Played(NEWEST_RULES);
    for (let at = 0; at < 300; at += 1) {
      fleet.order("drain", { hosts: [HOST], reason: "fan" }, `o${String(at)}`);
      if (at % 50 === 49) fleet.turn();
    }
    expect(fleet.state.words?.orderNumbers).toHaveLength(256);
  });
});

it("under rules 5 an order is carried out as it comes", () => {
  const fleet = new Played(SIGNED_RULES);
  fleet.order("drain", { hosts: [HOST], reason: "fan" }, "one");
  expect(isDrained(fleet)).toBe(true);
});
