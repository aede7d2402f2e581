/** @file When a fleet estimates starts: at times of the grid alone, one at a time, and never late. */

import { expect, it } from "vitest";
import type { Ledger } from "../../scheduling/ledger.ts";
import { FORESIGHT_PERIOD_MS as PERIOD_MS } from "../../scheduling/foresight-clock.ts";
import { openForesight } from "../../workflows/fleet-foresight.ts";
import { ask, fleetShape, inbox, readyLedger } from "../scheduling/builders.ts";
import { jobId, tenantId } from "../../domain/ids.ts";

const note = {
  class: "training" as const,
  tenant: tenantId("t"),
  gpus: 1,
  submittedAtMs: 0,
  grantedAtMs: 0,
  endedAtMs: 1,
};
const IDLE: Ledger = {
  ...readyLedger(fleetShape([{ hosts: [{}] }])),
  runs: Array.from({ length: 8 }, () => note),
};
const BUSY: Ledger = inbox(IDLE, [ask({ job: "waits" })]).ledger;

it("asks at the next time of the grid while somebody waits, and not again before the answer", () => {
  expect(BUSY.requests.has(jobId("waits"))).toBe(true);
  const foresight = openForesight(PERIOD_MS + 1);
  expect(foresight.nextAtMs(IDLE)).toBe(Infinity);
  expect(foresight.nextAtMs(BUSY)).toBe(2 * PERIOD_MS);
  foresight.asks();
  expect(foresight.nextAtMs(BUSY)).toBe(Infinity);
  foresight.asked(2 * PERIOD_MS + 5_000);
  expect(foresight.nextAtMs(BUSY)).toBe(3 * PERIOD_MS);
});

it("does not make up for a time at which nobody waited", () => {
  const foresight = openForesight(0);
  foresight.looked(IDLE, 2.5 * PERIOD_MS);
  expect(foresight.nextAtMs(BUSY)).toBe(3 * PERIOD_MS);
  foresight.looked(BUSY, 3.5 * PERIOD_MS);
  expect(foresight.nextAtMs(BUSY)).toBe(3 * PERIOD_MS);
});
