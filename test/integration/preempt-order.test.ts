/**
 * @file The job workflow and orders to give up its GPUs, by signals of a played fleet: what it stops, what it asks for next, what it shows.
 */

import { ApplicationFailure } from "@temporalio/common";
import { Client } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime } from "@temporalio/worker";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { JobView } from "../../protocol/messages.ts";
import { eventually, HOST, playFleet, report, type PlayedFleet } from "../support/played-fleet.ts";
import { serverAddress } from "../support/server-address.ts";

let connection: NativeConnection;
let client: Client;
let fleet: PlayedFleet;
let endRun: (how: ReturnType<typeof report>) => void;

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  connection = await NativeConnection.connect({ address: serverAddress() });
  client = new Client({ connection });
});
afterAll(() => connection.close());

/** The first lease runs until it is stopped; later ones complete at once. */
beforeEach(async () => {
  fleet = await playFleet({ connection, client });
  const running = new Promise<ReturnType<typeof report>>((resolve) => {
    endRun = resolve;
  });
  fleet.played.run = (lease) =>
    lease === "lease-1" ? running : Promise.resolve(report("completed"));
  return () => fleet.stopWorker();
});

const SAVED = { path: "/checkpoints/1/step-120", atMs: Date.now() + 60_000 };
const TRAINING = {
  gang: { gpus: 4, min: 1 },
  run: { command: ["true"], checkpoint: { signal: "USR1", grace: "5s" } },
};
const orderOf = (lease: string, more: object = {}): object => ({
  seq: 1,
  lease,
  forJob: "infer-9",
  reason: "its GPUs are due to infer (inference, tenant default)",
  graceMs: 5_000,
  ...more,
});

async function runningJob(file: object = TRAINING) {
  const job = await fleet.start({ file });
  await eventually(() => expect(fleet.requests()).toHaveLength(1));
  await job.signal("grant", fleet.grantOf(job.workflowId, 1));
  await eventually(() => expect(fleet.runs).toEqual(["lease-1"]));
  return job;
}
type Job = Awaited<ReturnType<typeof runningJob>>;
const viewOf = (job: Job): Promise<JobView> => job.query<JobView>("job");

