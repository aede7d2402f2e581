/** @file What is kept for a gang that has lost a host, when its fleet then loses its ledger: the gang says it, and is believed while the fleet recovers. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../../domain/values/ids.ts";
import type { HostGpus } from "../../../../domain/lease/lease.ts";
import { apply, checkLedger, nextReturnAtMs } from "../../../../scheduling/ledger/apply/apply.ts";
import { RETURN_MS } from "../../../../scheduling/ledger/apply/kept-hosts.ts";
import { LATE_ANSWERS_MS } from "../../../../scheduling/ledger/apply/ledger-recovery.ts";
import type { Ledger, LedgerEvent } from "../../../../scheduling/ledger/ledger.ts";
import { ledgerAfterLoss } from "../../../../scheduling/ledger/lost-ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gpus,
  grantItem,
  hello,
  host,
  planOf,
  readyLedger,
} from "../../builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}, {}, {}] }]);
const ALL = gpus(["c0/h0", 255], ["c0/h1", 255], ["c0/h2", 255], ["c0/h3", 255]);
const KEPT = ALL.slice(0, 3);
const LEFT_MS = 200_000;
const SAYS = { ...end("run"), unconfirmedHosts: "all", returns: true, keepMs: LEFT_MS, kept: KEPT };
const HEARD = KEPT.map(({ host }) => hello([host]));
const again = (seq = 2) => ask({ job: "run", gpus: 32, seq, requestedAtMs: 90 });

/** A job claims a lease of these GPUs. */
const runs = (job: string, some: readonly HostGpus[], seq = 1): unknown => ({
  kind: "assert",
  lease: {
    id: "lease-1",
    token: 1,
    jobId: job,
    runId: `${job}-run1`,
    seq,
    class: "training",
    tenant: "default",
    gpus: some,
    grantedAtMs: 0,
    requestedAtMs: 0,
  },
});

const step = (ledger: Ledger, event: LedgerEvent): Ledger => {
  const after = apply(ledger, event).ledger;
  expect(checkLedger(after)).toEqual([]);
  return after;
};
const tell = (ledger: Ledger, nowMs: number, ...entries: readonly unknown[]): Ledger =>
  step(ledger, { kind: "inbox", entries, nowMs });
const at = (nowMs: number): LedgerEvent => ({ kind: "clock", nowMs });
const keptOf = (ledger: Ledger, job = "run"): readonly HostGpus[] | undefined =>
  ledger.reservations?.get(jobId(job))?.gpus;
/** It began again and has heard of no agent. */
const lost = (before = readyLedger(SHAPE)): Ledger => ledgerAfterLoss(before);

describe("a fleet that has lost its ledger", () => {
  test("keeps for a gang what the gang says, for the rest of the time, and mends it", () => {
    const ledger = tell(lost(), 100, ...HEARD, SAYS, again());
    expect(ledger.reservations?.get(jobId("run"))).toEqual({
      jobId: "run",
      gpus: KEPT,
      kind: "replace",
      sinceMs: 100,
      untilMs: 100 + LEFT_MS,
    });
    const other = tell(ledger, 101, ask({ job: "other", gpus: 8 }), hello(["c0/h3"]));
    const taken = applyPlan(other, planOf([grantItem("other", KEPT.slice(0, 1))]), 102);
    expect(taken.refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
    const mended = applyPlan(other, planOf([grantItem("run", ALL, { seq: 2 })]), 102);
    expect(mended.refusals).toEqual([]);
    expect(keptOf(mended.ledger)).toBeUndefined();
  });

  test("keeps hosts whose agents are yet to speak, for a minute", () => {
    const ledger = tell(lost(), 100, SAYS, again(), ...HEARD.slice(0, 2));
    expect(keptOf(ledger)).toEqual(KEPT);
    expect(nextReturnAtMs(ledger)).toBe(100 + RETURN_MS);
    expect(keptOf(step(ledger, at(99 + RETURN_MS)))).toEqual(KEPT);
    const left = step(ledger, at(100 + RETURN_MS));
    expect(keptOf(left)).toEqual(KEPT.slice(0, 2));
    expect(nextReturnAtMs(left)).toBe(100 + LEFT_MS);
    const whole = tell(ledger, 200, HEARD[2]);
    expect(nextReturnAtMs(whole)).toBe(100 + LEFT_MS);
    expect(keptOf(step(whole, at(100 + RETURN_MS)))).toEqual(KEPT);
  });

  test("keeps nothing on which somebody runs, that is drained, or that it does not have", () => {
    const drained = lost(
      step(readyLedger(SHAPE), { kind: "drain", hosts: [host("c0/h1")], reason: "fan", nowMs: 1 }),
    );
    const claim = runs("other", gpus(["c0/h0", 15]));
    const said = { ...SAYS, kept: [...KEPT, ...gpus(["c0/h9", 1])] };
    const ledger = tell(drained, 100, ...HEARD, claim, said, again());
    expect(keptOf(ledger)).toEqual(gpus(["c0/h0", 240], ["c0/h2", 255]));
  });

  test("keeps nothing for a gang that runs, or twice", () => {
    const claim = runs("run", ALL, 2);
    expect(keptOf(tell(lost(), 100, ...HEARD, claim, SAYS))).toBeUndefined();
    const first = tell(lost(), 100, ...HEARD, SAYS, again());
    expect(tell(first, 200, SAYS).reservations).toEqual(first.reservations);
    const other = { ...SAYS, jobId: "other", runId: "run-other" };
    expect(
      keptOf(tell(first, 200, other, ask({ job: "other", gpus: 8 })), "other"),
    ).toBeUndefined();
  });

  test("believes it only while it recovers, and only under rules that know of it", () => {
    expect(keptOf(tell(readyLedger(SHAPE), 100, SAYS, again()))).toBeUndefined();
    const asked = step(lost(), {
      kind: "recovery-asked",
      untilMs: 50 + LATE_ANSWERS_MS,
      nowMs: 50,
    });
    expect(keptOf(tell(asked, 50 + LATE_ANSWERS_MS, ...HEARD, SAYS, again()))).toBeUndefined();
    const former = lost({ ...readyLedger(SHAPE), applyVersion: 7 });
    expect(keptOf(tell(former, 100, ...HEARD, SAYS, again()))).toBeUndefined();
  });

  test("ends it with the gang, and when the gang does not ask", () => {
    const ledger = tell(lost(), 100, ...HEARD, SAYS);
    expect(keptOf(step(ledger, at(100 + RETURN_MS)))).toBeUndefined();
    const asked = tell(ledger, 101, again());
    expect(keptOf(tell(asked, 102, end("run", { seq: 2 })))).toBeUndefined();
  });

  test.each([
    { name: "no list", kept: "h0" },
    { name: "a host twice", kept: gpus(["c0/h0", 1], ["c0/h0", 2]) },
    { name: "no GPU", kept: gpus(["c0/h0", 0]) },
  ])("refuses $name", ({ kept }) => {
    const { deadLetters } = tell(lost(), 100, { ...SAYS, kept });
    expect(deadLetters.map(({ code }) => code)).toEqual(["EntryMalformed"]);
  });
});
