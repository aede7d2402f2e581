/**
 * @file Jobs that wait for other jobs, on a live fleet: what lets them go, what ends them, and that no death of a worker or of a predecessor
 * leaves them waiting.
 *
 * The hosts start only what their own user has signed, the dependencies included.
 */

import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobFile, JobView } from "../../client/index.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

const POLL = { interval: 200 };

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

let count = 0;

async function submit(name: string, more: Partial<JobFile> = {}, script = "true"): Promise<string> {
  const { jobId } = await world.orbweaver.submit({
    name,
    idempotencyKey: `${name}-${String((count += 1))}-${world.fleet}`,
    gang: 1,
    run: { command: ["sh", "-c", script], grace: "1s" },
    ...more,
  });
  return jobId;
}

/** A job that runs until the returned function is called, then ends with this status. */
async function waiting(status: 0 | 1 = 0): Promise<{ id: string; end: () => Promise<void> }> {
  const flag = path.join(world.stateDir, `flag-${String((count += 1))}`);
  const script = `while [ ! -e ${flag} ]; do sleep 0.1; done; exit ${String(status)}`;
  return { id: await submit("first", {}, script), end: () => writeFile(flag, "") };
}

const viewOf = (id: string): Promise<JobView> => world.orbweaver.job(id).view();
const outcomeOf = async (id: string) => await world.orbweaver.job(id).outcome();

async function untilHeard(id: string, state: string): Promise<void> {
  await expect.poll(async () => (await viewOf(id)).after?.[0]?.state, POLL).toBe(state);
}

async function orbweaver(...words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await world.cli(words);
  expect({ code, stderr }, words.join(" ")).toEqual({ code: 0, stderr });
  return stdout;
}

describe("a job that waits for another", () => {
  it("asks for nothing before that has completed, says so, and then runs as signed", async () => {
    const first = await waiting();
    const id = (
      await orbweaver("submit", "--after", first.id, "--gpus", "1", "--name", "then", "--", "true")
    ).trim();
    await untilHeard(id, "running");
    const { requests } = await world.ledger();
    expect([...requests.keys()]).not.toContain(id);
    expect(await orbweaver("explain", id)).toContain(
      `${id} waits: WaitingForJobs\n  waits until ${first.id} completes (running)\n`,
    );
    expect(JSON.parse(await orbweaver("status", id, "--json"))).toMatchObject({
      after: [{ job: first.id, on: "success", state: "running", verdict: "open" }],
      pending: { code: "WaitingForJobs", holders: [first.id] },
    });
    const listed = async () => {
      const { jobs } = JSON.parse(await orbweaver("list", "--json")) as {
        jobs: readonly { jobId: string; pending?: { code: string } }[];
      };
      return jobs.find(({ jobId }) => jobId === id)?.pending?.code;
    };
    await expect.poll(listed, POLL).toBe("WaitingForJobs");
    await first.end();
    expect(await outcomeOf(id)).toMatchObject({ kind: "completed" });
    const { after, attempts } = await viewOf(id);
    expect(after).toMatchObject([{ state: "completed", verdict: "met" }]);
    expect(attempts).toMatchObject([{ end: "completed" }]);
  });

  it("goes by success, failure, end and start of jobs and arrays, that have ended already or not", async () => {
    const bad = await waiting(1);
    const array = await submit("tasks", { array: { count: 3 } });
    const afterFailure = await submit("repair", { after: [{ job: bad.id, on: "failure" }] });
    const afterStart = await submit("beside", { after: [{ job: bad.id, on: "start" }] });
    const afterBoth = await submit("both", {
      array: { count: 2 },
      after: [{ job: bad.id, on: "end" }, { job: array }],
    });
    const afterSuccess = await submit("publish", { after: [{ job: bad.id }] });
    const released = await submit("anyway", {
      after: [{ job: bad.id }],
      onFailedDependency: "release",
    });
    expect(await outcomeOf(afterStart)).toMatchObject({ kind: "completed" });
    await untilHeard(afterFailure, "running");
    expect((await viewOf(afterFailure)).state).toBe("pending");
    await bad.end();
    for (const id of [afterFailure, afterBoth, released])
      expect(await outcomeOf(id), id).toMatchObject({ kind: "completed" });
    const failed = {
      kind: "failed",
      failure: { code: "DEPENDENCY_FAILED" },
      message: expect.stringContaining(`${bad.id} is failed`),
    };
    expect(await outcomeOf(afterSuccess)).toMatchObject(failed);
    // Those that they wait for have ended before they are submitted.
    expect(await outcomeOf(await submit("late", { after: [{ job: array }] }))).toMatchObject({
      kind: "completed",
    });
    expect(await outcomeOf(await submit("never", { after: [{ job: bad.id }] }))).toMatchObject(
      failed,
    );
    // Run again by hand, it waits for nothing.
    await orbweaver("retry", afterSuccess);
    expect(await outcomeOf(`${afterSuccess}-r1`)).toMatchObject({ kind: "completed" });
    const tasks = await submit("never-tasks", { array: { count: 2 }, after: [{ job: bad.id }] });
    expect(await outcomeOf(tasks)).toMatchObject(failed);
    await orbweaver("retry", tasks);
    expect(await outcomeOf(`${tasks}-r1`)).toMatchObject({
      kind: "completed",
      result: { tasks: { completed: 2 } },
    });
  });

  it("of a singleton is its user's open job of the same name", async () => {
    const name = `once-${world.fleet}`;
    const once = (...words: readonly string[]): Promise<string> =>
      orbweaver("submit", "--singleton", "--name", name, "--gpus", "1", ...words);
    const first = (await once("--", "sleep", "600")).trim();
    const isListed = async (): Promise<string> =>
      orbweaver("list", "--me", "--name", name, "-o", "name");
    await expect.poll(isListed, POLL).toBe(`${first}\n`);
    const second = (await once("--", "true")).trim();
    await untilHeard(second, "running");
    expect((await viewOf(second)).spec?.after).toEqual([{ job: first, on: "end" }]);
    await world.orbweaver.job(first).cancel();
    expect(await outcomeOf(second)).toMatchObject({ kind: "completed" });
  });

  it("is held, changed, released and cancelled meanwhile", async () => {
    const first = await waiting();
    const id = await submit("then", { after: [{ job: first.id }] });
    await untilHeard(id, "running");
    await orbweaver("hold", id);
    expect(await orbweaver("explain", id)).toContain(`after  ${first.id} completes (running)`);
    await orbweaver("update", id, "--priority", "7");
    await orbweaver("release", id);
    expect(await viewOf(id)).toMatchObject({ state: "pending", spec: { priority: 7 } });
    await orbweaver("cancel", id);
    expect(await outcomeOf(id)).toEqual({ kind: "cancelled" });
    await first.end();
  });

  it("hears of the end while no worker of jobs was there", async () => {
    const first = await waiting();
    const id = await submit("then", { after: [{ job: first.id, on: "end" }] });
    await untilHeard(id, "running");
    await world.kill("jobs");
    await first.end();
    await world.start("jobs", ["worker", "--role", "jobs"]);
    expect(await outcomeOf(id)).toMatchObject({ kind: "completed" });
  });

  it("does not wait for ever for one that was cancelled, or terminated from outside", async () => {
    const cancelled = await waiting();
    const terminated = await waiting();
    const then = await submit("then", { after: [{ job: cancelled.id }] });
    const freed = await submit("freed", { after: [{ job: terminated.id, on: "end" }] });
    const lost = await submit("lost", { after: [{ job: terminated.id }] });
    await untilHeard(freed, "running");
    await untilHeard(lost, "running");
    await orbweaver("cancel", cancelled.id);
    await world.temporal.workflow.getHandle(terminated.id).terminate("by hand");
    expect(await outcomeOf(then)).toMatchObject({ failure: { code: "DEPENDENCY_FAILED" } });
    expect(await outcomeOf(lost)).toMatchObject({ failure: { code: "DEPENDENCY_FAILED" } });
    expect(await outcomeOf(freed)).toMatchObject({ kind: "completed" });
  });
});

