/** @file Which of an operator's orders a fleet refuses. */

import { describe, expect, it } from "vitest";
import { appended } from "../../../lib/chain.ts";
import {
  refuseDescription,
  refuseHosts,
  refuseOutdated,
  refuseRules,
} from "../../../machines/fleet/orders.ts";
import { UPDATE_ORDERS } from "../../../machines/fleet/update-orders.ts";
import { NEWEST_RULES } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, readyLedger } from "../../scheduling/builders.ts";

const FLEET = { name: "eu", ledger: readyLedger(fleetShape([{ hosts: [{}, {}] }])) };

describe("refuseHosts", () => {
  it.each([
    { name: "known hosts", order: { hosts: ["c0/h0", "c0/h1"] }, want: undefined },
    { name: "no hosts", order: { hosts: [] }, want: "NOT_FOUND" },
    { name: "an unknown host", order: { hosts: ["c0/h0", "c0/h9"] }, want: "NOT_FOUND" },
    { name: "no list", order: { hosts: "c0/h0" }, want: "NOT_FOUND" },
    { name: "nothing", order: undefined, want: "NOT_FOUND" },
  ])("$name", ({ order, want }) => {
    expect(refuseHosts(FLEET, order)?.code).toBe(want);
  });

  it("names the hosts that the fleet lacks", () => {
    expect(refuseHosts(FLEET, { hosts: ["c0/h9"] })?.message).toContain("c0/h9");
  });
});

describe("refuseOutdated", () => {
  const [host] = [...FLEET.ledger.hosts.keys()];
  const hosts = [String(host)];
  const drained = (reason: string) =>
    new Map(
      [...FLEET.ledger.hosts].map(([id, status]) => [
        id,
        { ...status, isDrained: true, drainReason: reason },
      ]),
    );
  const free = { ledger: FLEET.ledger, deferred: undefined };
  const fans = { ...free, ledger: { ...FLEET.ledger, hosts: drained("new fans") } };
  const own = { ...free, ledger: { ...FLEET.ledger, hosts: drained("check failing since noon") } };
  const order = UPDATE_ORDERS.drain({ hosts, reason: "new fans" });
  const soon = { ...free, deferred: appended(undefined, { kind: "order" as const, order }) };
  it.each([
    { name: "a first drain", fleet: free, order: { isNew: true }, want: undefined },
    { name: "a second one", fleet: fans, order: { isNew: true }, want: "NOT_ALLOWED" },
    {
      name: "one beside a drain to come",
      fleet: soon,
      order: { isNew: true },
      want: "NOT_ALLOWED",
    },
    { name: "an operator's second one", fleet: fans, order: {}, want: undefined },
    { name: "the end of one's own", fleet: own, order: { of: "check" }, want: undefined },
    { name: "the end of another's", fleet: fans, order: { of: "check" }, want: "NOT_ALLOWED" },
    {
      name: "the end of another's to come",
      fleet: soon,
      order: { of: "check" },
      want: "NOT_ALLOWED",
    },
    { name: "an operator's end of any", fleet: fans, order: {}, want: undefined },
  ])("$name", ({ fleet, order: over, want }) => {
    expect(refuseOutdated(fleet, { hosts, ...over })?.code).toBe(want);
  });
});

describe("refuseRules", () => {
  const at = (applyVersion: number) => ({ ...FLEET, ledger: { ...FLEET.ledger, applyVersion } });
  it.each([
    { name: "the next ones", fleet: at(1), rules: NEWEST_RULES, want: undefined },
    {
      name: "those that it follows",
      fleet: at(NEWEST_RULES),
      rules: NEWEST_RULES,
      want: undefined,
    },
    { name: "former ones", fleet: at(NEWEST_RULES), rules: 1, want: "NOT_ALLOWED" },
    {
      name: "rules of a later release",
      fleet: at(1),
      rules: NEWEST_RULES + 1,
      want: "NOT_ALLOWED",
    },
    { name: "a word", fleet: at(1), rules: "2", want: "NOT_ALLOWED" },
    { name: "a part of a version", fleet: at(1), rules: 1.5, want: "NOT_ALLOWED" },
  ])("$name", ({ fleet, rules, want }) => {
    expect(refuseRules(fleet, rules)?.code).toBe(want);
  });
});

describe("refuseDescription", () => {
  it.each([
    { name: "a fleet", description: { shape: FLEET.ledger.shape }, want: undefined },
    { name: "a number", description: { shape: 5 }, want: "BAD_INPUT" },
    { name: "no shape", description: {}, want: "BAD_INPUT" },
    { name: "nothing", description: undefined, want: "BAD_INPUT" },
  ])("$name", ({ description, want }) => {
    expect(refuseDescription(FLEET, description)?.code).toBe(want);
  });

  it("refuses a description that does not fit beside what the ledger holds", () => {
    const hosts = Array.from({ length: 30_000 }, () => ({}));
    const shape = fleetShape([{ hosts }]);
    expect(refuseDescription(FLEET, { shape })).toMatchObject({
      code: "NOT_ALLOWED",
      message: expect.stringContaining("new description is refused") as string,
    });
    const first = { ...FLEET, ledger: { ...FLEET.ledger, applyVersion: 1 } };
    expect(refuseDescription(first, { shape })).toBeUndefined();
  });
});
