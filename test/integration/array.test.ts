/** @file Job arrays on a real server: every task once, retries, orders to tasks, lost processes, and what it costs. */

import { ApplicationFailure, WorkflowFailedError } from "@temporalio/client";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import { leaseId, token } from "../../domain/values/ids.ts";
import {
  assertSignal,
  tasksQuery,
  type JobFailureDetails,
  type JobResult,
  type JobView,
  type TaskCounts,
} from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { PATIENCE_MS, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

const FLEET = `
name: arrays
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "a[1-3]", gpus: 8, type: H100 }
`;

let world: World;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "orbweaver-array-"));
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(async () => {
  await world.stop();
  removeFolder(dir);
});

const array = (count: number, script: string, more: Partial<JobFile> = {}): JobFile => ({
  name: "array",
  gang: 1,
  run: { command: ["sh", "-c", script], grace: "1s" },
  array: { count },
  ...more,
});

const handle = (jobId: string) => world.temporal.workflow.getHandle(jobId);

async function submit(file: JobFile): Promise<string> {
  return (await world.orbweaver.submit(file)).jobId;
}

async function failureOf(jobId: string): Promise<{ type: unknown; details: JobFailureDetails }> {
  try {
    await handle(jobId).result();
  } catch (error) {
    if (error instanceof WorkflowFailedError && error.cause instanceof ApplicationFailure) {
      const { type, details } = error.cause;
      return { type, details: details?.[0] as JobFailureDetails };
    }
    throw error;
  }
  throw new Error(`${jobId} completed`);
}

