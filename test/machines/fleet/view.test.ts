/** @file What a fleet answers about itself and its jobs. */

import { describe, expect, it } from "vitest";
import { hostId, jobId, leaseId, runId, token } from "../../../domain/values/ids.ts";
import { openFleet } from "../../../machines/fleet/fleet.ts";
import {
  explainJob,
  fleetSummary,
  mayHaveLease,
  othersWait,
  shapeOf,
  silenceTermsOf,
} from "../../../machines/fleet/view.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  planOf,
  readyLedger,
} from "../../scheduling/builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }, { hosts: [{}] }]);
const HELD = leased(readyLedger(SHAPE), { job: "a", gpus: 4 }, gpus(["c0/h0", 0xf]));
const request = { jobId: jobId("b"), runId: runId("b-run1"), seq: 1 };
const WAITING = applyPlan(
  inbox(HELD, [ask({ job: "b" })]).ledger,
  planOf(
    [],
    [
      {
        request,
        reason: {
          code: "WaitingForGpus",
          message: "none is free",
          numbers: {},
          holders: [],
          wakeOn: ["timer"],
        },
      },
    ],
  ),
).ledger;

describe("explainJob", () => {
  it.each([
    { job: "a", want: { kind: "leased" } },
    {
      job: "b",
      want: { kind: "waiting", waiting: 1, reason: { code: "WaitingForGpus" } },
    },
    { job: "c", want: { kind: "unknown" } },
  ])("$job: $want.kind", ({ job, want }) => {
    expect(explainJob(WAITING, job)).toMatchObject(want);
  });

  it("says of a request that no cycle has seen that it is to be evaluated", () => {
    const fresh = inbox(HELD, [ask({ job: "b" })]).ledger;
    expect(explainJob(fresh, "b")).toMatchObject({ reason: { code: "PendingEvaluation" } });
  });
});

it("mayHaveLease: the leases of the ledger, and any that the lost one may have given while the fleet recovers", () => {
  const first = 2 ** 20 + 98;
  const ids = [...HELD.leases.keys(), leaseId(token(first - 1)), leaseId(token(first))];
  const has = (ledger: Ledger) => ids.map((id) => mayHaveLease(ledger, id, 5));
  expect(has(HELD)).toEqual([true, false, false]);
  const recovery = { tokensBelow: first + 2 ** 20 };
  expect(has({ ...HELD, recovery })).toEqual([true, true, false]);
  expect(has({ ...HELD, recovery: { ...recovery, untilMs: 5 } })).toEqual([true, false, false]);
});

it("othersWait: of other jobs than the one that asks", () => {
  expect([othersWait(WAITING, jobId("a")), othersWait(WAITING, jobId("b"))]).toEqual([true, false]);
});

it("shapeOf keeps the named clusters", () => {
  expect(shapeOf(SHAPE, ["c1", "none"]).clusters.map(({ id }) => id)).toEqual(["c1"]);
});

it("silenceTermsOf: null of an unknown cluster", () => {
  expect([silenceTermsOf(SHAPE, "c0")?.onSilence, silenceTermsOf(SHAPE, "c9")]).toEqual([
    "fence",
    null,
  ]);
});

it("the summary counts GPUs, leases, requests, and hosts that are fenced", () => {
  const fenced = apply(WAITING, { kind: "fence", hosts: [hostId("c1", "h0")], nowMs: 0 }).ledger;
  const summary = fleetSummary(openFleet({ name: "eu", ledger: packLedger(fenced) }, 0, 0));
  expect(summary).toContain("4 of 24 GPUs leased, 1 leases, 1 requests waiting");
  expect(summary).toContain("1 hosts are fenced");
});
