/** @file What the fleet answers when asked about one job. */
import { expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { explainRequest } from "../../../scheduling/explain/explain.ts";
import { placesInQueue, queueOrder } from "../../../scheduling/explain/queue-order.ts";
import { ask, end, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}] }]));
const BUSY = inbox(leased(READY, { job: "x", gpus: 6 }, gpus(["c0/h0", 0b111111])), [
  ask({ job: "a", gpus: 4, submittedAtMs: 1, requestedAtMs: 1 }),
  ask({ job: "b", gpus: 2, submittedAtMs: 2, requestedAtMs: 2 }),
  ask({ job: "urgent", gpus: 8, submittedAtMs: 3, requestedAtMs: 3, priority: 9 }),
]).ledger;

test.each([
  { job: "nobody", want: { kind: "unknown" } },
  { job: "x", want: { kind: "leased", leases: [{ id: "lease-1", jobId: "x" }] } },
  {
    job: "urgent",
    want: {
      kind: "waiting",
      position: 1,
      waiting: 3,
      requestedAtMs: 3,
      reason: { code: "WaitingForGpus", holders: ["x"] },
    },
  },
  {
    job: "a",
    want: {
      kind: "waiting",
      position: 2,
      waiting: 3,
      reason: { code: "WaitingForGpus", numbers: { freeGpus: 2 } },
    },
  },
  {
    job: "b",
    want: {
      kind: "waiting",
      position: 3,
      waiting: 3,
      reason: { code: "BehindEarlierJob", holders: ["urgent"] },
    },
  },
])("about $job: $want.kind", ({ job, want }) => {
  expect(explainRequest(BUSY, jobId(job), { nowMs: 10 })).toMatchObject(want);
});

test("the place of each job is its place in the line that the queue shows", () => {
  const nowMs = 10;
  const { line } = queueOrder(BUSY, nowMs);
  const places = line.map(({ request: { jobId: job } }) => explainRequest(BUSY, job, { nowMs }));
  expect(places).toMatchObject([{ position: 1 }, { position: 2 }, { position: 3 }]);
  expect([...placesInQueue(BUSY, { nowMs })]).toEqual(
    line.map(({ request }, at) => [request.jobId, at + 1]),
  );
});

test("figures are live: they follow the ledger without a cycle in between", () => {
  const freed = inbox(BUSY, [end("x"), end("urgent")]).ledger;
  expect(explainRequest(freed, jobId("a"), { nowMs: 10 })).toMatchObject({
    position: 1,
    reason: { code: "PendingEvaluation" },
  });
});

test("a job that holds a lease and asks for the next one is waiting", () => {
  const asked = inbox(BUSY, [ask({ job: "x", seq: 2, gpus: 8 })]).ledger;
  expect(explainRequest(asked, jobId("x"), { nowMs: 10 })).toMatchObject({
    kind: "waiting",
    waiting: 4,
  });
});
