/**
 * @file Orders about jobs that have been submitted, on a live fleet: other settings, top, suspend, resume, requeue.
 *
 * Its hosts start only what their own user has signed, so a job that runs after a change of its tenant or time limit was signed anew.
 */

import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { userName } from "../../access/own-identity.ts";
import type { JobFile, JobView } from "../../client/index.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

/** Four GPUs, and twelve places: three shares with one place for each class, and three that all share. */
const FLEET = `
name: small
tenants:
  - { name: red, weight: 1 }
  - { name: blue, weight: 1, quota: { H100: 2 } }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: a1, gpus: 4, type: H100 }
`;
const PLACES = 12;
const POLL = { interval: 200 };

let world: World;
beforeAll(async () => {
  world = await startWorld({
    address: serverAddress(),
    fleetYaml: FLEET,
    places: PLACES,
  });
});
afterAll(() => world.stop());

let count = 0;
const newId = (name: string): string => `${name}-${String((count += 1))}-${world.fleet}`;

async function submit(name: string, more: Partial<JobFile> = {}, script = "true"): Promise<string> {
  const { jobId } = await world.orbweaver.submit({
    name,
    idempotencyKey: newId(name),
    tenant: "red",
    gang: 1,
    run: { command: ["sh", "-c", script], grace: "1s" },
    ...more,
  });
  return jobId;
}

/** A job that has all GPUs until the returned function is called. */
async function blocked(): Promise<() => Promise<void>> {
  const flag = path.join(world.stateDir, `flag-${String((count += 1))}`);
  const id = await submit("blocker", { gang: 4 }, `while [ ! -e ${flag} ]; do sleep 0.1; done`);
  await world.until("the blocker has the fleet", ({ leases }) =>
    [...leases.values()].some(({ jobId }) => jobId === id),
  );
  return async () => {
    await writeFile(flag, "");
    await world.orbweaver.job(id).result();
  };
}

const viewOf = (id: string): Promise<JobView> => world.orbweaver.job(id).view();

async function untilState(id: string, want: string): Promise<void> {
  await expect.poll(async () => (await viewOf(id)).state, POLL).toBe(want);
}

async function orbweaver(...words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await world.cli(words);
  expect({ code, stderr }, words.join(" ")).toEqual({ code: 0, stderr });
  return stdout;
}

const json = async (...words: readonly string[]): Promise<unknown> =>
  JSON.parse(await orbweaver(...words, "--json"));

/** What becomes of a command that is refused. */
async function refusal(...words: readonly string[]): Promise<string> {
  const { code, stderr } = await world.cli(words);
  return `${String(code)} ${stderr}`;
}

