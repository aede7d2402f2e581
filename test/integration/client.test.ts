/** @file Submitting as users do: the library, a plain Temporal client, the command line; and the key that submits once. */

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";
import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { userName } from "../../access/own-identity.ts";
import { HELPERS_DIVISION } from "../../client/helper-workflow.ts";
import { wake } from "../../client/waking.ts";
import { JOB_TASK_QUEUE } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({
    address: serverAddress(),
    fleetYaml: SMALL_FLEET,
    // A plain client signs nothing.
    agentArgs: ["--trust", "namespace"],
  });
});
afterAll(() => world.stop());

/** Runs a sample as a user would, against this world; `orbweaver` resolves to this package. */
function runExample(name: string): string {
  const folder = path.join(ROOT, "dist/examples");
  mkdirSync(folder, { recursive: true });
  const source = readFileSync(path.join(ROOT, "examples", `${name}.ts`), "utf8");
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
  });
  writeFileSync(path.join(folder, `${name}.js`), outputText);
  const done = spawnSync(process.execPath, [path.join(folder, `${name}.js`)], {
    env: { ...world.env, ORBWEAVER_FLEET: world.fleet },
    encoding: "utf8",
  });
  if (done.status !== 0) throw new Error(`${name} gave ${done.status}:\n${done.stderr}`);
  return done.stdout;
}

describe("samples of the README", () => {
  it("the library submits, follows the logs of all ranks, and waits", () => {
    const output = runExample("submit");
    expect(output).toMatch(/rank 0 of 2 on GPUs 0,1/);
    expect(output).toMatch(/rank 1 of 2 on GPUs 0,1/);
    expect(output).toMatch(/ran \d+ ms on alpha\/a1/);
  });

  it("a plain Temporal client is enough where the namespace is trusted", () => {
    expect(runExample("plain-client")).toMatch(/gpus: 2/);
  });
});

it("workflows that only help a client are in no list that does not ask for them", async () => {
  await wake(world.temporal, JOB_TASK_QUEUE);
  const count = async (query: string): Promise<number> =>
    (await world.temporal.workflow.count(`WorkflowType = "wake"${query}`)).count;
  await expect
    .poll(() => count(` AND TemporalNamespaceDivision = "${HELPERS_DIVISION}"`))
    .toBeGreaterThan(0);
  expect(await count("")).toBe(0);
});

describe("the same key", () => {
  const job = (gpus: number) => ({ name: "once", gang: { gpus }, run: { command: ["true"] } });

  it("submits once, and says so", async () => {
    const key = `key-${world.fleet}`;
    expect(await world.orbweaver.submit(job(1), { idempotencyKey: key })).toEqual({
      jobId: key,
      isNew: true,
    });
    expect(await world.orbweaver.submit(job(1), { idempotencyKey: key })).toEqual({
      jobId: key,
      isNew: false,
    });
    await world.temporal.workflow.getHandle(key).result();
    expect(await world.orbweaver.submit(job(1), { idempotencyKey: key })).toEqual({
      jobId: key,
      isNew: false,
    });
  });

  it("with another description is refused with the difference", async () => {
    const key = `conflict-${world.fleet}`;
    await world.orbweaver.submit(job(1), { idempotencyKey: key });
    await expect(world.orbweaver.submit(job(2), { idempotencyKey: key })).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
      message: expect.stringMatching(/gang\.gpus.*1.*2/) as string,
    });
  });
});

