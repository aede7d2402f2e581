/** @file When a fleet notifies a waiting job of why it waits. */

import { expect, it } from "vitest";
import type { PendingCode } from "../../../domain/values/codes.ts";
import { jobId } from "../../../domain/values/ids.ts";
import {
  nextNoticeAtMs,
  noticesDue,
  packNotified,
  unpackNotified,
  type Notified,
} from "../../../machines/fleet/notices.ts";
import { BOUNDED_RULES, type Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, inbox, readyLedger } from "../../scheduling/builders.ts";

const JOB = jobId("a");
const asked = inbox(readyLedger(fleetShape([{}])), [ask({ job: "a", requestedAtMs: 10_000 })]);
const waitsFor = (code: PendingCode): Ledger => ({
  ...asked.ledger,
  reasons: new Map([[JOB, { code, message: "", numbers: {}, holders: [], wakeOn: ["timer"] }]]),
});
const { seq } = [...asked.ledger.requests.values()][0] ?? { seq: NaN };
const notifiedOf = (code: PendingCode, of = seq): ReadonlyMap<typeof JOB, Notified> =>
  new Map([[JOB, { code, atMs: 20_000, seq: of }]]);

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
  {
    // The job has asked again meanwhile, and acts upon what it hears of this request.
    name: "the same code for a later request",
    code: "NoMatchingFlavor",
    notified: notifiedOf("NoMatchingFlavor", seq - 1),
    want: 80_000,
  },
  {
    name: "the same code, told by rules that do not keep the request",
    code: "NoMatchingFlavor",
    notified: new Map([[JOB, { code: "NoMatchingFlavor" as PendingCode, atMs: 20_000 }]]),
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

it("keeps what was told over continue-as-new, for the request that it was about", () => {
  const ledger = waitsFor("NoMatchingFlavor");
  const carried = (notified: ReadonlyMap<typeof JOB, Notified>, of: Ledger = ledger) =>
    unpackNotified(of, packNotified(of, notified), 30_000).get(JOB);
  expect(carried(notifiedOf("NoMatchingFlavor"))).toEqual({
    code: "NoMatchingFlavor",
    atMs: 30_000,
    seq,
  });
  expect(carried(notifiedOf("NoMatchingFlavor", seq - 1))).toBeUndefined();
  const former = { ...ledger, applyVersion: BOUNDED_RULES };
  expect(carried(notifiedOf("NoMatchingFlavor"), former)).toEqual({
    code: "NoMatchingFlavor",
    atMs: 30_000,
  });
});
