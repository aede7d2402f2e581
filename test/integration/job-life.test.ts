/** @file The whole life of one job on a real server, with every way in which it can end. */

import { ApplicationFailure, WorkflowFailedError } from "@temporalio/client";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import type { JobFailureDetails, JobResult } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

const sh = (script: string, more: Partial<JobFile> = {}): JobFile => ({
  name: "life",
  gang: { gpus: 1 },
  run: { command: ["sh", "-c", script], grace: "1s" },
  ...more,
});

async function failureOf(
  file: JobFile,
): Promise<{ type: string | null | undefined; message: string; details: JobFailureDetails }> {
  // One of them has too many GPUs for any host of the fleet.
  const { jobId } = await world.orbweaver.submit(file, { isQueuedAnyway: true });
  try {
    await world.temporal.workflow.getHandle(jobId).result();
  } catch (error) {
    if (error instanceof WorkflowFailedError && error.cause instanceof ApplicationFailure) {
      const { type, message, details } = error.cause;
      return { type, message, details: details?.[0] as JobFailureDetails };
    }
    throw error;
  }
  throw new Error(`${jobId} completed`);
}

describe("a job that ends well", () => {
  it("runs where it was granted, with the environment that frameworks expect, and gives its GPUs back", async () => {
    const { jobId } = await world.orbweaver.submit(
      sh(
        'test "$WORLD_SIZE" = 2 && test "$RANK" -lt 2 && test -n "$MASTER_PORT" && test "$CUDA_VISIBLE_DEVICES" = "0,1" && echo "rank $RANK of $ORBWEAVER_JOB_ID"',
        { gang: { gpus: 2 } },
      ),
    );
    const result = (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;
    expect(result).toMatchObject({ jobId, attempts: 1, gpus: 2, hosts: ["alpha/a1"] });
    await world.until("the lease is released", (ledger) => ledger.leases.size === 0);
  });

  it("costs at most 24 events on one host and 6 more for each further host", async () => {
    for (const [gpus, want] of [
      [4, 24],
      [8, 30],
      [12, 36],
    ] as const) {
      const { jobId } = await world.orbweaver.submit(sh("true", { gang: { gpus } }));
      await world.temporal.workflow.getHandle(jobId).result();
      const { historyLength } = await world.temporal.workflow.getHandle(jobId).describe();
      expect(historyLength, `${gpus} GPUs`).toBeLessThanOrEqual(want);
    }
  });

  it("tries again as its retry rule says, in the same checkpoint folder", async () => {
    const { jobId } = await world.orbweaver.submit(
      sh(
        'test -e "$ORBWEAVER_CHECKPOINT_DIR/../been-here" && exit 0; touch "$ORBWEAVER_CHECKPOINT_DIR/../been-here"; exit 7',
        { retry: { attempts: 2, backoff: "100ms" } },
      ),
    );
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ attempts: 2 });
  });
});

describe("a job that fails", () => {
  it.each([
    {
      name: "whose command does not exist",
      file: { name: "x", gang: { gpus: 1 }, run: { command: ["no-such-command"] } },
      wantType: "COMMAND_NOT_FOUND",
      wantDetails: { exitCode: 127 },
    },
    {
      name: "whose process exits with 7",
      file: sh("echo last words >&2; exit 7"),
      wantType: "PROCESS_EXITED",
      wantDetails: {
        exitCode: 7,
        rank: 0,
        host: "alpha/a1",
        lastLines: expect.stringContaining("last words") as string,
      },
    },
    {
      name: "that is killed by a signal",
      file: sh("kill -KILL $$"),
      wantType: "PROCESS_SIGNALLED",
      wantDetails: { signal: "SIGKILL" },
    },
    {
      name: "that runs longer than its time limit",
      file: sh("sleep 60", { timeLimit: "1s" }),
      wantType: "TIME_LIMIT",
      wantDetails: { attempts: 1 },
    },
    {
      name: "that does not end before its deadline",
      file: sh("sleep 600", { deadline: "30s" }),
      wantType: "DEADLINE_EXCEEDED",
      wantDetails: { attempts: 1 },
    },
    {
      name: "that waits past its deadline",
      file: sh("true", { deadline: "1s", gang: { gpus: 999 } }),
      wantType: "DEADLINE_EXCEEDED",
      wantDetails: { attempts: 0 },
    },
  ])("$name is named $wantType", async ({ file, wantType, wantDetails }) => {
    const { type, details } = await failureOf(file);
    expect(type).toBe(wantType);
    expect(details).toMatchObject({ code: wantType, ...wantDetails });
    await world.until(
      "nothing is leased or waiting",
      (ledger) => ledger.leases.size === 0 && ledger.requests.size === 0,
    );
  });

  it("is refused with every problem at once when it was started by a plain client with a bad description", async () => {
    const handle = await world.temporal.workflow.start("job", {
      taskQueue: "orbweaver-jobs",
      workflowId: `bad-${world.fleet}`,
      args: [{ name: "x", gang: { gpu: 1 }, run: {} }, { fleet: world.fleet }],
    });
    await expect(handle.result()).rejects.toMatchObject({
      cause: {
        type: "MISCONFIGURED",
        message: expect.stringMatching(/gang\.gpu[\s\S]*run/) as string,
      },
    });
    const { jobId } = world.orbweaver.job(handle.workflowId);
    const listed = async () => {
      for await (const job of world.orbweaver.list({ all: true })) {
        if (job.jobId === jobId) return job.state;
      }
      return "not listed";
    };
    await expect.poll(listed).toBe("failed");
    expect(await world.orbweaver.job(jobId).ending()).toMatchObject({
      isCancelAsked: false,
      outcome: { kind: "failed", failure: { code: "MISCONFIGURED", attempts: 0 } },
    });
  });
});

describe("hold and release", () => {
  it("keeps a held job out of the queue until it is released", async () => {
    const { jobId } = await world.orbweaver.submit(sh("true", { hold: true }));
    const job = world.orbweaver.job(jobId);
    await expect.poll(async () => (await job.view()).state).toBe("held");
    expect((await world.ledger()).requests.size).toBe(0);
    await job.release();
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ jobId });
  });

  it("takes a waiting job out of the queue, and refuses to hold a running one", async () => {
    const go = path.join(world.stateDir, "go");
    const { jobId: wide } = await world.orbweaver.submit(
      sh(`until [ -e '${go}' ]; do sleep 0.1; done`, { gang: { gpus: 12 } }),
    );
    await world.until("the wide job runs", (ledger) => ledger.leases.size === 1);
    const { jobId } = await world.orbweaver.submit(sh("true"));
    await world.until("the second waits", (ledger) => ledger.requests.size === 1);
    await world.orbweaver.job(jobId).hold();
    await world.until("the second is out of the queue", (ledger) => ledger.requests.size === 0);
    await expect(world.orbweaver.job(wide).hold()).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    writeFileSync(go, "");
    await world.temporal.workflow.getHandle(wide).result();
    await world.orbweaver.job(jobId).release();
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ jobId });
  });
});
