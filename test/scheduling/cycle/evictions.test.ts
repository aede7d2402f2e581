/** @file A job that is due GPUs takes them from running jobs in its first cycle, also where they are reserved for jobs behind it. */

import { expect, test } from "vitest";
import { gpuCountOf } from "../../../domain/lease/lease.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { whoKeeps } from "../../../scheduling/explain/gives-way.ts";
import { checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { PREEMPTIBLE_BY_INFERENCE_MS } from "../../../scheduling/reservation/access.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const NOW_MS = 600_000;
const SHAPE = fleetShape([{ hosts: [{ gpus: 4 }, { gpus: 4 }, { gpus: 4 }] }]);
const ALL = gpus(["c0/h0", 0xf], ["c0/h1", 0xf], ["c0/h2", 0xf]);
const UNPROTECTED = { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(0) };

/** The ledger after one cycle more, in which every item was taken. */
function cycled(ledger: Ledger, nowMs: number): Ledger {
  const { ledger: after, refusals } = applyPlan(ledger, decide(ledger, nowMs), nowMs);
  expect(refusals).toEqual([]);
  expect(checkLedger(after)).toEqual([]);
  return after;
}

/** One job has all 12 GPUs and those behind it have asked, so that the first of them have them reserved. */
function reservedBy(behind: readonly RequestSpec[], atMs = NOW_MS): Ledger {
  const busy = leased(readyLedger(SHAPE), { job: "holds", gpus: 12, preemption: UNPROTECTED }, ALL);
  const entries = behind.map((spec) => ask({ submittedAtMs: atMs, requestedAtMs: atMs, ...spec }));
  return cycled(inbox(busy, entries, atMs).ledger, atMs);
}

function with8Due(ledger: Ledger, nowMs: number): Ledger {
  const due = { job: "due", class: "inference", gpus: 8 } as const;
  const asked = ask({ ...due, submittedAtMs: nowMs, requestedAtMs: nowMs });
  return cycled(inbox(ledger, [asked], nowMs).ledger, nowMs);
}

const beneficiaries = ({ leases }: Ledger) =>
  [...leases.values()].flatMap(({ eviction }) => (eviction === undefined ? [] : eviction.forJob));
const reservedGpus = ({ reservations }: Ledger) =>
  [...(reservations?.values() ?? [])].map((each) => [each.jobId, each.kind, gpuCountOf(each.gpus)]);

test.each<{ readonly name: string; readonly behind: readonly RequestSpec[] }>([
  { name: "for nobody", behind: [] },
  { name: "in part for a job behind it", behind: [{ job: "a", gpus: 8 }] },
  { name: "all for a job behind it", behind: [{ job: "a", gpus: 12 }] },
  {
    name: "for as many jobs as may have a reservation",
    behind: ["a", "b", "c", "d"].map((job) => ({ job, gpus: 4 })),
  },
])("at once where its GPUs are reserved $name", ({ behind }) => {
  const ledger = with8Due(reservedBy(behind), NOW_MS + 1_000);
  expect(beneficiaries(ledger)).toEqual(["due"]);
  expect(reservedGpus(ledger)).toContainEqual(["due", "preemption", 8]);
  expect(ledger.reasons.get(jobId("due"))?.code).toBe("WaitingForPreempted");
  const [kept] = whoKeeps(ledger, jobId("due"), NOW_MS + 1_000);
  expect(kept?.rule).toBe("stops-already");
});

test("what stays reserved for the job behind it is what it does not need", () => {
  const ledger = with8Due(reservedBy([{ job: "a", gpus: 4 }]), NOW_MS + 1_000);
  expect(reservedGpus(ledger)).toEqual([
    ["a", "backfill", 4],
    ["due", "preemption", 8],
  ]);
});

test("a victim that shrinks keeps nothing that stays reserved", () => {
  const shrinks = { gpus: 12, gang: { min: 1 }, preemption: { ...UNPROTECTED, mayShrink: true } };
  const held = leased(readyLedger(SHAPE), { job: "holds", ...shrinks }, ALL);
  const times = { submittedAtMs: NOW_MS, requestedAtMs: NOW_MS };
  const behind = inbox(held, [ask({ job: "a", gpus: 11, ...times })], NOW_MS).ledger;
  const ledger = with8Due(cycled(behind, NOW_MS), NOW_MS + 1_000);
  expect(reservedGpus(ledger)).toContainEqual(["due", "preemption", 8]);
  expect(reservedGpus(ledger)).toContainEqual(["holds", "keep", 1]);
});

test("not what a job has waited for longer than reservations may be taken", () => {
  const nowMs = NOW_MS + PREEMPTIBLE_BY_INFERENCE_MS;
  const ledger = with8Due(reservedBy([{ job: "a", gpus: 12 }]), nowMs);
  expect(beneficiaries(ledger)).toEqual([]);
  expect(reservedGpus(ledger)).toEqual([["a", "backfill", 12]]);
});
