/**
 * @file The job workflow against messages that come early, late, twice or together: what it tells the fleet, and what it starts.
 *
 * The server is real; fleet and host are played by the test, so that each order of events can be made to happen.
 */

import { ApplicationFailure } from "@temporalio/common";
import { Client } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import path from "node:path";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import type { RunReport } from "../../activities/agent-contract.ts";
import type { InboxEntry } from "../../scheduling/ledger.ts";
import { fleetOf, ROOT, SMALL_FLEET } from "../support/world.ts";
import { createJobActivities } from "../../activities/job-activities.ts";

const HOST = fleetOf(SMALL_FLEET).shape.clusters[0]?.hosts[0]?.id ?? ("" as never);
const JOB = { name: "race", gang: { gpus: 1 }, run: { command: ["true"] } };

let connection: NativeConnection;
let client: Client;
let queue: string;
let told: InboxEntry[];
let runs: string[];
let played: {
  end: (seq: number) => Promise<void>;
  run: () => Promise<RunReport>;
  agent: { runQueue: string; orderQueue: string; epoch: string; address: string } | null;
};
let worker: { stop: () => Promise<void> };

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  connection = await NativeConnection.connect({ address: inject("temporalAddress") });
  client = new Client({ connection });
});
afterAll(() => connection.close());

beforeEach(async () => {
  queue = `races-${randomBytes(4).toString("hex")}`;
  told = [];
  runs = [];
  played = {
    end: () => Promise.resolve(),
    run: () => Promise.resolve(report("completed")),
    agent: agent(),
  };
  worker = await startWorker();
  return async () => worker.stop();
});

const agent = () => ({ runQueue: queue, orderQueue: queue, epoch: "1", address: "127.0.0.1" });
const report = (end: RunReport["end"]): RunReport => ({
  host: HOST,
  hasStarted: true,
  endedAtMs: Date.now(),
  ranks: [],
  end,
});

async function startWorker(): Promise<{ stop: () => Promise<void> }> {
  const { admit } = createJobActivities(client);
  const started = await Worker.create({
    connection,
    taskQueue: queue,
    workflowBundle: { codePath: path.join(ROOT, "dist/workflow-bundle.js") },
    activities: {
      // Reading is the product's; the fleet is the test's: a held job asks nobody, then the first request is told here.
      admit: async (file: object, entry: Parameters<typeof admit>[1]) => {
        const admission = await admit({ ...file, hold: true }, entry);
        if (admission.kind === "refused") return admission;
        told.push({ kind: "request", request: { seq: 1 } } as InboxEntry);
        return { ...admission, spec: { ...admission.spec, isHeld: false }, told: { kind: "told" } };
      },
      tellFleet: async (_fleet: string, entry: InboxEntry) => {
        told.push(entry);
        if (entry.kind === "end") await played.end(entry.seq);
        return { kind: "told" };
      },
      findHost: () => Promise.resolve(played.agent),
      run: async ({ leaseId }: { leaseId: string }) => {
        runs.push(leaseId);
        return played.run();
      },
      stop: () => Promise.resolve({ host: HOST, hadProcesses: false }),
    },
  });
  const running = started.run();
  return {
    stop: async () => {
      if (started.getState() === "RUNNING") started.shutdown();
      await running;
    },
  };
}

async function start(id = `race-${randomBytes(4).toString("hex")}`, options: unknown = {}) {
  const handle = await client.workflow.start("job", {
    taskQueue: queue,
    workflowId: id,
    args: [JOB, options],
  });
  return handle;
}

/** What the fleet would send for request `seq`. */
const grantOf = (jobId: string, seq: number, hasAgent = true) => ({
  seq,
  lease: {
    id: `lease-${String(seq)}`,
    token: seq,
    jobId,
    runId: "played",
    gpus: [{ host: HOST, mask: 1 }],
    grantedAtMs: Date.now(),
    state: "granted",
  },
  agents: hasAgent ? [{ host: HOST, agent: agent() }] : [],
  reason: "played",
});
const requests = () => told.flatMap((entry) => (entry.kind === "request" ? [entry.request] : []));
const ends = () => told.flatMap((entry) => (entry.kind === "end" ? [entry.seq] : []));
const eventually = (check: () => void) =>
  expect
    .poll(
      () => {
        check();
        return true;
      },
      { timeout: 20_000 },
    )
    .toBe(true);

