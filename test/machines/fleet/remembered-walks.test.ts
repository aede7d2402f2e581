/** @file What walks over the waiting requests have found is kept for each map: after any changes the answers are those of maps never seen before. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ms } from "../../../domain/values/units.ts";
import { jobId, type JobId } from "../../../domain/values/ids.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { nextNoticeAtMs, noticesDue, type Notified } from "../../../machines/fleet/notices.ts";
import {
  FULL_PATIENCE,
  nextExpiryAtMs,
  nextExpiryNoticeAtMs,
  takeExpired,
} from "../../../machines/fleet/patience.ts";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gangRequest } from "../../scheduling/builders.ts";

const EMPTY = emptyLedger(fleetShape([{}]));

interface Now extends Pick<Ledger, "requests" | "reasons"> {
  readonly notified: ReadonlyMap<JobId, Notified>;
}

const code = fc.constantFrom("WaitingForGpus", "BehindEarlierJob", "NoMatchingFlavor");
const change = fc.record({
  job: fc.constantFrom("a", "b", "c", "d").map(jobId),
  map: fc.constantFrom("requests", "reasons", "notified"),
  isGone: fc.boolean(),
  atMs: fc.nat(200_000),
  patienceMs: fc.option(fc.nat(100_000), { nil: undefined }),
  code,
});
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;

/** Another map in the place of one, as a step of the machine makes it. */
function after(now: Now, { job, map, isGone, atMs, patienceMs, code: of }: Change): Now {
  const put = <T>(before: ReadonlyMap<JobId, T>, value: T): ReadonlyMap<JobId, T> => {
    const copy = new Map(before);
    if (isGone) copy.delete(job);
    else copy.set(job, value);
    return copy;
  };
  if (map === "notified") return { ...now, notified: put(now.notified, { code: of, atMs }) };
  const reason: PendingReason = {
    code: of,
    message: "",
    numbers: {},
    holders: [],
    wakeOn: ["timer"],
  };
  if (map === "reasons") return { ...now, reasons: put(now.reasons, reason) };
  const request: PendingRequest = {
    ...gangRequest({ job, requestedAtMs: atMs }),
    ...(patienceMs !== undefined && { patienceMs: ms(patienceMs) }),
    arrival: atMs,
  };
  return { ...now, requests: put(now.requests, request) };
}

function answersOf({ notified, ...maps }: Now, nowMs: number): unknown {
  const ledger: Ledger = { ...EMPTY, ...maps };
  const patience = { ...FULL_PATIENCE, decidedAtMs: nowMs };
  return [
    nextNoticeAtMs(ledger, notified),
    noticesDue(ledger, notified, nowMs),
    nextExpiryAtMs(FULL_PATIENCE, ledger),
    nextExpiryNoticeAtMs(patience, ledger),
    takeExpired(patience, ledger, { fleet: "eu", most: 3, nowMs }).notes,
  ];
}

const unseen = ({ requests, reasons, notified }: Now): Now => ({
  requests: new Map(requests),
  reasons: new Map(reasons),
  notified: new Map(notified),
});

test("answers are those of maps that were never seen, also of states that were left long ago", () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 30 }), fc.nat(300_000), (changes, nowMs) => {
      const states: Now[] = [{ requests: new Map(), reasons: new Map(), notified: new Map() }];
      for (const each of changes) {
        const last = states.at(-1);
        if (last !== undefined) states.push(after(last, each));
      }
      for (const state of [...states, ...states.reverse()])
        expect(answersOf(state, nowMs)).toEqual(answersOf(unseen(state), nowMs));
    }),
  );
});
