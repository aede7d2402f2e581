/** @file How much fits: 15,000 ordinary requests beside 6,000 leased GPUs. */
import { expect, test } from "vitest";
import { apply, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import {
  MACHINE_BYTES,
  STATE_BUDGET_BYTES,
} from "../../../../scheduling/ledger/apply/transaction-size.ts";
import { packLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { ledgerBytes } from "../../../../scheduling/ledger/size-account.ts";
import { JOB_CLASSES } from "../../../../domain/job/job.ts";
import { ms } from "../../../../domain/values/units.ts";
import { utf8Length } from "../../../../lib/utf8.ts";
import { ask, fleetShape, gangRequest, grantItem, hello, host, planOf } from "../../builders.ts";

const HOSTS = 750;
const SIZES = [1, 2, 5, 8] as const;
const TENANTS = 12;
const BEGIN_MS = 1_780_000_000_000;

/** As drawn, but the same each time: no two alike. */
const hexOf = (number: number, digits: number): string =>
  ((number * 2_654_435_761) >>> 0).toString(16).padStart(8, "0").repeat(4).slice(0, digits);
const uuidOf = (number: number): string =>
  `${hexOf(number, 8)}-${hexOf(number + 1, 4)}-4${hexOf(number + 2, 3)}-a${hexOf(number + 3, 3)}-${hexOf(number + 4, 12)}`;

/** Names of some thousand experiments; a tenth of the jobs names GPU types or clusters. */
function requestOf(number: number, gpus: number): ReturnType<typeof gangRequest> {
  const name = `train-model-${number % 1_000}`;
  const jobClass = JOB_CLASSES[number % 10 === 0 ? 0 : number % 3 === 0 ? 1 : 2] ?? "training";
  return gangRequest({
    job: `${name}-${hexOf(number, 12)}`,
    run: uuidOf(number),
    name,
    tenant: `tenant-${number % TENANTS}`,
    class: jobClass,
    priority: number % 5 === 0 ? 10 : 0,
    gang: { gpus, min: gpus, timeoutMs: ms(60_000 * (1 + (number % 7))) },
    constraints: {
      ...(number % 10 === 1 && { gpuTypes: ["H100", "A100-80"] }),
      isSameHost: number % 2 === 0,
      isSameFabric: false,
    },
    submittedAtMs: BEGIN_MS + 137 * number,
    requestedAtMs: BEGIN_MS + 137 * number,
  });
}

function fullFleet(): Ledger {
  const shape = fleetShape(
    Array.from({ length: 15 }, () => ({ hosts: Array.from({ length: HOSTS / 15 }, () => ({})) })),
  );
  const names = shape.clusters.flatMap(({ hosts }) => hosts.map(({ id }) => id));
  const entries = names.map((name) => hello([name], { epoch: `epoch-${name}` }));
  let ledger = apply(emptyLedger(shape), { kind: "inbox", entries, nowMs: BEGIN_MS }).ledger;
  const wanted = names.slice(0, HOSTS).flatMap((name, at) =>
    // Two leases a host on average, 1,500 in all: 3 + 5, or 1 + 7, or 8 GPUs in two halves.
    [SIZES[at % 3] ?? 1, 8 - (SIZES[at % 3] ?? 1)].map((gpus, part) => ({ name, gpus, part })),
  );
  const requests = wanted.map(({ gpus }, at) => requestOf(100_000 + at, gpus));
  for (let at = 0; at < requests.length; at += 250) {
    const nowMs = BEGIN_MS + at;
    const slice = requests.slice(at, at + 250);
    ledger = apply(ledger, {
      kind: "inbox",
      entries: slice.map((request) => ({ kind: "request", request })),
      nowMs,
    }).ledger;
    const items = slice.map(({ jobId, runId, seq, gang }, of) => {
      const { name = "", part = 0 } = wanted[at + of] ?? {};
      const mask = part === 0 ? 2 ** gang.gpus - 1 : (2 ** gang.gpus - 1) * 2 ** (8 - gang.gpus);
      return {
        ...grantItem(jobId, [{ host: host(name), mask }], { run: runId, seq }),
        reason: `${gang.gpus} GPUs of ${name}, the fewest hosts that fit`,
      };
    });
    const granted = apply(ledger, { kind: "plan", plan: planOf(items), nowMs });
    expect(granted.refusals).toEqual([]);
    ledger = apply(granted.ledger, {
      kind: "delivered",
      accepted: granted.granted,
      gone: [],
      nowMs,
    }).ledger;
  }
  return ledger;
}

test("15,000 ordinary requests fit beside 6,000 leased GPUs, with the reasons of some hundred kinds", () => {
  let ledger = fullFleet();
  expect(ledger.leases.size).toBe(1_500);
  const wanted = 15_000;
  const nowMs = BEGIN_MS + 137 * wanted;
  for (let at = 0; at < wanted; at += 1_000) {
    const entries = Array.from({ length: 1_000 }, (_, of) => ({
      kind: "request",
      request: requestOf(at + of, SIZES[(at + of) % 4] ?? 1),
    }));
    ledger = apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
  }
  const waiting = [...ledger.requests.values()];
  expect(waiting.length).toBe(wanted);
  for (let at = 0; at < 1_024; at += 256) {
    const pending = waiting.slice(at, at + 256).map(({ jobId, runId, seq, gang }) => ({
      request: { jobId, runId, seq },
      reason: {
        code: "WaitingForGpus" as const,
        message: `${jobId} needs ${gang.gpus} GPUs on one host; 0 of 2096 matching H100 are free. Wait for leases to end, or lower gang.min.`,
        numbers: { needGpus: gang.gpus, freeGpus: 0, fleetGpus: 2_096, at: Math.floor(at / 8) },
        holders: waiting.slice(0, 8).map((each) => each.jobId),
        wakeOn: ["lease-released" as const, "host-ready" as const],
      },
    }));
    ledger = apply(ledger, { kind: "plan", plan: planOf([], pending), nowMs }).ledger;
  }
  expect(ledger.reasons.size).toBe(1_024);
  const trueBytes = utf8Length(JSON.stringify(packLedger(ledger)));
  expect(trueBytes + ledger.requests.size + MACHINE_BYTES).toBeLessThanOrEqual(STATE_BUDGET_BYTES);
  expect(ledgerBytes(ledger)).toBeLessThanOrEqual(1.05 * trueBytes);
  expect(
    apply(ledger, { kind: "inbox", entries: [ask({ job: "a" })], nowMs }).outside,
  ).toHaveLength(0);
});
