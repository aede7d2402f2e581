/** @file Requests, leases and hosts of a ledger are of one kind to the engine, whether events made them or a packed ledger did. */
import { setFlagsFromString } from "node:v8";
import { expect, test } from "vitest";
import type { Gang } from "../../../domain/job/job.ts";
import type { Lease, LeaseTerms } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import {
  hostId,
  clusterId,
  jobId,
  leaseId,
  runId,
  tenantId,
  token,
} from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import {
  keptGang,
  keptLease,
  keptRequest,
  keptStatus,
  keptTerms,
} from "../../../scheduling/ledger/kept-shape.ts";
import type { HostStatus, Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";

setFlagsFromString("--allow-natives-syntax");
const haveSameMap = new Function("a", "b", "return %HaveSameMap(a, b)") as (
  a: unknown,
  b: unknown,
) => boolean;

const MADE = inbox(
  leased(
    readyLedger(fleetShape([{ hosts: [{}, {}, {}] }])),
    { job: "a", gpus: 2 },
    gpus(["c0/h0", 1], ["c0/h1", 1]),
  ),
  [ask({ job: "b", gpus: 4 }), ask({ job: "c", gpus: 1 })],
).ledger;

const READ = unpackLedger(
  JSON.parse(JSON.stringify(packLedger(MADE))) as ReturnType<typeof packLedger>,
);

test.each([
  { what: "requests", of: ({ requests }: Ledger) => [...requests.values()] },
  { what: "gangs", of: ({ requests }: Ledger) => [...requests.values()].map(({ gang }) => gang) },
  { what: "leases", of: ({ leases }: Ledger) => [...leases.values()] },
  {
    what: "terms of leases",
    of: ({ leases }: Ledger) => [...leases.values()].map(({ terms }) => terms),
  },
  {
    what: "GPUs of leases",
    of: ({ leases }: Ledger) => [...leases.values()].flatMap((lease) => lease.gpus),
  },
  { what: "hosts", of: ({ hosts }: Ledger) => [...hosts.values()] },
])("all $what with the same fields are of one kind", ({ of }) => {
  const all = [...of(MADE), ...of(READ)];
  expect(all.length).toBeGreaterThan(1);
  expect(all.map((each) => haveSameMap(each, all[0]))).toEqual(all.map(() => true));
});

const HOST = hostId(clusterId("c0"), "h0");
const GANG: Required<Gang> = { gpus: 4, min: 2, timeoutMs: ms(1), shapes: [3, 2], mayGrow: true };
const TERMS: Required<LeaseTerms> = {
  priority: 5,
  submittedAtMs: 6,
  gang: GANG,
  constraints: { isSameHost: true, isSameFabric: false },
  timeLimitMs: ms(7),
  preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(8) },
  checkpoint: { graceMs: ms(9) },
};
const REQUEST: Required<PendingRequest> = {
  ...TERMS,
  jobId: jobId("a"),
  runId: runId("r"),
  seq: 2,
  name: "n",
  tenant: tenantId("t"),
  class: "training",
  requestedAtMs: 10,
  avoidHosts: [HOST],
  slots: 11,
  patienceMs: ms(12),
  credit: 13,
  round: 14,
  arrival: 15,
  enteredAtMs: 16,
};
const LEASE: Required<Lease> = {
  id: leaseId(token(3)),
  token: token(3),
  jobId: jobId("a"),
  runId: runId("r"),
  seq: 2,
  class: "training",
  tenant: tenantId("t"),
  slots: 4,
  resources: { cpus: 1, memoryGiB: 2 },
  gpus: [{ host: HOST, mask: 1 }],
  grantedAtMs: 5,
  requestedAtMs: 6,
  state: "vacating",
  vacatingHosts: [HOST],
  vacatedHosts: [HOST],
  isUnconfirmed: true,
  terms: TERMS,
  eviction: { forJob: jobId("b"), atMs: 7, lostGpuSeconds: 8 },
  checkpointedAtMs: 9,
  causedLossGpuSeconds: 10,
  headroomGpus: 11,
  opportunistic: { gpus: [{ host: HOST, mask: 1 }] },
};
const STATUS: Required<HostStatus> = {
  agent: { epoch: "e", runQueue: "r", orderQueue: "o", address: "a" },
  isDrained: true,
  drainReason: "d",
  gpuDrains: [{ mask: 2, reason: "g", sinceMs: 5 }],
  fenceMs: 1,
  silentSinceMs: 2,
  isFenced: true,
  fencedAtMs: 3,
  lastEpoch: "l",
  toldAtMs: 4,
};

// Each has every field there is, so a new field that is not kept does not compile here, or is missed.
test.each([
  { what: "request", kept: keptRequest(REQUEST), whole: REQUEST },
  { what: "gang", kept: keptGang(GANG), whole: GANG },
  { what: "lease's terms", kept: keptTerms(TERMS, TERMS.submittedAtMs), whole: TERMS },
  { what: "lease", kept: keptLease(LEASE), whole: LEASE },
  { what: "host", kept: keptStatus(STATUS), whole: STATUS },
])("a $what keeps each of its fields", ({ kept, whole }) => {
  expect(kept).toStrictEqual(whole);
});