describe("the command line", () => {
  it.each([
    { name: "0 when it completed", script: "true", more: [], want: 0 },
    { name: "the process's own status", script: "exit 7", more: [], want: 7 },
    { name: "128 + n after a signal", script: "kill -TERM $$", more: [], want: 143 },
    { name: "127 without its command", script: "exec no-such-command", more: [], want: 127 },
    { name: "124 at the time limit", script: "sleep 60", more: ["--time-limit", "1s"], want: 124 },
  ])("submit --wait exits with $name", async ({ script, more, want }) => {
    const { code } = await world.cli([
      "submit",
      "--wait",
      "--gpus",
      "1",
      ...more,
      "--",
      "sh",
      "-c",
      script,
    ]);
    expect(code).toBe(want);
  });

  it("exits with 1 to 5 for failures of its own, and with 130 once a job is cancelled", async () => {
    const key = `cut-${world.fleet}`;
    const command = ["--gpus", "1", "--key", key, "--", "sleep", "600"];
    const waiting = world.cli(["submit", "--wait", ...command]);
    await world.until("it runs", ({ leases }) =>
      [...leases.values()].some(({ jobId }) => jobId === key),
    );
    const cases: readonly (readonly [code: number, ...words: readonly string[]])[] = [
      [1, "retry", key],
      [2, "submit", "--gpus", "none", "--", "true"],
      [3, "status", "nobody"],
      [4, "list", "--address", "127.0.0.1:1"],
      [5, "submit", "--gpus", "64", "--", "true"],
      [0, "kill", key],
    ];
    for (const [want, ...words] of cases)
      expect([words, (await world.cli(words)).code]).toEqual([words, want]);
    expect((await waiting).code).toBe(130);
  });

  it("submits a file from standard input, explains it, holds and releases it, and shows its logs", async () => {
    const file =
      "name: from-stdin\nidempotencyKey: stdin-KEY\ngang: { gpus: 2 }\nhold: true\nrun: { command: [sh, -c, 'echo out of $RANK'] }\n".replace(
        "KEY",
        world.fleet,
      );
    const id = `stdin-${world.fleet}`;
    const submitted = await world.cli(["submit", "--priority", "3", "-"], file);
    expect(submitted).toMatchObject({ code: 0, stdout: `${id}\n` });
    await expect
      .poll(async () => (await world.cli(["status", id, "--json"])).stdout)
      .toMatch(/"state": "held"/);
    const status = JSON.parse((await world.cli(["status", id, "--json"])).stdout) as object;
    expect(status).toMatchObject({ user: userName(), spec: { priority: 3, gang: { gpus: 2 } } });
    expect((await world.cli(["status", id])).stdout).toMatch(
      new RegExp(`^submitted +.* ago\\) by ${userName()}$`, "m"),
    );
    expect(parse((await world.cli(["status", id, "-o", "yaml"])).stdout)).toMatchObject({
      user: userName(),
      spec: { priority: 3 },
    });
    expect((await world.cli(["explain", id])).stdout).toMatch(/OnHold/);
    expect((await world.cli(["release", id])).code).toBe(0);
    await world.temporal.workflow.getHandle(id).result();
    expect((await world.cli(["logs", id, "--rank", "1"])).stdout).toBe("out of 1\n");
    // Lists are as the server's list of workflows, which is behind.
    await expect
      .poll(async () => (await world.cli(["list", "--all"])).stdout)
      .toContain(id.slice(0, 12));
  });

  it("drains a host, so that nothing new starts there, and ends the drain", async () => {
    expect((await world.cli(["drain", "alpha/a1", "--reason", "new fan"])).code).toBe(0);
    const { jobId } = await world.orbweaver.submit({
      name: "elsewhere",
      gang: { gpus: 1 },
      run: { command: ["true"] },
    });
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({
      hosts: ["alpha/a2"],
    });
    expect((await world.cli(["undrain", "alpha/a1"])).code).toBe(0);
    expect(await world.cli(["drain", "alpha/nowhere", "--reason", "x"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("alpha/nowhere") as string,
    });
  });

  it("says what is wrong with a file, with its place, and exits with 2", async () => {
    const { code, stderr } = await world.cli(
      ["submit", "-"],
      "name: x\ngang:\n  gpu: 4\nrun: { command: [true] }\n",
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/3:3.*gpu.*gpus/);
  });
});