describe("update", () => {
  it("of waiting jobs changes their request, keeps their age, and says who did it", async () => {
    const release = await blocked();
    const one = await submit("one");
    const two = await submit("two");
    await world.until("both wait", ({ requests }) => requests.size === 2);
    const { submittedAtMs } = await viewOf(two);
    expect(await orbweaver("update", one, two, "--priority", "7")).toBe(
      `${one}  priority 0 → 7\n${two}  priority 0 → 7\n`,
    );
    await orbweaver("update", two, "--min", "2", "--max", "3");
    const { requests } = await world.until("the fleet has the changes", (ledger) =>
      [...ledger.requests.values()].some(({ gang }) => gang.gpus === 3),
    );
    const request = [...requests.values()].find(({ jobId }) => jobId === two);
    expect(request).toMatchObject({ priority: 7, gang: { gpus: 3, min: 2 }, submittedAtMs });
    expect(await json("status", two)).toMatchObject({
      spec: { priority: 7, gang: { gpus: 3, min: 2 } },
      amended: { count: 2, last: [{ by: userName() }, { by: userName() }] },
    });
    expect(await orbweaver("explain", two)).toMatch(/changed +priority 0 → 7 by /);
    await release();
    for (const id of [one, two]) await world.orbweaver.job(id).result();
  });

  it("of tenant and time limit is signed anew: hosts run the job, and an array, as changed", async () => {
    const release = await blocked();
    const job = await submit("job", { timeLimit: "1h" });
    const tasks = await submit("tasks", { array: { count: 3 } });
    await world.until("both wait", ({ requests }) => requests.size === 2);
    await orbweaver("update", job, tasks, "--tenant", "blue", "--time-limit", "2h");
    await release();
    for (const id of [job, tasks])
      expect(await world.orbweaver.job(id).outcome()).toMatchObject({ kind: "completed" });
    expect(await viewOf(job)).toMatchObject({
      spec: { tenant: "blue", timeLimitMs: 7_200_000 },
      attempts: [{ end: "completed" }],
    });
    // The amended file is what runs again.
    await orbweaver("retry", job);
    await world.orbweaver.job(`${job}-r1`).result();
    const again = await viewOf(`${job}-r1`);
    expect(again.spec).toMatchObject({ tenant: "blue", timeLimitMs: 7_200_000 });
  });

  it("refuses what could never start, what is impossible, and jobs that ended, before anything changes", async () => {
    const id = await submit("held", { hold: true, gang: 3 });
    await untilState(id, "held");
    expect(await refusal("update", id, "--tenant", "blue")).toMatch(
      /^5 error NEVER_STARTS: held-.* would never start .*: ExceedsMaxQuota\n/,
    );
    const large = await world.cli(["update", id, "--max", "5", "--json"]);
    expect([large.code, JSON.parse(large.stdout)]).toMatchObject([
      5,
      {
        jobs: [
          {
            jobId: id,
            error: {
              code: "NEVER_STARTS",
              message: expect.stringMatching(/would change it: .*\n.*It was not changed/) as string,
              details: {
                jobs: [{ reason: { code: "NoMatchingFlavor", numbers: { needGpus: 5 } } }],
              },
            },
          },
        ],
      },
    ]);
    expect(await refusal("update", id, "--min", "4")).toMatch(/^2 error BAD_INPUT.*3 GPUs/);
    expect(await refusal("update", id, "--priority", "2000")).toMatch(/^2 error BAD_INPUT/);
    expect(await refusal("update", id, "--deadline", "1ms")).toMatch(/^2 error BAD_INPUT/);
    expect(await refusal("update", id)).toMatch(/^2 error BAD_INPUT: nothing is to be changed/);
    expect(await refusal("update", newId("nobody"), "--priority", "1")).toMatch(/^3 /);
    expect(await viewOf(id)).not.toHaveProperty("amended");
    await orbweaver("update", id, "--max", "5", "--queue-anyway");
    expect((await viewOf(id)).spec?.gang.gpus).toBe(5);
    await orbweaver("cancel", id);
    await world.orbweaver.job(id).outcome();
    expect(await refusal("update", id, "--priority", "1")).toMatch(/^1 error NOT_ALLOWED/);
  });

  it("of a job that waits outside takes its place in the lobby of its new tenant", async () => {
    const release = await blocked();
    const ids: string[] = [];
    for (let at = 0; at < 10; at += 1) ids.push(await submit("outside"));
    const outside = async (): Promise<string | undefined> => {
      for (const id of ids) if ((await viewOf(id)).pending?.code === "QueueFull") return id;
      return undefined;
    };
    await expect.poll(outside, POLL).toBeDefined();
    const id = (await outside()) ?? "";
    await orbweaver("update", id, "--tenant", "blue");
    await release();
    for (const each of ids)
      expect(await world.orbweaver.job(each).outcome()).toMatchObject({ kind: "completed" });
    expect((await viewOf(id)).spec?.tenant).toBe("blue");
    await world.until("nobody waits", ({ requests }) => requests.size === 0);
  });
});

