/** @file When a fleet notifies a waiting job of why it waits. */

import { expect, it } from "vitest";
import type { PendingCode } from "../../../domain/values/codes.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { nextNoticeAtMs, noticesDue, type Notified } from "../../../machines/fleet/notices.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, inbox, readyLedger } from "../../scheduling/builders.ts";

const JOB = jobId("a");
const asked = inbox(readyLedger(fleetShape([{}])), [ask({ job: "a", requestedAtMs: 10_000 })]);
const waitsFor = (code: PendingCode): Ledger => ({
  ...asked.ledger,
  reasons: new Map([[JOB, { code, message: "", numbers: {}, holders: [], wakeOn: ["timer"] }]]),
});
const notifiedOf = (code: PendingCode): ReadonlyMap<typeof JOB, Notified> =>
  new Map([[JOB, { code, atMs: 20_000 }]]);

it.each([
  { name: "the first", code: "WaitingForGpus", notified: new Map(), want: 13_000 },
  { name: "a hopeless one", code: "NoMatchingFlavor", notified: new Map(), want: 10_000 },
  {
    name: "another code",
    code: "WaitingForQuota",
    notified: notifiedOf("WaitingForGpus"),
    want: 80_000,
  },
  {
    name: "the same code",
    code: "WaitingForGpus",
    notified: notifiedOf("WaitingForGpus"),
    want: Infinity,
  },
] as const)("is due: $name", ({ code, notified, want }) => {
  const ledger = waitsFor(code);
  expect(nextNoticeAtMs(ledger, notified)).toBe(want);
  const due = (nowMs: number) => noticesDue(ledger, notified, nowMs).map(({ jobId: id }) => id);
  const isEver = want < Infinity;
  const atMs = isEver ? want : 1e9;
  expect([due(atMs - 1), due(atMs)]).toEqual([[], isEver ? [JOB] : []]);
});

it("sends none while no cycle has seen the request", () => {
  expect(nextNoticeAtMs(asked.ledger, new Map())).toBe(Infinity);
});
