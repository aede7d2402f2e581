/** @file What a fleet keeps for a gang that has lost a host: which GPUs, from when, until when, and against whom. */
import { describe, expect, test } from "vitest";
import { jobId, leaseId, runId, token } from "../../../../domain/values/ids.ts";
import type { HostGpus } from "../../../../domain/lease/lease.ts";
import type { QueuePart } from "../../../../domain/lease/queue-part.ts";
import { apply, checkLedger, nextReturnAtMs } from "../../../../scheduling/ledger/apply/apply.ts";
import { RETURN_MS } from "../../../../scheduling/ledger/apply/kept-hosts.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger, LedgerEvent } from "../../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gpus,
  grantItem,
  hello,
  host,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../../builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}, {}, {}] }]);
const ALL = gpus(["c0/h0", 255], ["c0/h1", 255], ["c0/h2", 255], ["c0/h3", 255]);
const KEPT = ALL.slice(0, 3);
const KEEP_MS = 300_000;
const ENDED_MS = 100_000;

const step = (ledger: Ledger, event: LedgerEvent): Ledger => {
  const after = apply(ledger, event).ledger;
  expect(checkLedger(after)).toEqual([]);
  expect(unpackLedger(JSON.parse(JSON.stringify(packLedger(after))) as never)).toEqual(after);
  return after;
};
const at = (nowMs: number): LedgerEvent => ({ kind: "clock", nowMs });
const entries = (nowMs: number, ...some: readonly unknown[]): LedgerEvent => ({
  kind: "inbox",
  entries: some,
  nowMs,
});
const lose = (name: string, nowMs = ENDED_MS): LedgerEvent => ({
  kind: "fence",
  hosts: [host(name)],
  nowMs,
});
const GIVES_UP = { ...end("run", { unconfirmed: ["c0/h3"] }), returns: true, keepMs: KEEP_MS };
const again = (spec: RequestSpec = {}) =>
  ask({ job: "run", gpus: 32, seq: 2, requestedAtMs: ENDED_MS, ...spec });
const keptOf = (ledger: Ledger): readonly HostGpus[] | undefined =>
  ledger.reservations?.get(jobId("run"))?.gpus;

const running = (spec: RequestSpec = {}): Ledger =>
  step(leased(readyLedger(SHAPE), { job: "run", gpus: 32, ...spec }, ALL), {
    kind: "delivered",
    accepted: [leaseId(token(1))],
    gone: [],
    nowMs: 0,
  });
/** It has lost its last host and has said so. */
const lost = (entry: unknown = GIVES_UP, before = running()): Ledger =>
  step(step(before, lose("c0/h3")), entries(ENDED_MS, entry));

