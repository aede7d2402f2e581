/**
 * @file What a presence tells of an agent counts in the order in which it was told; a successor's silence is its host's; and a fence is over when its
 * host answers.
 *
 * Each was a bug that the world found (docs/decisions/0108).
 */

import { expect, test } from "vitest";
import { apply, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { end, fleetShape, gpus, hello, host, inbox, leased } from "../../builders.ts";

const HOST = host("c0/h0");
const FENCE_MS = 60_000;
const TEN_MINUTES = 600_000;

const registered = (epoch: string, toldAtMs: number, terms: object = { fenceMs: FENCE_MS }) => ({
  ...hello([HOST], { epoch }),
  terms,
  toldAtMs,
});
const silence = (epoch: string, toldAtMs: number) => ({
  kind: "silence",
  hosts: [HOST],
  epoch,
  toldAtMs,
});
const gone = (epoch: string, toldAtMs: number) => ({
  kind: "agent-deregistered",
  hosts: [HOST],
  epoch,
  toldAtMs,
});

/** The job `a` has a GPU of the host, whose agent of the first epoch was told of at 100. */
const ready = (applyVersion: number): Ledger => {
  const empty = { ...emptyLedger(fleetShape([{ hosts: [{}, {}, {}] }])), applyVersion };
  const { ledger } = inbox(empty, [registered("e1", 100), hello(["c0/h1", "c0/h2"])], 100);
  return leased(ledger, { job: "a" }, gpus([HOST, 1]));
};
const START = ready(5);

const told = (ledger: Ledger, entries: readonly unknown[], nowMs = 1_000): Ledger => {
  const next = inbox(ledger, entries, nowMs).ledger;
  expect(checkLedger(next)).toEqual([]);
  expect(next.deadLetters).toEqual([]);
  return next;
};
const later = (ledger: Ledger, nowMs: number): Ledger =>
  apply(ledger, { kind: "clock", nowMs }).ledger;
const statusOf = (ledger: Ledger) => ledger.hosts.get(HOST);

test("a silence that a registration has overtaken is none; under rules 4 it was one for ever", () => {
  const words = [registered("e1", 300), silence("e1", 200)];
  expect(statusOf(told(START, words))).not.toHaveProperty("silentSinceMs");
  expect(statusOf(told(ready(4), words))).toHaveProperty("silentSinceMs");
});

test("a registration that a silence has overtaken does not make the host answer", () => {
  const silent = told(START, [silence("e1", 300), registered("e1", 200)]);
  expect(statusOf(silent)).toMatchObject({ silentSinceMs: 1_000, toldAtMs: 300 });
  expect(statusOf(told(silent, [registered("e1", 400)]))).not.toHaveProperty("silentSinceMs");
});

test("a copy of the last registration brings a fenced host, or one whose agent has ended, not back", () => {
  const copy = registered("e1", 100);
  const fenced = apply(START, { kind: "fence", hosts: [HOST], nowMs: 2_000 }).ledger;
  expect(statusOf(told(fenced, [copy], 3_000))).toMatchObject({ isFenced: true });
  const ended = told(START, [gone("e1", 200), copy]);
  expect(statusOf(ended)).not.toHaveProperty("agent");
  expect(statusOf(told(ended, [registered("e2", 150)]))).toHaveProperty("agent.epoch", "e2");
});

test("words without a date count whenever they come, and one of the future is refused", () => {
  const { toldAtMs: _date, ...undated } = silence("e1", 0);
  expect(statusOf(told(START, [undated]))).toHaveProperty("silentSinceMs");
  const { ledger } = inbox(START, [silence("e1", 1e15)], 1_000);
  expect(ledger.deadLetters.map(({ code }) => code)).toEqual(["EntryMalformed"]);
});

test("the date is kept when a ledger is packed", () => {
  for (const ledger of [START, told(START, [gone("e1", 200)])])
    expect(unpackLedger(packLedger(ledger)).hosts).toEqual(ledger.hosts);
});

test("an agent that falls silent before its first report is a silent host, by a clock of ten minutes at least", () => {
  const silent = told(START, [silence("e2", 200)]);
  expect(statusOf(later(silent, 1_000 + TEN_MINUTES - 1))).not.toHaveProperty("isFenced");
  expect(statusOf(later(silent, 1_000 + TEN_MINUTES))).toHaveProperty("isFenced");
  expect(statusOf(told(silent, [registered("e2", 300)]))).not.toHaveProperty("silentSinceMs");
  expect(statusOf(told(ready(4), [silence("e2", 200)]))).not.toHaveProperty("silentSinceMs");
  // An older agent's silence is a late word, and terms of hold know no clock.
  expect(statusOf(told(START, [silence("e0", 200)]))).not.toHaveProperty("silentSinceMs");
  const holding = told(START, [registered("e1", 150, {}), silence("e2", 200)]);
  expect(statusOf(later(holding, 1e9))).not.toHaveProperty("isFenced");
});

test("leases that a lost ledger has heard of on a host that it remembers as fenced end with the silence of that host", () => {
  const fenced = apply(START, { kind: "fence", hosts: [HOST], nowMs: 2_000 }).ledger;
  const [lease] = START.leases.values();
  if (lease === undefined) throw new Error("there is a lease");
  // As if its job had asserted it since the loss.
  const heard = { ...fenced, leases: new Map([[lease.id, { ...lease, state: "held" as const }]]) };
  const ended = told(heard, [silence("e1", 2_500), end("a", { unconfirmed: [HOST] })], 3_000);
  expect(ended.leases.size).toBe(1);
  expect(later(ended, 3_000 + TEN_MINUTES).leases.size).toBe(0);
  expect(statusOf(told(fenced, [silence("e1", 2_500)], 3_000))).toHaveProperty("isFenced");
});

test("what a fence has confirmed of a held lease counts no longer once its host answers", () => {
  const ended = end("a", { unconfirmed: [HOST] });
  const fenced = apply(START, { kind: "fence", hosts: [HOST], nowMs: 2_000 }).ledger;
  expect(told(fenced, [ended], 3_000).leases.size).toBe(0);
  const back = told(fenced, [registered("e2", 2_500), ended], 3_000);
  expect([...back.leases.values()].map(({ vacatingHosts }) => vacatingHosts)).toEqual([[HOST]]);
  const former = apply(ready(4), { kind: "fence", hosts: [HOST], nowMs: 2_000 }).ledger;
  expect(told(former, [registered("e2", 2_500), ended], 3_000).leases.size).toBe(0);
});

test("a late copy of a silent successor's registration changes nothing, before its fence and after; under rules 6 the host seemed to answer", () => {
  const words = [silence("e2", 300), registered("e2", 200)];
  const silent = told(ready(7), words);
  expect(statusOf(silent)).toMatchObject({ silentSinceMs: 1_000, lastEpoch: "e2" });
  expect(unpackLedger(packLedger(silent))).toEqual(silent);
  const fenced = later(silent, 1_000 + TEN_MINUTES);
  expect(statusOf(told(fenced, [registered("e2", 200)], 700_000))?.isFenced).toBe(true);
  expect(statusOf(told(silent, [registered("e2", 400)]))).not.toHaveProperty("silentSinceMs");
  expect(statusOf(told(ready(6), words))).not.toHaveProperty("silentSinceMs");
});

test("the silence of a successor counts on a host that is silent already: a late copy of its registration does not end the silence", () => {
  const words = [silence("e1", 200), silence("e2", 400), registered("e2", 300)];
  const silent = told(ready(7), [silence("e1", 200)], 1_000);
  const both = told(silent, [silence("e2", 400)], 5_000);
  // Since the first agent's silence, by a clock no shorter than a stranger's.
  expect(statusOf(both)).toMatchObject({
    ...{ silentSinceMs: 1_000, lastEpoch: "e2", toldAtMs: 400, fenceMs: TEN_MINUTES },
  });
  expect(unpackLedger(packLedger(both))).toEqual(both);
  expect(statusOf(told(both, [registered("e2", 300)], 6_000))).toEqual(statusOf(both));
  // Nor do later words of the older agents, or a copy of the silence.
  const stale = [silence("e1", 450), silence("e0", 450), silence("e2", 400)];
  expect(statusOf(told(both, stale, 6_000))).toEqual(statusOf(both));
  expect(statusOf(told(both, [registered("e2", 500)], 6_000))).not.toHaveProperty("silentSinceMs");
  expect(statusOf(told(ready(6), words))).not.toHaveProperty("silentSinceMs");
});
