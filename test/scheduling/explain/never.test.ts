/** @file Jobs that no change of load would start: the code and figures of the idle fleet, and each change that would let them start. */

import { expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { neverOf } from "../../../scheduling/explain/never.ts";
import { fleetShape, gpus, type RequestSpec } from "../builders.ts";
import { busyLedger } from "../preemption/victims.ts";

const NOW_MS = 600_000;
/** Two hosts of H100 in one jurisdiction, one of A100 in another; tenant q may hold four H100. All GPUs are taken. */
const SHAPE = fleetShape(
  [
    { name: "eu", jurisdiction: "EU", hosts: [{}, {}] },
    { name: "us", jurisdiction: "US", hosts: [{ type: "A100" }] },
  ],
  [{ id: "q", quota: { H100: 4 } }],
);

const neverFor = (waits: RequestSpec) =>
  neverOf(
    busyLedger(
      SHAPE,
      [["r", gpus(["eu/h0", 0xff], ["eu/h1", 0xff]), { gpus: 16 }]],
      [{ job: "w", ...waits }],
    ),
    jobId("w"),
    { nowMs: NOW_MS },
  );

test.each<[string, RequestSpec, string, object, readonly string[]]>([
  [
    "a GPU type that the fleet does not have",
    { gpus: 4, constraints: { gpuTypes: ["B200"] } },
    "NoMatchingFlavor",
    { needGpus: 4, fleetGpus: 0 },
    ["allow other GPUs than B200: us has room"],
  ],
  [
    "more GPUs than there are",
    { gpus: 64 },
    "NoMatchingFlavor",
    { needGpus: 64, fleetGpus: 16, largestEverGpus: 16 },
    ["ask for 16 of the 64 GPUs (gang.gpus or gang.min)"],
  ],
  [
    "more GPUs than the permitted jurisdiction has",
    { gpus: 16, constraints: { jurisdictions: ["US"] } },
    "NoMatchingFlavor",
    { needGpus: 16, fleetGpus: 8 },
    [
      "ask for 8 of the 16 GPUs (gang.gpus or gang.min)",
      "allow other jurisdictions than US: eu has room",
    ],
  ],
  [
    "more GPUs of one host than a host has",
    { gpus: 16, constraints: { isSameHost: true } },
    "NoMatchingFlavor",
    { needGpus: 16, largestEverGpus: 8 },
    ["ask for 8 of the 16 GPUs (gang.gpus or gang.min)", "leave out sameHost: eu has room"],
  ],
  [
    "a quota below the gang",
    { gpus: 8, tenant: "q", constraints: { gpuTypes: ["H100"] } },
    "ExceedsMaxQuota",
    { needGpus: 8, quotaGpus: 4 },
    [
      "ask for 4 of the 8 GPUs (gang.gpus or gang.min)",
      "allow other GPUs than H100: us has room",
      "raise the quota of tenant q",
    ],
  ],
])("%s", (_name, waits, code, numbers, want) => {
  const never = neverFor(waits);
  expect(never?.reason).toMatchObject({ code, numbers });
  expect(never?.changes.map(({ text }) => text)).toEqual(want);
});

test("a job that a busy fleet alone keeps waiting, that is elastic, or that waits for a shorter limit, starts some day", () => {
  expect(neverFor({ gpus: 16 })).toBeUndefined();
  expect(neverFor({ gpus: 64, gang: { min: 4, timeoutMs: ms(3_000) } })).toBeUndefined();
  expect(neverFor({ gpus: 1, tenant: "q" })).toBeUndefined();
});