it("a job that would wait for one that there is not is refused before anything starts", async () => {
  const words = ["submit", "--after", "nobody", "--gpus", "1", "--", "true"];
  const { code, stderr } = await world.cli(words);
  expect(code).toBe(3);
  expect(stderr).toMatch(/^error NOT_FOUND: after: there is no job nobody/);
});

describe("a group", () => {
  const steps = (flag: string): string =>
    [
      `name: prepare\ngang: 1\nrun: { command: "while [ ! -e ${flag} ]; do sleep 0.1; done", grace: 1s }`,
      `name: train\ngang: 1\nafter: [{ job: prepare }]\nrun: { command: "true" }`,
      `name: publish\ngang: 1\nafter: [{ job: train, on: end }]\nrun: { command: "true" }`,
    ].join("\n---\n");
  const submitGroup = async (group: string, flag: string): Promise<readonly string[]> => {
    const words = ["submit", "-", "--group", group];
    const { code, stdout, stderr } = await world.cli(words, steps(flag));
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return stdout.trim().split("\n");
  };
  const shown = async (group: string): Promise<unknown> => {
    const { stdout } = await world.cli(["status", "--group", group, "--json"]);
    return JSON.parse(stdout);
  };

  it("of one file is submitted with its dependencies, and shown as one", async () => {
    const flag = path.join(world.stateDir, "group-1");
    const [prepare = "", train = "", publish = ""] = await submitGroup("night-1", flag);
    await expect
      .poll(async () => (await viewOf(publish)).spec?.after)
      .toEqual([{ job: train, on: "end" }]);
    await untilHeard(train, "running");
    await expect
      .poll(() => shown("night-1"), POLL)
      .toMatchObject({
        count: 3,
        states: { running: 1, pending: 2 },
        gpus: 1,
        waits: { WaitingForJobs: 2 },
      });
    await writeFile(flag, "");
    for (const id of [prepare, train, publish])
      expect(await outcomeOf(id)).toMatchObject({ kind: "completed" });
    await expect.poll(() => shown("night-1"), POLL).toMatchObject({ states: { completed: 3 } });
  });

  it("is cancelled as one, and is listed", async () => {
    const ids = await submitGroup("night-2", path.join(world.stateDir, "never"));
    const listed = async () => (await orbweaver("list", "--group", "night-2", "-o", "name")).trim();
    await expect
      .poll(async () => (await listed()).split("\n").sort(), POLL)
      .toEqual([...ids].sort());
    await world.cli(["cancel", "--group", "night-2", "--yes"]);
    const ends = await Promise.all(ids.map(outcomeOf));
    // A cancelled predecessor may end its follower before that one's own cancellation comes.
    expect(ends[0]).toEqual({ kind: "cancelled" });
    for (const { kind } of ends) expect(["cancelled", "failed"]).toContain(kind);
    const { code } = await world.cli(["status", "--group", "night-3"]);
    expect(code).toBe(3);
  });
});
