/** @file When a fleet estimates starts: at times of the grid alone, one at a time, and never late. */

import { expect, it } from "vitest";
import {
  endEstimates,
  nextEstimatesAtMs,
  skipUnused,
  startEstimates,
} from "../../../machines/fleet/estimates.ts";
import { openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { ESTIMATE_PERIOD_MS as PERIOD_MS } from "../../../scheduling/ledger/apply/estimate-clock.ts";
import { ask, fleetShape, inbox, readyLedger } from "../../scheduling/builders.ts";
import { jobId, tenantId } from "../../../domain/values/ids.ts";

const run = {
  class: "training" as const,
  tenant: tenantId("t"),
  gpus: 1,
  submittedAtMs: 0,
  grantedAtMs: 0,
  endedAtMs: 1,
};
const IDLE: Ledger = {
  ...readyLedger(fleetShape([{ hosts: [{}] }])),
  runs: Array.from({ length: 8 }, () => run),
};
const BUSY: Ledger = inbox(IDLE, [ask({ job: "waits" })]).ledger;

const opened = (ledger: Ledger, nowMs: number): FleetState =>
  openFleet({ name: "eu", ledger: packLedger(ledger) }, nowMs, nowMs);
const skipped = (state: FleetState, nowMs: number): FleetState =>
  skipUnused({ state, commands: [] }, nowMs).state;

it("estimates at the next time of the grid while a job waits, and not again before the answer", () => {
  expect(BUSY.requests.has(jobId("waits"))).toBe(true);
  const start = PERIOD_MS + 1;
  expect(nextEstimatesAtMs(opened(IDLE, start))).toBe(Infinity);
  const busy = opened(BUSY, start);
  expect(nextEstimatesAtMs(busy)).toBe(2 * PERIOD_MS);
  const { state, commands } = startEstimates({ state: busy, commands: [] });
  expect(commands).toEqual([{ kind: "estimate-starts", id: 1, order: { fleet: "eu" } }]);
  expect(nextEstimatesAtMs(state)).toBe(Infinity);
  const ended = endEstimates({ state, commands: [] }, { id: 1 }, 2 * PERIOD_MS + 5_000);
  expect(nextEstimatesAtMs(ended.state)).toBe(3 * PERIOD_MS);
});

it("does not make up for a time at which no job waited", () => {
  const idle = skipped(opened(IDLE, 0), 2.5 * PERIOD_MS);
  const busy = { ...idle, ledger: BUSY };
  expect(nextEstimatesAtMs(busy)).toBe(3 * PERIOD_MS);
  expect(nextEstimatesAtMs(skipped(busy, 3.5 * PERIOD_MS))).toBe(3 * PERIOD_MS);
});
