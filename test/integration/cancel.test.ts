/** @file Cancelling a job at every point of its life: it ends as cancelled, nothing runs, nothing is leased. */

import { CancelledFailure, WorkflowFailedError } from "@temporalio/client";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

const sh = (script: string, more: Partial<JobFile> = {}): JobFile => ({
  name: "cancel",
  gang: { gpus: 1 },
  run: { command: ["sh", "-c", script], grace: "1s" },
  ...more,
});

async function wantCancelled(jobId: string): Promise<void> {
  const error: unknown = await world.temporal.workflow
    .getHandle(jobId)
    .result()
    .catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(WorkflowFailedError);
  expect((error as WorkflowFailedError).cause).toBeInstanceOf(CancelledFailure);
  await world.until(
    "nothing is leased or waiting",
    (ledger) => ledger.leases.size === 0 && ledger.requests.size === 0,
  );
  expect(processesOf(jobId)).toEqual([]);
}

/** Pids of all processes whose environment names the job. */
function processesOf(jobId: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8").includes(`ORBWEAVER_JOB_ID=${jobId}`);
    } catch {
      return false;
    }
  });
}

const cancel = (jobId: string) => world.temporal.workflow.getHandle(jobId).cancel();

describe("a cancelled job", () => {
  it("ends while it waits", async () => {
    const { jobId: wide } = await world.orbweaver.submit(sh("sleep 600", { gang: { gpus: 12 } }));
    await world.until("the wide job runs", (ledger) => ledger.leases.size === 1);
    const { jobId } = await world.orbweaver.submit(sh("true"));
    await world.until("the second waits", (ledger) => ledger.requests.size === 1);
    await cancel(jobId);
    await expect(world.temporal.workflow.getHandle(jobId).result()).rejects.toMatchObject({
      cause: { name: "CancelledFailure" },
    });
    await world.until("it is out of the queue", (ledger) => ledger.requests.size === 0);
    await cancel(wide);
    await wantCancelled(wide);
  });

  it("ends while it runs, a grandchild in a session of its own included", async () => {
    const { jobId } = await world.orbweaver.submit(
      sh("setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' & sleep 600"),
    );
    await expect.poll(() => processesOf(jobId).length).toBeGreaterThanOrEqual(3);
    await cancel(jobId);
    await wantCancelled(jobId);
  });

  it("ends on all hosts of a gang", async () => {
    const { jobId } = await world.orbweaver.submit(sh("sleep 600", { gang: { gpus: 12 } }));
    await expect.poll(() => processesOf(jobId).length).toBeGreaterThanOrEqual(12);
    await cancel(jobId);
    await wantCancelled(jobId);
  });

  it("ends once when it is cancelled again while it stops", async () => {
    const go = path.join(world.stateDir, "go");
    const deaf = `trap '' TERM; until [ -e '${go}' ]; do sleep 0.1; done`;
    const { jobId } = await world.orbweaver.submit(
      sh(deaf, { run: { command: ["sh", "-c", deaf], grace: "5m" } }),
    );
    await expect.poll(() => processesOf(jobId).length).toBeGreaterThanOrEqual(1);
    await cancel(jobId);
    await expect.poll(async () => (await world.orbweaver.job(jobId).view()).state).toBe("stopping");
    await cancel(jobId);
    writeFileSync(go, "");
    await wantCancelled(jobId);
  });

  it.each([0, 5, 10, 20, 30, 40, 60, 80, 120, 160])(
    "ends when it is cancelled %i ms after it was submitted: entering, at the instant of the grant, or starting",
    async (pauseMs) => {
      const jobs = await Promise.all([1, 2, 3].map(() => world.orbweaver.submit(sh("sleep 600"))));
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      await Promise.all(jobs.map(({ jobId }) => cancel(jobId)));
      for (const { jobId } of jobs) await wantCancelled(jobId);
    },
  );
});
