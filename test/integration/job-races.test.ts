/**
 * @file The job workflow against messages that come early, late, twice or together: what it tells the fleet, and what it starts.
 *
 * The server is real; fleet and host are played by the test (`support/played-fleet.ts`).
 */

import { ApplicationFailure } from "@temporalio/common";
import { Client } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime } from "@temporalio/worker";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually, HOST, playFleet, report, type PlayedFleet } from "../support/played-fleet.ts";
import { serverAddress } from "../support/server-address.ts";

let connection: NativeConnection;
let client: Client;
let fleet: PlayedFleet;

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  connection = await NativeConnection.connect({ address: serverAddress() });
  client = new Client({ connection });
});
afterAll(() => connection.close());

beforeEach(async () => {
  fleet = await playFleet({ connection, client });
  return () => fleet.stopWorker();
});

describe("a job", () => {
  it("that is cancelled in the same moment as it is granted starts nothing and gives the lease back", async () => {
    const job = await fleet.start();
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await fleet.stopWorker();
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await job.cancel();
    await fleet.startWorker();
    await expect(job.result()).rejects.toMatchObject({ cause: { name: "CancelledFailure" } });
    expect(fleet.runs).toEqual([]);
    expect(fleet.ends()).toContain(1);
  });

  it("that is held while its grant is on the way gives the grant back, and asks anew when released", async () => {
    let isEnding = false;
    fleet.played.end = async (seq) => {
      if (seq !== 1 || isEnding) return;
      isEnding = true;
      await new Promise((resolve) => setTimeout(resolve, 1_500));
    };
    const job = await fleet.start();
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.executeUpdate("hold");
    await eventually(() => expect(isEnding).toBe(true));
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await eventually(() => expect(fleet.ends().length).toBeGreaterThanOrEqual(2));
    await job.executeUpdate("release");
    await eventually(() => expect(fleet.requests().map(({ seq }) => seq)).toEqual([1, 2]));
    expect(fleet.runs).toEqual([]);
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.result();
    expect(fleet.runs).toEqual(["lease-2"]);
  });

  it("gives back a grant for a request that is over, and runs once", async () => {
    const job = await fleet.start();
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.executeUpdate("hold");
    await eventually(() => expect(fleet.ends()).toEqual([1]));
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await eventually(() => expect(fleet.ends()).toEqual([1, 1]));
    await job.executeUpdate("release");
    await eventually(() => expect(fleet.requests().length).toBe(2));
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.signal("grant", fleet.grantOf(job.workflowId, 2));
    await job.result();
    expect(fleet.runs).toEqual(["lease-2"]);
  });

  it("whose grant names no agent waits for one, and says its last word", async () => {
    const { agent } = fleet.played;
    fleet.played.agent = null;
    const job = await fleet.start();
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.signal("grant", fleet.grantOf(job.workflowId, 1, false));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(fleet.runs).toEqual([]);
    fleet.played.agent = agent;
    await job.result();
    expect(fleet.runs).toEqual(["lease-1"]);
    expect(fleet.ends()).toEqual([1]);
  });

  it("that was refused by the only host that fits asks that host again", async () => {
    let isBroken = true;
    fleet.played.run = () => {
      if (!isBroken) return Promise.resolve(report("completed"));
      isBroken = false;
      throw ApplicationFailure.nonRetryable("the disk is full", "HOST_REFUSED");
    };
    const job = await fleet.start();
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await eventually(() =>
      expect(fleet.requests().at(-1)).toMatchObject({ seq: 2, avoidHosts: [HOST] }),
    );
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
    await eventually(() => expect(fleet.requests().at(-1)).toMatchObject({ seq: 3 }));
    expect(fleet.requests().at(-1)).not.toHaveProperty("avoidHosts");
    await job.signal("grant", fleet.grantOf(job.workflowId, 3));
    expect(await job.result()).toMatchObject({ attempts: 2 });
  });

  it("survives signals without arguments", async () => {
    const job = await fleet.start({ options: null });
    await eventually(() => expect(fleet.requests().length).toBe(1));
    await job.signal("grant");
    await job.signal("pending");
    await job.signal("grant", fleet.grantOf(job.workflowId, 1));
    await job.result();
    expect(fleet.runs).toEqual(["lease-1"]);
  });

  it("with white space in its id fails at once, and says why", async () => {
    const job = await fleet.start({ id: `two words ${randomBytes(4).toString("hex")}` });
    await expect(job.result()).rejects.toMatchObject({
      cause: { type: "MISCONFIGURED", message: expect.stringContaining("white space") as string },
    });
  });
});