async function untilView(jobId: string, check: (view: JobView) => boolean): Promise<JobView> {
  for (const endAtMs = Date.now() + PATIENCE_MS; ;) {
    const view = await world.orbweaver.job(jobId).view();
    if (check(view)) return view;
    if (Date.now() > endAtMs) throw new Error(`never came true: ${JSON.stringify(view)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const untilCounts = (jobId: string, check: (counts: TaskCounts) => boolean): Promise<JobView> =>
  untilView(jobId, ({ array: of }) => of !== undefined && check(of.counts));

const untilFree = (): Promise<unknown> =>
  world.until("all leases are back", ({ leases, requests }) => leases.size + requests.size === 0);

async function numbersIn(file: string): Promise<number[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map(Number)
    .sort((a, b) => a - b);
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, task) => task);

describe("an array", () => {
  it("runs each of its tasks once, with its own number, and gives everything back", async () => {
    const file = path.join(dir, "each-once");
    const jobId = await submit(
      array(200, `test "$ARRAY_COUNT" = 200 && echo "$ARRAY_INDEX" >> ${file}`),
    );
    const result = (await handle(jobId).result()) as JobResult;
    expect(result.tasks).toEqual({
      waiting: 0,
      running: 0,
      completed: 200,
      failed: 0,
      cancelled: 0,
    });
    expect(await numbersIn(file)).toEqual(upTo(200));
    await untilFree();
  });

  it("runs no more tasks at once than it may", async () => {
    const file = path.join(dir, "parallel");
    const go = path.join(dir, "parallel-go");
    const script = `echo 1 >> ${file}; until [ -e ${go} ]; do sleep 0.1; done; sleep 0.2; echo -1 >> ${file}`;
    const jobId = await submit(array(20, script, { array: { count: 20, parallel: 3 } }));
    const view = await untilCounts(jobId, ({ running }) => running > 0);
    expect(view.array?.slots).toBe(3);
    await writeFile(go, "");
    await handle(jobId).result();
    let running = 0;
    let most = 0;
    for (const line of (await readFile(file, "utf8")).trim().split("\n")) {
      running += Number(line);
      most = Math.max(most, running);
    }
    expect(running).toBe(0);
    expect(most).toBeLessThanOrEqual(3);
  });

  it("of 1,000 tasks costs at most 3 events a task", async () => {
    const jobId = await submit(array(1_000, ":"));
    await handle(jobId).result();
    const { historyLength } = await handle(jobId).describe();
    expect(historyLength).toBeLessThanOrEqual(3_000);
  });

  it("whose tasks span hosts runs one over each set of hosts", async () => {
    const file = path.join(dir, "spanning");
    const jobId = await submit(
      array(3, `test "$RANK" = 0 && echo "$ARRAY_INDEX" >> ${file}; test "$WORLD_SIZE" = 12`, {
        gang: 12,
      }),
    );
    await handle(jobId).result();
    expect(await numbersIn(file)).toEqual([0, 1, 2]);
  });
});

describe("tasks that fail", () => {
  it("are tried again as the retry rule says, and those alone", async () => {
    const file = path.join(dir, "retried");
    const script = `echo "$ARRAY_INDEX" >> ${file}; test "$ARRAY_INDEX" -ge 5 || test "$(grep -cx "$ARRAY_INDEX" ${file})" -ge 2`;
    const jobId = await submit(array(20, script, { retry: { attempts: 2, backoff: "100ms" } }));
    await handle(jobId).result();
    expect(await numbersIn(file)).toEqual([...upTo(20), ...upTo(5)].sort((a, b) => a - b));
  });

  it("for good fail the array, which names them", async () => {
    const jobId = await submit(array(10, 'echo "last of $ARRAY_INDEX"; test "$ARRAY_INDEX" != 7'));
    const { type, details } = await failureOf(jobId);
    expect(type).toBe("TASKS_FAILED");
    expect(details).toMatchObject({
      tasks: { completed: 9, failed: 1 },
      failedTasks: [{ task: 7, exitCode: 1, message: expect.stringContaining("last of 7") }],
    });
    const page = await handle(jobId).query(tasksQuery, { from: 0, count: 9, state: "failed" });
    expect(page.tasks).toMatchObject([{ task: 7, state: "failed", attempts: 1, exitCode: 1 }]);
  });

  it("over hosts stop their siblings", async () => {
    const script = 'test "$RANK" = 0 && exit 3; sleep 60';
    const { details } = await failureOf(await submit(array(1, script, { gang: 12 })));
    expect(details).toMatchObject({
      tasks: { failed: 1 },
      failedTasks: [{ task: 0, exitCode: 3 }],
    });
  });
});

describe("orders", () => {
  it("cancel tasks that wait and tasks that run, and others may be tried again", async () => {
    const gate = path.join(dir, "gate");
    const script = `test "$ARRAY_INDEX" != 1 || exit 1; while [ ! -e ${gate} ]; do sleep 0.1; done`;
    const jobId = await submit(array(60, script, { array: { count: 60, parallel: 4 } }));
    await expect
      .poll(async () => {
        const range = { from: 0, count: 9, state: "running" } as const;
        return (await handle(jobId).query(tasksQuery, range)).tasks.map(({ task }) => task);
      })
      .toContain(2);
    const job = world.orbweaver.job(jobId);
    const answer = await job.cancelTasks("2,50-59");
    expect(answer).toMatchObject({ done: 10, stopping: 1, skipped: 0 });
    const late = await job.cancelTasks("50-51");
    expect(late).toEqual({ done: 0, stopping: 0, skipped: 2, skippedTasks: "50-51" });
    await expect(job.cancelTasks("60")).rejects.toMatchObject({ code: "BAD_INPUT" });
    await job.retryTasks("59");
    await writeFile(gate, "");
    const { details } = await failureOf(jobId);
    expect(details.tasks).toEqual({
      waiting: 0,
      running: 0,
      completed: 49,
      failed: 1,
      cancelled: 10,
    });
  });

  it("cancel tasks of an array that waits for another job, and on hold, which then never begin", async () => {
    const [file, go] = [path.join(dir, "early"), path.join(dir, "early-go")];
    const wait = ["sh", "-c", `until [ -e ${go} ]; do sleep 0.1; done`];
    const first = await submit({ name: "first", gang: 1, run: { command: wait } });
    const more: Partial<JobFile> = { after: [{ job: first }], hold: true };
    const jobId = await submit(array(10, `echo "$ARRAY_INDEX" >> ${file}`, more));
    const job = world.orbweaver.job(jobId);
    expect(await job.cancelTasks("3-6")).toEqual({ done: 4, stopping: 0, skipped: 0 });
    expect(await job.cancelTasks("6-7")).toMatchObject({ done: 1, skippedTasks: "6" });
    expect(await job.retryTasks("6-7")).toMatchObject({ done: 2, stopping: 0, skipped: 0 });
    await expect(job.cancelTasks("10")).rejects.toMatchObject({ code: "BAD_INPUT" });
    const { tasks } = await job.tasks({ from: 0, count: 10, state: "cancelled" });
    expect(tasks.map(({ task }) => task)).toEqual([3, 4, 5]);
    expect(await job.view()).toMatchObject({ state: "held", array: { counts: { waiting: 7 } } });
    await job.release();
    await writeFile(go, "");
    const { details } = await failureOf(jobId);
    expect(details.tasks).toMatchObject({ completed: 7, cancelled: 3 });
    expect(await numbersIn(file)).toEqual([0, 1, 2, 6, 7, 8, 9]);
  });

  it("hold hands out nothing more and gives the GPUs back; release goes on", async () => {
    const file = path.join(dir, "held");
    const go = path.join(dir, "held-go");
    const script = `echo "$ARRAY_INDEX" >> ${file}; until [ -e ${go} ]; do sleep 0.1; done`;
    const jobId = await submit(array(30, script, { array: { count: 30, parallel: 2 } }));
    await untilCounts(jobId, ({ running }) => running > 0);
    await world.orbweaver.job(jobId).hold();
    await writeFile(go, "");
    await untilView(jobId, ({ state }) => state === "held");
    await untilFree();
    expect((await numbersIn(file)).length).toBeLessThan(30);
    await world.orbweaver.job(jobId).release();
    await handle(jobId).result();
    expect(await numbersIn(file)).toEqual(upTo(30));
  });

  it("a question about a lease that it does not hold changes nothing", async () => {
    const go = path.join(dir, "asked");
    const script = `while [ ! -e ${go} ]; do sleep 0.1; done`;
    const jobId = await submit(array(6, script, { array: { count: 6, parallel: 2 } }));
    await expect.poll(async () => (await world.orbweaver.job(jobId).view()).state).toBe("running");
    await handle(jobId).signal(assertSignal, { leases: [leaseId(token(999_999))] });
    await writeFile(go, "");
    expect(await handle(jobId).result()).toMatchObject({ tasks: { completed: 6 } });
    await world.until("nothing is held", ({ leases }) => leases.size === 0);
  });

  it("cancel ends the whole array, whatever it is doing", async () => {
    const jobId = await submit(array(100, "sleep 60"));
    await untilCounts(jobId, ({ running }) => running > 0);
    await handle(jobId).cancel();
    await expect(handle(jobId).result()).rejects.toThrow(/cancelled/i);
    await untilFree();
  });

  it("cancel at the instant of the grant leaks nothing", async () => {
    for (const delayMs of [0, 20, 40, 80, 120]) {
      const jobId = await submit(array(40, "sleep 60"));
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      await handle(jobId).cancel();
      await expect(handle(jobId).result()).rejects.toThrow(/cancelled/i);
    }
    await untilFree();
  });
});

describe("what breaks", () => {
  it("a killed jobs worker and a killed agent cost no task and run none twice", async () => {
    const file = path.join(dir, "killed");
    const script = `echo "$ARRAY_INDEX" >> ${file}; sleep 0.2`;
    const jobId = await submit(array(300, script));
    await untilCounts(jobId, ({ completed }) => completed > 20);
    await world.kill("jobs");
    await world.kill("agent-alpha");
    await world.start("jobs", ["worker", "--role", "jobs"]);
    await world.startAgent("alpha");
    await handle(jobId).result();
    expect(await numbersIn(file)).toEqual(upTo(300));
    await untilFree();
  });
});

describe("tasks that are cancelled while the agent of their host is gone", () => {
  it("are stopped once another one is there", async () => {
    const file = path.join(dir, "cancelled-unheard");
    const script = `echo "$ARRAY_INDEX" >> ${file}; exec sleep 3600`;
    const jobId = await submit(array(2, script));
    await expect.poll(() => numbersIn(file)).toEqual([0, 1]);
    await world.kill("agent-alpha");
    const answer = await world.orbweaver.job(jobId).cancelTasks("0-1");
    expect(answer).toEqual({ done: 0, stopping: 2, skipped: 0 });
    await world.startAgent("alpha");
    const { details } = await failureOf(jobId);
    expect(details.tasks).toMatchObject({ completed: 0, failed: 0, cancelled: 2 });
    await untilFree();
  });
});

describe("an array that has the whole fleet for minutes", () => {
  it("lets a job that came later have its turn before it is done", async () => {
    const jobId = await submit(array(5_000, "sleep 1"));
    await untilCounts(jobId, ({ running }) => running > 0);
    await world.until("it has every GPU", ({ leases }) => leases.size === 3);
    const late = await submit({ name: "late", gang: 8, run: { command: ["true"] } });
    await handle(late).result();
    expect((await handle(jobId).describe()).status.name).toBe("RUNNING");
    await handle(jobId).cancel();
    await expect(handle(jobId).result()).rejects.toThrow(/cancelled/i);
    await untilFree();
  });
});
