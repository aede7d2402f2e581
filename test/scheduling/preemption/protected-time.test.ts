/** @file Who waits for a lease that is still protected is looked at again when it no longer is, although nothing happens. */
import { expect, test } from "vitest";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { ask, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";

const PROTECTED_MS = 60_000;

test("the plan asks for a decision at the end of the protected time, and that one evicts", () => {
  const shape = fleetShape([{ hosts: [{}] }]);
  const busy = leased(readyLedger(shape), { job: "train", gpus: 8 }, gpus(["c0/h0", 0xff]));
  const waiting = { job: "infer", class: "inference", gpus: 1, requestedAtMs: 1_000 } as const;
  const { ledger } = inbox(busy, [ask(waiting)], 1_000);
  const early = decide(ledger, 1_000);
  expect(early.evict).toBeUndefined();
  expect(early.wakeAtMs).toBeLessThanOrEqual(PROTECTED_MS);
  const { evict = [] } = decide(ledger, PROTECTED_MS);
  expect(evict.map(({ forJob }) => forJob)).toEqual(["infer"]);
});
