/** @file Ledgers that fleets packed before requests had owners and gangs are read as they were, and packed anew. */
import { expect, test } from "vitest";
import type { PackedLedger } from "../../../domain/lease/packed-ledger.ts";
import { hostId, clusterId, jobId, runId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { ledgerBytes } from "../../../scheduling/ledger/size-account.ts";
import { fleetShape, gangRequest } from "../builders.ts";

const RUN = "0f3c6a52-1111-4222-8333-444455556666";

/** As version 2 wrote it at first. */
const former: PackedLedger = Object.freeze({
  applyVersion: 2,
  shape: fleetShape([{ hosts: [{}] }]),
  nextToken: 1,
  nextArrival: 4,
  tables: {
    hosts: [],
    texts: ["other name", "t"],
    lists: [
      ["c0/h9"],
      { isSameHost: false, isSameFabric: false },
      { gpuTypes: ["H100"], isSameHost: true, isSameFabric: false },
      [4, 2],
    ],
    profiles: [
      [1, 2, 0, 2, 1, 45_000, 1],
      [1, 2, 10, 2, 1, 45_000, 1, 60_000, [1, 0, 0], [5_000, 9_000]],
      [1, 2, 0, 8, 2, 1_500, 2, null, null, null, 3, 1],
    ],
    agents: [],
    reasons: [],
  },
  requests: [
    ["AAAAAPoAAAABDzxqUhERQiKDM0REVVVmZgplain", 0],
    ["AAAAAPoAAAACDzxqUhERQiKDM0REVVVmZgsecond-7", 1, -7, [3, 3_000]],
    ["!third", 2, 0, [null, null, 0, null, null, null, null, ["run-of-no-uuid", 1_000, 3]]],
  ],
  reasons: [],
  leases: [],
  hosts: [],
  outbox: [],
  reservations: [],
  deadLetters: [],
});

test("a ledger of the former form is read as it was, and packed anew", () => {
  const ledger = unpackLedger(former);
  const times = { submittedAtMs: 1_000, requestedAtMs: 1_000 };
  const gang = { gpus: 2, min: 1, timeoutMs: ms(45_000) };
  expect([...ledger.requests.values()]).toEqual([
    { ...gangRequest({ job: "plain", run: RUN, ...times, gang }), arrival: 1 },
    {
      ...gangRequest({ job: "second-7", run: RUN, ...times, gang, priority: 10 }),
      name: "second",
      seq: 3,
      requestedAtMs: 4_000,
      timeLimitMs: 60_000,
      checkpoint: { graceMs: 5_000, intervalMs: 9_000 },
      preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: 0 },
      arrival: 2,
    },
    {
      ...gangRequest({ ...times, constraints: { gpuTypes: ["H100"], isSameHost: true } }),
      jobId: jobId("third"),
      runId: runId("run-of-no-uuid"),
      name: "other name",
      gang: { gpus: 8, min: 2, timeoutMs: 1_500, shapes: [4, 2], mayGrow: true },
      avoidHosts: [hostId(clusterId("c0"), "h9")],
      arrival: 3,
    },
  ]);
  expect(checkLedger(ledger)).toEqual([]);
  const anew = packLedger(ledger);
  expect(anew).not.toEqual(former);
  expect(unpackLedger(anew)).toEqual(ledger);
  expect(ledgerBytes(ledger)).toBe(ledgerBytes(unpackLedger(anew)));
});