describe("a gang of four hosts that has lost one", () => {
  test("keeps the other three from the end of its lease on", () => {
    const ledger = lost();
    expect(ledger.leases.size).toBe(0);
    expect(ledger.reservations?.get(jobId("run"))).toEqual({
      jobId: "run",
      gpus: KEPT,
      kind: "replace",
      sinceMs: ENDED_MS,
      untilMs: ENDED_MS + KEEP_MS,
    });
    const taken = inbox(ledger, [ask({ job: "other", gpus: 8 })]).ledger;
    const { refusals } = applyPlan(taken, planOf([grantItem("other", KEPT.slice(0, 1))]), ENDED_MS);
    expect(refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
  });

  test("keeps them while it has not asked yet, but no longer than a minute", () => {
    const ledger = lost();
    expect(nextReturnAtMs(ledger)).toBe(ENDED_MS + RETURN_MS);
    expect(keptOf(step(ledger, at(ENDED_MS + RETURN_MS - 1)))).toEqual(KEPT);
    expect(keptOf(step(ledger, at(ENDED_MS + RETURN_MS)))).toBeUndefined();
  });

  test("keeps them until the stated time once it has asked", () => {
    const ledger = step(lost(), entries(ENDED_MS + 1, again()));
    expect(nextReturnAtMs(ledger)).toBe(ENDED_MS + KEEP_MS);
    expect(keptOf(step(ledger, at(ENDED_MS + KEEP_MS - 1)))).toEqual(KEPT);
    const over = step(ledger, at(ENDED_MS + KEEP_MS));
    expect(keptOf(over)).toBeUndefined();
    expect(over.requests.has(jobId("run"))).toBe(true);
  });

  test("has nothing kept any more once it is granted GPUs", () => {
    const back = step(lost(), entries(ENDED_MS + 1, hello(["c0/h3"], { epoch: "e2" }), again()));
    const { ledger, refusals } = applyPlan(
      back,
      planOf([grantItem("run", ALL, { seq: 2 })]),
      ENDED_MS + 2,
    );
    expect(refusals).toEqual([]);
    expect(checkLedger(ledger)).toEqual([]);
    expect(keptOf(ledger)).toBeUndefined();
  });

  test("keeps nothing where it says nothing, or no time", () => {
    expect(keptOf(lost({ ...GIVES_UP, keepMs: 0 }))).toBeUndefined();
    expect(keptOf(lost({ ...end("run"), returns: true }))).toBeUndefined();
  });

  test("is refused a time above an hour", () => {
    const ledger = lost({ ...GIVES_UP, keepMs: 3_600_001 });
    expect(ledger.deadLetters.map(({ code }) => code)).toEqual(["EntryMalformed"]);
  });

  test("keeps nothing under former rules", () => {
    const former = { ...running(), applyVersion: 5 };
    expect(keptOf(lost(GIVES_UP, former))).toBeUndefined();
  });

  test("keeps what is sound, where its lost host is only silent so far", () => {
    const silent = step(
      running(),
      entries(50_000, { kind: "silence", hosts: [host("c0/h3")], epoch: "e1" }),
    );
    const ledger = step(silent, entries(ENDED_MS, GIVES_UP));
    expect(keptOf(ledger)).toEqual(KEPT);
    expect(ledger.leases.get(leaseId(token(1)))?.vacatingHosts).toEqual(["c0/h3"]);
  });
});

describe("what is kept ends", () => {
  const HELD: QueuePart = { kind: "class", class: "training" };
  const hold = (nowMs: number): LedgerEvent => ({
    kind: "queue-held",
    hold: { queue: HELD, by: "ada", atMs: nowMs },
    nowMs,
  });
  const asked = () => step(lost(), entries(ENDED_MS + 1, again()));

  test.each([
    ["the job ends", entries(ENDED_MS + 2, end("run", { seq: 2 }))],
    ["an operator holds its queue", hold(ENDED_MS + 2)],
    [
      "its run is found closed",
      {
        kind: "audited",
        closed: [{ jobId: jobId("run"), runId: runId("run-run1") }],
        nowMs: ENDED_MS + 2,
      } as const,
    ],
  ])("when %s", (_, event) => {
    expect(keptOf(asked())).toEqual(KEPT);
    expect(keptOf(step(asked(), event))).toBeUndefined();
  });

  test("a minute after its run was found to be reset, unless the new run asks meanwhile", () => {
    const closed = [{ jobId: jobId("run"), runId: runId("run-run1"), isReset: true }] as const;
    const resetMs = ENDED_MS + RETURN_MS + 2;
    const reset: LedgerEvent = { kind: "audited", closed, nowMs: resetMs };
    const ledger = step(asked(), reset);
    expect(ledger.requests.has(jobId("run"))).toBe(false);
    expect(nextReturnAtMs(ledger)).toBe(resetMs + RETURN_MS);
    expect(keptOf(step(ledger, at(resetMs + RETURN_MS - 1)))).toEqual(KEPT);
    expect(keptOf(step(ledger, at(resetMs + RETURN_MS)))).toBeUndefined();
    const anew = again({ run: "run-run2", seq: 1, requestedAtMs: resetMs + 1 });
    const returned = step(ledger, entries(resetMs + 1, anew));
    expect(nextReturnAtMs(returned)).toBe(ENDED_MS + KEEP_MS);
    expect(keptOf(step(returned, at(ENDED_MS + KEEP_MS - 1)))).toEqual(KEPT);
    expect(keptOf(step({ ...asked(), applyVersion: 9 }, reset))).toBeUndefined();
  });

  test("when the job withdraws before it has asked again", () => {
    expect(keptOf(step(lost(), entries(ENDED_MS + 2, end("run", { seq: 2 }))))).toBeUndefined();
  });

  test("when it asks again into a queue that is held since", () => {
    const held = step(lost(), hold(ENDED_MS + 1));
    expect(keptOf(step(held, entries(ENDED_MS + 2, again())))).toBeUndefined();
  });

  test("and not when its settings change while it waits", () => {
    const amended = step(asked(), entries(ENDED_MS + 2, again({ seq: 3, priority: 5 })));
    expect(keptOf(amended)).toEqual(KEPT);
  });

  test("for the one host that is drained, fenced or silent, and not for the others", () => {
    const events: readonly LedgerEvent[] = [
      { kind: "drain", hosts: [host("c0/h1")], reason: "fan", nowMs: ENDED_MS + 2 },
      lose("c0/h1", ENDED_MS + 2),
      entries(ENDED_MS + 2, { kind: "silence", hosts: [host("c0/h1")], epoch: "e1" }),
    ];
    for (const event of events) expect(keptOf(step(asked(), event))).toEqual([KEPT[0], KEPT[2]]);
  });

  test("where nothing of it is left", () => {
    const hosts = KEPT.map((part) => part.host);
    expect(
      keptOf(step(asked(), { kind: "drain", hosts, reason: "power", nowMs: ENDED_MS + 2 })),
    ).toBeUndefined();
  });
});

describe("what others have reserved", () => {
  const reserved = (kind: "backfill" | "preemption"): Ledger => {
    const waits = inbox(running(), [ask({ job: "head", gpus: 8 })], 1).ledger;
    const plan = {
      ...planOf([]),
      reserve: [{ jobId: jobId("head"), gpus: KEPT.slice(0, 1), kind } as const],
    };
    const { ledger, refusals } = applyPlan(waits, plan, 2);
    expect(refusals).toEqual([]);
    return ledger;
  };

  test("to wait for the gang's end waits on: the gang goes on", () => {
    const ledger = lost(GIVES_UP, reserved("backfill"));
    expect(keptOf(ledger)).toEqual(KEPT);
    expect(ledger.reservations?.has(jobId("head"))).toBe(false);
  });

  test("while others give way for it is theirs", () => {
    const ledger = lost(GIVES_UP, reserved("preemption"));
    expect(keptOf(ledger)).toEqual(KEPT.slice(1));
    expect(ledger.reservations?.get(jobId("head"))?.gpus).toEqual(KEPT.slice(0, 1));
  });
});

test("a plan makes what is kept smaller, and never larger", () => {
  const ledger = step(lost(), entries(ENDED_MS + 1, again()));
  const shrink = (parts: readonly HostGpus[]) =>
    applyPlan(
      ledger,
      { ...planOf([]), reserve: [{ jobId: jobId("run"), gpus: parts, kind: "replace" }] },
      ENDED_MS + 2,
    );
  expect(keptOf(shrink(KEPT.slice(1)).ledger)).toEqual(KEPT.slice(1));
  expect(shrink(KEPT.slice(1)).ledger.reservations?.get(jobId("run"))?.untilMs).toBe(
    ENDED_MS + KEEP_MS,
  );
  const { ledger: same, refusals } = shrink(ALL);
  expect(refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
  expect(keptOf(same)).toEqual(KEPT);
});
