/** @file Rows of leases and reservations: each optional field, alone and together, survives packing, JSON and unpacking. */
import { expect, test } from "vitest";
import type { Eviction, Lease, Reservation } from "../../../domain/lease/lease.ts";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gpus, host, leased, readyLedger } from "../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const ONE = leased(
  READY,
  { job: "a", gpus: 2, timeLimitMs: ms(5_000) },
  gpus(["c0/h0", 1], ["c0/h1", 1]),
);
const LEDGER = leased(ONE, { job: "b", class: "inference" }, gpus(["c0/h1", 2]));
const [FIRST] = LEDGER.leases.values();
if (FIRST === undefined) throw new Error("no lease");
const { terms: _terms, ...BARE } = FIRST;

const roundTrip = (ledger: Ledger): Ledger =>
  unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as ReturnType<typeof packLedger>);

const eviction: Eviction = {
  forJob: jobId("b"),
  atMs: 12.5,
  isSent: true,
  keep: gpus(["c0/h0", 1]),
  lostGpuSeconds: 3.5,
};

test.each<{ readonly what: string; readonly change: Partial<Lease>; readonly isBare?: boolean }>([
  { what: "nothing more", change: {} },
  { what: "without terms", change: {}, isBare: true },
  { what: "doubted, without terms", change: { isUnconfirmed: true }, isBare: true },
  {
    what: "GPUs for which others were evicted, without terms",
    change: { headroomGpus: 8, causedLossGpuSeconds: 8 },
    isBare: true,
  },
  { what: "evicted GPUs and no loss", change: { headroomGpus: 8 } },
  {
    what: "opportunistic GPUs, without terms",
    change: { opportunistic: { gpus: gpus(["c0/h0", 1]) } },
    isBare: true,
  },
  { what: "a loss of 0 that it caused", change: { causedLossGpuSeconds: 0 } },
  { what: "slots, without terms", change: { slots: 3 }, isBare: true },
  { what: "early words of hosts", change: { vacatedHosts: [host("c0/h1")] } },
  { what: "vacating", change: { state: "vacating", vacatingHosts: [host("c0/h1")] } },
  {
    what: "a run id that is a UUID",
    change: { runId: runId("b1946ac9-2492-4d23-8d6e-0123456789ab") },
  },
  { what: "times with fractions", change: { grantedAtMs: 0.1, requestedAtMs: 1e15 } },
  { what: "an eviction", change: { eviction } },
  { what: "what it takes, as reported", change: { resources: { cpus: 2.5 } }, isBare: true },
  { what: "memory that it takes", change: { resources: { memoryGiB: 0.1 } }, isBare: true },
  { what: "a checkpoint", change: { checkpointedAtMs: 77 } },
  { what: "a loss that it caused", change: { causedLossGpuSeconds: 4.25 } },
  {
    what: "GPUs for which others were evicted",
    change: { headroomGpus: 1, causedLossGpuSeconds: 2 },
  },
  { what: "opportunistic GPUs", change: { opportunistic: { gpus: gpus(["c0/h0", 1]) } } },
  {
    what: "all of them",
    change: {
      vacatedHosts: [host("c0/h0")],
      slots: 2,
      checkpointedAtMs: 5,
      causedLossGpuSeconds: 1,
      headroomGpus: 1,
      opportunistic: { gpus: gpus(["c0/h1", 1]) },
    },
  },
])("a lease with $what", ({ change, isBare = false }) => {
  const lease: Lease = { ...(isBare ? BARE : FIRST), ...change };
  const ledger = { ...LEDGER, leases: new Map(LEDGER.leases).set(lease.id, lease) };
  expect([...roundTrip(ledger).leases]).toEqual([...ledger.leases]);
});

test.each<{ readonly change: Partial<Reservation> }>([
  { change: {} },
  { change: { kind: "keep" } },
  { change: { kind: "headroom", usableUntilMs: 9 } },
  { change: { kind: "preemption", lostGpuSeconds: 2.5 } },
  { change: { usableUntilMs: 1e9, lostGpuSeconds: 1 } },
])("a reservation with $change", ({ change }) => {
  const reservation: Reservation = {
    jobId: jobId("b"),
    kind: "backfill",
    sinceMs: 3,
    gpus: gpus(["c0/h0", 4], ["c0/h1", 8]),
    ...change,
  };
  const reservations = new Map([[reservation.jobId, reservation]]);
  expect(roundTrip({ ...LEDGER, reservations }).reservations).toEqual(reservations);
});