describe("a job", () => {
  it("that is cancelled in the same moment as it is granted starts nothing and gives the lease back", async () => {
    const job = await start();
    await eventually(() => expect(requests().length).toBe(1));
    await worker.stop();
    await job.signal("grant", grantOf(job.workflowId, 1));
    await job.cancel();
    worker = await startWorker();
    await expect(job.result()).rejects.toMatchObject({ cause: { name: "CancelledFailure" } });
    expect(runs).toEqual([]);
    expect(ends()).toContain(1);
  });

  it("that is held while its grant is on the way gives the grant back, and asks anew when released", async () => {
    let isEnding = false;
    played.end = async (seq) => {
      if (seq !== 1 || isEnding) return;
      isEnding = true;
      await new Promise((resolve) => setTimeout(resolve, 1_500));
    };
    const job = await start();
    await eventually(() => expect(requests().length).toBe(1));
    await job.executeUpdate("hold");
    await eventually(() => expect(isEnding).toBe(true));
    await job.signal("grant", grantOf(job.workflowId, 1));
    await eventually(() => expect(ends().length).toBeGreaterThanOrEqual(2));
    await job.executeUpdate("release");
    await eventually(() => expect(requests().map(({ seq }) => seq)).toEqual([1, 2]));
    expect(runs).toEqual([]);
    await job.signal("grant", grantOf(job.workflowId, 2));
    await job.result();
    expect(runs).toEqual(["lease-2"]);
  });

  it("gives back a grant for a request that is over, and runs once", async () => {
    const job = await start();
    await eventually(() => expect(requests().length).toBe(1));
    await job.executeUpdate("hold");
    await eventually(() => expect(ends()).toEqual([1]));
    await job.signal("grant", grantOf(job.workflowId, 1));
    await eventually(() => expect(ends()).toEqual([1, 1]));
    await job.executeUpdate("release");
    await eventually(() => expect(requests().length).toBe(2));
    await job.signal("grant", grantOf(job.workflowId, 2));
    await job.signal("grant", grantOf(job.workflowId, 2));
    await job.result();
    expect(runs).toEqual(["lease-2"]);
  });

  it("whose grant names no agent waits for one, and says its last word", async () => {
    played.agent = null;
    const job = await start();
    await eventually(() => expect(requests().length).toBe(1));
    await job.signal("grant", grantOf(job.workflowId, 1, false));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(runs).toEqual([]);
    played.agent = agent();
    await job.result();
    expect(runs).toEqual(["lease-1"]);
    expect(ends()).toEqual([1]);
  });

  it("that was refused by the only host that fits asks that host again", async () => {
    let isBroken = true;
    played.run = () => {
      if (!isBroken) return Promise.resolve(report("completed"));
      isBroken = false;
      throw ApplicationFailure.nonRetryable("the disk is full", "HOST_REFUSED");
    };
    const job = await start();
    await eventually(() => expect(requests().length).toBe(1));
    await job.signal("grant", grantOf(job.workflowId, 1));
    await eventually(() => expect(requests().at(-1)).toMatchObject({ seq: 2, avoidHosts: [HOST] }));
    await job.signal("pending", {
      seq: 2,
      reason: {
        code: "NoMatchingFlavor",
        message: "none",
        numbers: {},
        holders: [],
        wakeOn: ["timer"],
      },
    });
    await eventually(() => expect(requests().at(-1)).toMatchObject({ seq: 3 }));
    expect(requests().at(-1)).not.toHaveProperty("avoidHosts");
    await job.signal("grant", grantOf(job.workflowId, 3));
    expect(await job.result()).toMatchObject({ attempts: 2 });
  });

  it("survives signals without arguments", async () => {
    const job = await start(undefined, null);
    await eventually(() => expect(requests().length).toBe(1));
    await job.signal("grant");
    await job.signal("pending");
    await job.signal("grant", grantOf(job.workflowId, 1));
    await job.result();
    expect(runs).toEqual(["lease-1"]);
  });

  it("with white space in its id fails at once, and says why", async () => {
    const job = await start(`two words ${randomBytes(4).toString("hex")}`);
    await expect(job.result()).rejects.toMatchObject({
      cause: { type: "MISCONFIGURED", message: expect.stringContaining("white space") as string },
    });
  });
});
