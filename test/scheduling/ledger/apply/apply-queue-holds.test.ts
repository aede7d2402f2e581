/** @file Holds of the queue: what they stop, what goes on under them, and how they end. */
import { describe, expect, test } from "vitest";
import type { QueuePart } from "../../../../domain/lease/queue-part.ts";
import { jobId, tenantId } from "../../../../domain/values/ids.ts";
import { apply, checkLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { MAX_QUEUE_HOLDS } from "../../../../scheduling/ledger/apply/apply-queue-holds.ts";
import { decide } from "../../../../scheduling/cycle/decide.ts";
import { queueOrder } from "../../../../scheduling/explain/queue-order.ts";
import { explainRequest } from "../../../../scheduling/explain/explain.ts";
import { whatIf } from "../../../../scheduling/explain/what-if.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import { ledgerAfterLoss } from "../../../../scheduling/ledger/lost-ledger.ts";
import { openSession } from "../../../../scheduling/cycle/live-scheduler.ts";
import type { Ledger, LedgerEvent } from "../../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  grantItem,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../../builders.ts";

const FLEET: QueuePart = { kind: "fleet" };
const tenant = (name: string): QueuePart => ({ kind: "tenant", tenant: tenantId(name) });
const held = (queue: QueuePart, isDraining = false, atMs = 5): LedgerEvent => ({
  kind: "queue-held",
  hold: { queue, by: "ada", atMs, reason: "audit", ...(isDraining && { isDraining: true }) },
  nowMs: atMs,
});
const released = (queue: QueuePart): LedgerEvent => ({ kind: "queue-released", queue, nowMs: 9 });
const after = (ledger: Ledger, ...events: readonly LedgerEvent[]): Ledger =>
  events.reduce((now, event) => apply(now, event).ledger, ledger);
const waiting = (...specs: readonly RequestSpec[]): Ledger =>
  inbox(readyLedger(fleetShape([{ hosts: [{}] }])), specs.map(ask)).ledger;
const starts = (ledger: Ledger): readonly string[] =>
  decide(ledger, 10).items.map(({ request }) => request.jobId);

describe("a hold", () => {
  const ledger = waiting(
    { job: "a", tenant: "x", class: "training" },
    { job: "b", tenant: "y", class: "training" },
    { job: "c", tenant: "y", class: "inference" },
  );
  const CASES: readonly [name: string, queue: QueuePart, want: readonly string[]][] = [
    ["of a tenant", tenant("y"), ["a"]],
    ["of a class", { kind: "class", class: "training" }, ["c"]],
    ["of the fleet", FLEET, []],
    ["of a tenant without jobs", tenant("z"), ["c", "a", "b"]],
  ];
  test.each(CASES)("%s lets nothing of it start", (_name, queue, want) => {
    expect([...starts(after(ledger, held(queue)))].sort()).toEqual([...want].sort());
  });

  test("refuses a grant and a reservation that were decided before it", () => {
    const now = after(waiting({ job: "a", tenant: "x" }), held(FLEET));
    const plan = planOf([grantItem("a", gpus(["c0/h0", 1]))]);
    const reserve = [{ jobId: jobId("a"), gpus: gpus(["c0/h0", 1]), kind: "backfill" as const }];
    const { refusals, ledger: same } = applyPlan(now, { ...plan, reserve });
    expect(refusals.map(({ code }) => code)).toEqual(["QueueHeld", "QueueHeld"]);
    expect(same.leases.size + (same.reservations?.size ?? 0)).toBe(0);
  });

  test("tells who holds since when, once; and what it told is taken back by its end", () => {
    const now = after(waiting({ job: "a", tenant: "x" }), held(tenant("x")));
    const plan = decide(now, 10);
    const told = applyPlan(now, plan, 10).ledger;
    const reason = told.reasons.get(jobId("a"));
    expect(reason?.code).toBe("QueueOnHold");
    expect(reason?.message).toMatch(
      /^a waits because ada has held tenant x since 1970-01-01 00:00:00 UTC \(audit\).*queue release --tenant x/,
    );
    expect(decide(told, 11).pending).toEqual([]);
    const open = after(told, released(tenant("x")));
    expect(open.reasons.size).toBe(0);
    expect(open.holds).toBeUndefined();
    expect(starts(open)).toEqual(["a"]);
  });

  test("is told anew when another one begins after it", () => {
    const told = after(waiting({ job: "a", tenant: "x" }), held(tenant("x")));
    const again = applyPlan(told, decide(told, 10), 10).ledger;
    const wider = after(again, held(FLEET), released(tenant("x")));
    expect(decide(wider, 12).pending[0]?.reason.message).toMatch(/the whole fleet/);
  });

  test("keeps what runs, the age of what waits, and its place behind the others in the queue", () => {
    const running = leased(waiting(), { job: "r", tenant: "x" }, gpus(["c0/h0", 1]));
    const now = after(
      inbox(running, [
        ask({ job: "a", tenant: "x", submittedAtMs: 1 }),
        ask({ job: "b", tenant: "y", submittedAtMs: 2 }),
      ]).ledger,
      held(tenant("x")),
    );
    expect(now.leases.size).toBe(1);
    expect(now.requests.get(jobId("a"))?.submittedAtMs).toBe(1);
    expect(queueOrder(now, 10).line.map(({ request }) => request.jobId)).toEqual(["b", "a"]);
    const answer = explainRequest(now, jobId("a"), { nowMs: 10 });
    expect(answer).toMatchObject({ kind: "waiting", position: 2, reason: { code: "QueueOnHold" } });
    expect(whatIf(now, gangRequest({ job: "n", tenant: "x" }), { nowMs: 10 })).toMatchObject({
      kind: "waits",
      answer: { reason: { code: "QueueOnHold" } },
    });
  });

  test("ends the reservations of its requests, but not what a job keeps that was stopped to be moved", () => {
    const full = leased(waiting(), { job: "r", tenant: "y", gpus: 8 }, gpus(["c0/h0", 0xff]));
    const asking = inbox(full, [
      ask({ job: "a", tenant: "x" }),
      ask({ job: "k", tenant: "x" }),
    ]).ledger;
    const reserve = [
      { jobId: jobId("a"), gpus: gpus(["c0/h0", 1]), kind: "backfill" as const },
      { jobId: jobId("k"), gpus: gpus(["c0/h0", 2]), kind: "keep" as const },
    ];
    const reserved = applyPlan(asking, { ...planOf([]), reserve }).ledger;
    const now = after(reserved, held(tenant("x")));
    expect([...(now.reservations?.keys() ?? [])]).toEqual(["k"]);
    const free = inbox(now, [end("r")]).ledger;
    expect(starts(free)).toEqual(["k"]);
  });

  test("is carried by the packed ledger and by one that was lost", () => {
    const now = after(ledger, held(tenant("x"), true), held(FLEET));
    const copy = unpackLedger(JSON.parse(JSON.stringify(packLedger(now))) as never);
    expect(copy.holds).toEqual(now.holds);
    expect(ledgerAfterLoss(now).holds).toEqual(now.holds);
    expect(checkLedger(copy)).toEqual([]);
  });

  test("is refused beyond so many", () => {
    const many = Array.from({ length: MAX_QUEUE_HOLDS }, (_, at) => held(tenant(`t${at}`)));
    const now = after(ledger, ...many);
    const { refusals, ledger: same } = apply(now, held(FLEET));
    expect(refusals.map(({ code }) => code)).toEqual(["LedgerFull"]);
    expect(same.holds?.size).toBe(MAX_QUEUE_HOLDS);
    expect(apply(now, held(tenant("t3"), true)).refusals).toEqual([]);
  });

  test("reaches a session that decides already", () => {
    const session = openSession(ledger);
    expect(session.decide(4).items).toHaveLength(3);
    session.apply(held(FLEET));
    expect(session.decide(6).items).toEqual([]);
    session.apply({ kind: "inbox", entries: [ask({ job: "n" })], nowMs: 7 });
    expect(session.decide(8).items).toEqual([]);
    session.apply(released(FLEET));
    expect(session.decide(10).items).toHaveLength(4);
  });
});