it("top puts a waiting job before the others of its tenant and class", async () => {
  const release = await blocked();
  const first = await submit("first", { priority: 3 });
  const second = await submit("second");
  await world.until("both wait", ({ requests }) => requests.size === 2);
  expect(await orbweaver("top", second)).toBe(`${second}  priority 0 → 4\n`);
  expect(await orbweaver("top", second)).toBe(`${second}  as it was\n`);
  await release();
  for (const id of [first, second]) await world.orbweaver.job(id).result();
  expect(await refusal("top", first)).toMatch(/^1 error NOT_ALLOWED/);
});

describe("suspend, resume and requeue", () => {
  /** Writes a checkpoint when it is told to, ends by TERM, and goes on from the newest one until its flag is there. */
  const training = (flag: string): string =>
    [
      'step=$(basename "${ORBWEAVER_CHECKPOINT:-0}")',
      "trap 'mkdir -p \"$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/$((step + 1))\"' USR1",
      "echo started from $step",
      `while [ ! -e ${flag} ]; do sleep 0.1; done`,
    ].join("\n");

  it("a suspended job gives its GPUs back, keeps its age, and goes on from its checkpoint", async () => {
    const flag = path.join(world.stateDir, "done");
    const dir = path.join(world.stateDir, "checkpoints");
    const run = {
      command: ["sh", "-c", training(flag)],
      checkpoint: { signal: "USR1", dir, grace: "2m" },
    };
    const id = await submit("train", { gang: 4, timeLimit: "1h", run });
    await expect.poll(() => orbweaver("logs", id).catch(() => ""), POLL).toContain("from 0");
    expect(await json("suspend", id)).toEqual({ jobs: [{ jobId: id, state: "stopping" }] });
    await untilState(id, "held");
    await world.until("its GPUs are free", ({ leases }) => leases.size === 0);
    const other = await submit("other", { gang: 4 });
    expect(await world.orbweaver.job(other).outcome()).toMatchObject({ kind: "completed" });
    expect(await json("status", id)).toMatchObject({
      pause: { kind: "suspend", by: userName() },
      attempts: [{ end: "stopped", givenUp: { kind: "suspend", by: userName() } }],
    });
    expect(await orbweaver("explain", id)).toMatch(/is suspended: OnHold\n {2}Suspended by /);
    expect(await refusal("requeue", id)).toMatch(/^1 error NOT_ALLOWED/);
    await orbweaver("resume", id);
    await expect.poll(() => orbweaver("logs", id).catch(() => ""), POLL).toContain("from 1");
    await orbweaver("requeue", id);
    await expect.poll(async () => (await viewOf(id)).attempts.length, POLL).toBe(3);
    await writeFile(flag, "");
    expect(await world.orbweaver.job(id).outcome()).toMatchObject({
      kind: "completed",
      result: { attempts: 3 },
    });
    expect(await refusal("suspend", id)).toMatch(/^1 error NOT_ALLOWED/);
  });

  it("a suspended array gives its leases back, and its tasks run when it is resumed", async () => {
    const flag = path.join(world.stateDir, "tasks");
    const wait = `while [ ! -e ${flag} ]; do sleep 0.1; done`;
    const id = await submit("tasks", { array: { count: 6 } }, wait);
    await untilState(id, "running");
    await orbweaver("suspend", id);
    await untilState(id, "held");
    await world.until("its GPUs are free", ({ leases }) => leases.size === 0);
    await writeFile(flag, "");
    await orbweaver("resume", id);
    expect(await world.orbweaver.job(id).outcome()).toMatchObject({
      kind: "completed",
      result: { tasks: { completed: 6 } },
    });
  });

  it("a job that is only held is not resumed but released", async () => {
    const id = await submit("held", { hold: true });
    await untilState(id, "held");
    expect(await refusal("resume", id)).toMatch(/^1 error NOT_ALLOWED: job .* not suspended/);
    await orbweaver("release", id);
    expect(await world.orbweaver.job(id).outcome()).toMatchObject({ kind: "completed" });
  });
});