describe("a job that is told to give up its GPUs", () => {
  it("checkpoints, stops, gives the lease back, asks again with its seniority, and is not charged", async () => {
    fleet.played.stop = () => {
      endRun(report("stopped", { startedAtMs: Date.now() - 1_000, checkpoint: SAVED }));
      return Promise.resolve();
    };
    const job = await runningJob();
    await job.signal("preempt", orderOf("lease-1"));
    await eventually(() => expect(fleet.requests()).toHaveLength(2));
    expect(fleet.stops).toMatchObject([
      { leaseId: "lease-1", isCheckpointFirst: true, reason: "preempted for infer-9" },
    ]);
    expect(fleet.told.map(({ kind }) => kind)).toEqual(["request", "end", "request"]);
    const { submittedAtMs } = await viewOf(job);
    const again = fleet.requests()[1];
    expect(again).toMatchObject({ seq: 2, submittedAtMs, gang: { gpus: 4, timeoutMs: 30_000 } });
    expect(again?.requestedAtMs).toBeGreaterThan(submittedAtMs);

    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    expect(await job.result()).toMatchObject({ attempts: 2 });
    const { attempts } = await viewOf(job);
    expect(attempts[0]).toMatchObject({
      end: "stopped",
      preempted: { forJob: "infer-9", checkpoint: SAVED, lostGpuSeconds: 0 },
    });
    expect(attempts[1]).toMatchObject({ end: "completed" });
    expect(attempts[1]?.preempted).toBeUndefined();
  });

  it("that keeps a part is content with less at once", async () => {
    fleet.played.stop = () => Promise.resolve(endRun(report("stopped")));
    const job = await runningJob();
    await job.signal("preempt", orderOf("lease-1", { keep: [{ host: HOST, mask: 0b11 }] }));
    await eventually(() => expect(fleet.requests()).toHaveLength(2));
    expect(fleet.requests()[1]).toMatchObject({ seq: 2, gang: { gpus: 4, min: 1, timeoutMs: 0 } });
    expect((await viewOf(job)).attempts[0]).toMatchObject({ preempted: { keptGpus: 2 } });
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.result();
  });

  it("and completes in the same moment has completed", async () => {
    fleet.played.stop = () => Promise.resolve(endRun(report("completed")));
    const job = await runningJob();
    await job.signal("preempt", orderOf("lease-1"));
    expect(await job.result()).toMatchObject({ attempts: 1 });
    const [attempt] = (await viewOf(job)).attempts;
    expect(attempt).toMatchObject({ end: "completed" });
    expect(attempt?.preempted).toBeUndefined();
    expect(fleet.requests()).toHaveLength(1);
  });

  it("and fails by itself in the same moment has failed, and is charged for it", async () => {
    const cause = { code: "PROCESS_EXITED", message: "rank 0 ended", atMs: Date.now() } as const;
    fleet.played.stop = () => Promise.resolve(endRun(report("failed", { cause })));
    const job = await runningJob();
    await job.signal("preempt", orderOf("lease-1"));
    await expect(job.result()).rejects.toMatchObject({ cause: { type: "PROCESS_EXITED" } });
  });

  it("and is cancelled while it stops is cancelled", async () => {
    let isAsked = false;
    let carryOn: () => void = () => undefined;
    fleet.played.stop = () => {
      isAsked = true;
      return new Promise((resolve) => {
        carryOn = () => {
          endRun(report("stopped"));
          resolve();
        };
      });
    };
    const job = await runningJob();
    await job.signal("preempt", orderOf("lease-1"));
    await eventually(() => expect(isAsked).toBe(true));
    expect(await viewOf(job)).toMatchObject({
      state: "stopping",
      attempts: [{ preempted: { forJob: "infer-9" } }],
    });
    await job.cancel();
    carryOn();
    await expect(job.result()).rejects.toMatchObject({ cause: { name: "CancelledFailure" } });
    expect(fleet.requests()).toHaveLength(1);
    expect(fleet.ends()).toEqual([1]);
  });

  it("hears the same order again, late, or of another lease, without any effect", async () => {
    fleet.played.stop = () => Promise.resolve(endRun(report("stopped")));
    const job = await runningJob();
    await job.signal("preempt");
    await job.signal("preempt", orderOf("lease-7"));
    await job.signal("preempt", { lease: "lease-1" });
    expect((await viewOf(job)).state).toBe("running");
    await job.signal("preempt", orderOf("lease-1"));
    await job.signal("preempt", orderOf("lease-1"));
    await eventually(() => expect(fleet.requests()).toHaveLength(2));
    await job.signal("preempt", orderOf("lease-1"));
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.signal("preempt", orderOf("lease-1"));
    await job.result();
    expect(fleet.stops).toHaveLength(1);
    expect(fleet.runs).toEqual(["lease-1", "lease-2"]);
  });

  it("in the same moment as it is granted gives the lease back before anything ran for long", async () => {
    fleet.played.stop = () => Promise.resolve(endRun(report("stopped")));
    const job = await fleet.start({ file: TRAINING });
    await eventually(() => expect(fleet.requests()).toHaveLength(1));
    await fleet.stopWorker();
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await job.signal("preempt", orderOf("lease-1"));
    await fleet.startWorker();
    await eventually(() => expect(fleet.requests()).toHaveLength(2));
    expect(fleet.ends()).toEqual([1]);
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.result();
  });

  it("is preempted again and again without running out of attempts", async () => {
    let stopRun: () => void = () => undefined;
    fleet.played.run = () =>
      new Promise((resolve) => {
        stopRun = () => resolve(report("stopped"));
      });
    fleet.played.stop = () => Promise.resolve(stopRun());
    const job = await fleet.start({ file: TRAINING });
    for (let seq = 1; seq <= 12; seq += 1) {
      await eventually(() => expect(fleet.requests()).toHaveLength(seq));
      await job.signal("grant", fleet.grantOf(job.workflowId, seq));
      await eventually(() => expect(fleet.runs).toHaveLength(seq));
      await job.signal("preempt", orderOf(`lease-${String(seq)}`, { seq }));
    }
    await eventually(() => expect(fleet.requests()).toHaveLength(13));
    fleet.played.run = () => Promise.resolve(report("completed"));
    await job.signal("grant", fleet.grantOf(job.workflowId, 13));
    expect(await job.result()).toMatchObject({ attempts: 13 });
  });

  it("whose lease the fleet has taken back meanwhile asks again, though its host says nothing", async () => {
    fleet.played.stop = () =>
      Promise.reject(ApplicationFailure.nonRetryable("no answer", "HOST_LOST"));
    const job = await runningJob();
    await job.signal("preempt", orderOf("lease-1"));
    await eventually(() => expect(fleet.stops.length).toBeGreaterThan(0));
    await job.signal("fenced", { lease: "lease-1", hosts: [HOST] });
    await eventually(() => expect(fleet.requests()).toHaveLength(2));
    expect((await viewOf(job)).attempts[0]).toMatchObject({ preempted: { forJob: "infer-9" } });
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.result();
    endRun(report("stopped"));
  });
});
