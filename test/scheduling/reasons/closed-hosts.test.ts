/** @file Decisions under maintenance, anti-affinity and budgets of racks: where jobs start, why they wait, and that a clock wakes them. */

import { describe, expect, it } from "vitest";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms, watts } from "../../../domain/values/units.ts";
import { apply, checkLedger, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, hello, host } from "../builders.ts";

function cycle(ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger {
  const notified = apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
  return apply(notified, { kind: "plan", plan: decide(notified, nowMs), nowMs }).ledger;
}

/** Two hosts of eight in one cluster and rack, with a change to the cluster. */
function fleet(change: Partial<FleetShape["clusters"][number]>): Ledger {
  const shape = fleetShape([{ hosts: [{}, {}] }]);
  const clusters = shape.clusters.map((cluster) => ({
    ...cluster,
    hosts: cluster.hosts.map((each) => ({ ...each, rack: "r" })),
    ...change,
  }));
  return cycle(emptyLedger({ ...shape, clusters }), 0, hello(["c0/h0", "c0/h1"]));
}

const hostsOf = (ledger: Ledger, job: string): readonly string[] =>
  [...ledger.leases.values()]
    .filter((lease) => lease.jobId === jobId(job))
    .flatMap(({ gpus }) => gpus.map((part) => part.host));

describe("maintenance", () => {
  const maintenance = [{ hosts: [host("c0/h0")], fromMs: 1_000, toMs: 9_000, reason: "firmware" }];

  it("sends a job to the other host, and one that needs both is told until when and woken then", () => {
    const one = cycle(
      fleet({ maintenance }),
      10,
      ask({ job: "a", gpus: 8, timeLimitMs: ms(5_000) }),
    );
    expect(hostsOf(one, "a")).toEqual(["c0/h1"]);
    const ledger = fleet({ maintenance });
    const asked = apply(ledger, {
      kind: "inbox",
      entries: [ask({ job: "both", gpus: 16, timeLimitMs: ms(5_000) })],
      nowMs: 10,
    }).ledger;
    const plan = decide(asked, 10);
    expect(plan.items).toEqual([]);
    expect(plan.wakeAtMs).toBe(9_000);
    const [pending] = plan.pending;
    expect(pending?.reason.numbers).toMatchObject({ maintenanceHosts: 1 });
    expect(pending?.reason.wakeOn).toContain("timer");
    expect(pending?.reason.message).toContain("firmware (c0/h0)");
    expect(decide(asked, 9_000).items).toHaveLength(1);
  });
});

describe("an anti-affinity label", () => {
  const db = { constraints: { antiAffinity: "db" } };

  it("spreads jobs over hosts and says who is in the way of the next one", () => {
    let ledger = fleet({});
    for (const job of ["a", "b", "c"]) ledger = cycle(ledger, 10, ask({ job, gpus: 1, ...db }));
    expect([...hostsOf(ledger, "a"), ...hostsOf(ledger, "b")].sort()).toEqual(["c0/h0", "c0/h1"]);
    expect(hostsOf(ledger, "c")).toEqual([]);
    const reason = ledger.reasons.get(jobId("c"));
    expect(reason?.numbers).toMatchObject({ sameLabelHosts: 2 });
    expect(checkLedger(ledger)).toEqual([]);
  });
});

describe("a rack's budget", () => {
  it("bounds what starts in it, and the rest waits for power", () => {
    const racks = [{ id: "r", powerBudgetWatts: watts(10 * 700) }];
    let ledger = cycle(fleet({ racks }), 10, ask({ job: "a", gpus: 8 }));
    ledger = cycle(ledger, 20, ask({ job: "b", gpus: 2 }));
    ledger = cycle(ledger, 30, ask({ job: "c", gpus: 1 }));
    expect([hostsOf(ledger, "a").length, hostsOf(ledger, "b").length]).toEqual([1, 1]);
    expect(hostsOf(ledger, "c")).toEqual([]);
    expect(checkLedger(ledger)).toEqual([]);
  });
});
