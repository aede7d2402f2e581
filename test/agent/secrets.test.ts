/** Secrets by reference, with each supervisor: the processes of a job have the values, and no file, argument or report does. */

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { launchFiles } from "../../agent/folder/launch-files.ts";
import { planWords } from "../../agent/runs/plan-words.ts";
import { hostSecrets } from "../../agent/system/host-secrets.ts";
import { nodeProcesses } from "../../agent/system/node-processes.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { isRoot, NOBODY } from "../support/as-user.ts";
import { batchOf, endsOf, taskOutput } from "./batch-fixture.ts";
import {
  builtNative,
  builtShim,
  eventually,
  folder,
  orderOf,
  outputOf,
  removeFolders,
  testAgent,
} from "./fixture.ts";

afterEach(removeFolders);

const VALUE = "s3cret-value-of-a-token";
const DIGEST = createHash("sha256").update(VALUE).digest("hex");
/** What a process of a job says of its secret without showing it. */
const SHOW = 'printf %s "$TOKEN" | sha256sum | cut -c1-64';

function secretFile(content = `${VALUE}\n`): string {
  const path = join(folder(), "token");
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}
const withSecret = (reference: string) => ({ run: { secrets: { TOKEN: reference } } });

/** Every file below the folder that holds the value. */
const holding = (dir: string): readonly string[] =>
  readdirSync(dir, { recursive: true, encoding: "utf8" })
    .map((name) => join(dir, name))
    .filter((path) => statSync(path).isFile() && readFileSync(path).includes(VALUE));

describe("a job whose file names a secret", () => {
  it.each([
    ["a file", () => `file:${secretFile()}`],
    ["a variable of the agent", () => "env:OF_THE_HOST"],
    ["the output of a command", () => `command:cat ${secretFile()} 2>/dev/null`],
  ])("has %s in the environment of every rank, and the host has it in no file", async (_w, ref) => {
    const agent = testAgent({ env: { OF_THE_HOST: VALUE } });
    const gang = [{ host: orderOf("").host, mask: 3, address: "10.0.0.1" }];
    const order = orderOf(SHOW, { gang, ...withSecret(ref()) });
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
    expect(await outputOf(agent, order, 0)).toBe(`${DIGEST}\n`);
    expect(await outputOf(agent, order, 1)).toBe(`${DIGEST}\n`);
    expect(holding(agent.stateDir)).toEqual([]);
    expect(readFileSync(agent.filesOf(order).plan, "utf8")).toContain('"secrets":["TOKEN"]');
  });

  it("has it in every task of an array", async () => {
    const agent = testAgent();
    const order = batchOf(SHOW, withSecret(`file:${secretFile()}`));
    expect(endsOf(await agent.runs.run(order))).toBe("0:completed 1:completed 2:completed");
    for (const task of [0, 1, 2]) expect(await taskOutput(agent, order, task)).toBe(`${DIGEST}\n`);
    expect(holding(agent.stateDir)).toEqual([]);
  });

  it("has it in the command that makes it write a checkpoint", async () => {
    const agent = testAgent();
    const save = `${SHOW} > "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/.new" && mv "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/.new" "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step-1"`;
    const checkpoint = {
      order: { kind: "command", command: ["sh", "-c", save] },
      graceMs: 60_000,
    } as never;
    const order = orderOf("echo up; exec sleep 60", {
      run: { secrets: { TOKEN: `file:${secretFile()}` }, checkpoint },
    });
    const ended = agent.runs.run(order);
    while ((await outputOf(agent, order).catch(() => "")) === "")
      await new Promise((wake) => setTimeout(wake, 20));
    const { jobId, host, leaseId, token } = order;
    const done = await agent.orders.checkpoint({ jobId, host, leaseId, token });
    expect(done).toMatchObject({ isComplete: true });
    expect(readFileSync(done.checkpoint?.path ?? "", "utf8")).toBe(`${DIGEST}\n`);
    await agent.orders.stop({
      ...{ jobId, host, leaseId, token, isCheckpointFirst: false, reason: "enough" },
    });
    await ended;
  });

  it("cannot set by it what Orbweaver sets", async () => {
    const agent = testAgent();
    const names = ["RANK", "ORBWEAVER_JOB_ID", "CUDA_DEVICE_ORDER", "NNODES"];
    // Nothing is looked up for them: no host has the file.
    const secrets = Object.fromEntries(names.map((name) => [name, "file:/nowhere/token"]));
    const line = names.map((name) => `$${name}`).join(" ");
    const order = orderOf(`echo "${line}"`, { run: { secrets } });
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
    expect(await outputOf(agent, order)).toBe("0 job-7 PCI_BUS_ID 1\n");
  });
});

describe("a secret that cannot be looked up", () => {
  const run = async (
    reference: string,
    order: RunOrder = orderOf("true", withSecret(reference)),
  ) => {
    const agent = testAgent();
    return { agent, order, report: await agent.runs.run(order) };
  };

  it("ends the run before anything is started, with the reference and without what the command said", async () => {
    const line = `echo ${VALUE}; echo ${VALUE} >&2; exit 3`;
    const path = secretFile(line);
    const { agent, report } = await run(`command:sh ${path}`);
    expect(report).toMatchObject({
      ...{ end: "failed", hasStarted: false, ranks: [] },
      cause: { code: "SECRET_UNAVAILABLE" },
    });
    expect(report.cause?.message).toContain(`TOKEN ("command:sh ${path}"`);
    expect(JSON.stringify(report)).not.toContain(VALUE);
    expect(holding(agent.stateDir)).toEqual([]);
    // Nothing was noted: the next run of the lease is a first one.
    writeFileSync(path, `echo ${VALUE}`);
    const order = orderOf(SHOW, withSecret(`command:sh ${path}`));
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
  });

  it("lets each task of a batch wait again", async () => {
    const { report } = await run("", batchOf("true", withSecret("file:/no/such/file")));
    expect(endsOf(report)).toBe("0:not-run 1:not-run 2:not-run");
    expect(report).toMatchObject({ end: "failed", cause: { code: "SECRET_UNAVAILABLE" } });
    expect(report.cause?.message).toMatch(/TOKEN \("file:\/no\/such\/file"/);
  });

  it.each([
    ["a variable that the agent has not", () => "env:NOT_THERE", /no such variable/],
    ["a folder", () => `file:${folder()}`, /cannot be read/],
    ["an empty file", () => `file:${secretFile("\n")}`, /empty/],
    [
      "a file that is too long",
      () => `file:${secretFile("x".repeat(40_000))}`,
      /longer than 32768/,
    ],
    [
      "a file that is too long by its newlines",
      () => `file:${secretFile(`${"x".repeat(32_760)}${"\n".repeat(20)}more`)}`,
      /longer than 32768/,
    ],
    ["a device without end", () => "file:/dev/zero", /longer than 32768/],
    ["bytes that are no text", () => "command:printf 'a\\377b'", /no text/],
    ["a NUL byte", () => "command:printf 'a\\0b'", /no text/],
    ["a reference of another kind", () => "vault:kv/token", /no reference/],
  ])("such as %s says why", async (_what, reference, why) => {
    const { report } = await run(reference());
    expect(report.cause).toMatchObject({ code: "SECRET_UNAVAILABLE" });
    expect(report.cause?.message).toMatch(why);
  });

  it("is not waited for beyond its time, nor by a run that is called off; what it started is killed", async () => {
    const pipe = join(folder(), "pipe");
    execFileSync("mkfifo", [pipe]);
    const mark = join(folder(), "mark");
    const read = hostSecrets({ env: process.env, limits: { timeoutMs: 50 } });
    const never = new AbortController().signal;
    for (const reference of [`file:${pipe}`, `command:sleep 61 & echo ${mark}; wait`])
      expect(await read(orderOf("", withSecret(reference)), never)).toMatchObject({
        ...{ kind: "unavailable", why: expect.stringContaining("longer than 0.05 s") as string },
      });
    // What was killed may need a moment to be gone.
    await eventually(() => spawnSync("pgrep", ["-f", mark], { encoding: "utf8" }).stdout === "");
    const halted = AbortSignal.abort();
    const slow = hostSecrets({ env: process.env });
    expect(await slow(orderOf("", withSecret("command:sleep 62")), halted)).toMatchObject({
      kind: "unavailable",
    });
  });
});

it.runIf(isRoot)(
  "an agent of root reads files and runs commands as the job's user alone",
  async () => {
    const dir = folder();
    chmodSync(dir, 0o755);
    const [own, roots] = [join(dir, "own"), join(dir, "roots")];
    for (const path of [own, roots]) writeFileSync(path, VALUE, { mode: 0o600 });
    execFileSync("chown", [`${String(NOBODY)}:${String(NOBODY)}`, own]);
    const user = { name: "nobody", uid: NOBODY, gid: NOBODY, groups: [NOBODY], home: dir };
    const limits = { processes: 1_000, openFiles: 1_000 };
    const read = hostSecrets({
      env: { ...process.env, HOME: "/root" },
      runAsOf: () => ({ user, limits, stateDir: "/nowhere" }),
    });
    const look = (reference: string) =>
      read(orderOf("", withSecret(reference)), new AbortController().signal);
    expect(await look("file:~/own")).toEqual({ kind: "read", values: { TOKEN: VALUE } });
    expect(await look(`file:${roots}`)).toMatchObject({ kind: "unavailable" });
    expect(await look(`command:cat ${roots}`)).toMatchObject({ kind: "unavailable" });
    expect(await look("command:echo $(id -u) $HOME $USER; grep CapEff /proc/self/status")).toEqual({
      kind: "read",
      values: { TOKEN: `${String(NOBODY)} ${dir} nobody\nCapEff:\t0000000000000000` },
    });
  },
);

it("a supervisor whose input was cut off leaves the claim to the next", () => {
  const native = builtNative();
  const files = launchFiles(join(folder(), "leases", "lease-1"));
  mkdirSync(files.dir, { recursive: true });
  const plan = {
    ...{ command: ["true"], cwd: "/", secrets: ["A", "B"], graceMs: 100 },
    ranks: [{ rank: 0, env: { PATH: "/usr/bin:/bin" } }],
    log: { partBytes: 1_000, parts: 2 },
  };
  writeFileSync(files.plan, JSON.stringify(plan));
  writeFileSync(files.container, '{"kind":"marks"}');
  writeFileSync(files.planWords, planWords(plan, { kind: "marks" }) ?? "");
  const [program = "", ...words] =
    native === undefined ? [process.execPath, builtShim(), files.dir] : [native, files.dir];
  for (const input of ["", "A=1\0", "A=1\0B=2", "B=1\0A=2\0", "A=1\0B=2\0C=3\0"]) {
    const { status, stderr } = spawnSync(program, words, { input, encoding: "utf8" });
    expect(status).not.toBe(0);
    expect(stderr).toContain("secrets have not come");
    expect(() => statSync(files.claim)).toThrow();
  }
  expect(spawnSync(program, words, { input: "A=1\0B=2\0" }).status).toBe(0);
});

it("a supervisor waits for the values of an agent that is slow to write them", async () => {
  const files = launchFiles(join(folder(), "leases", "lease-1"));
  mkdirSync(files.dir, { recursive: true });
  const names = Array.from({ length: 32 }, (_, at) => `S${String(at)}`);
  const plan = {
    ...{ command: ["true"], cwd: "/", secrets: names, graceMs: 100 },
    ranks: [{ rank: 0, env: { PATH: "/usr/bin:/bin" } }],
    log: { partBytes: 1_000, parts: 2 },
  };
  writeFileSync(files.plan, JSON.stringify(plan));
  writeFileSync(files.container, '{"kind":"marks"}');
  const input = names.map((name) => `${name}=${"x".repeat(32_768)}\0`).join("");
  const output = join(files.dir, "shim.log");
  const ended = new Promise((resolve) => {
    nodeProcesses.start({
      ...{ command: [process.execPath, builtShim(), files.dir], cwd: "/", output, input },
      ...{ env: { PATH: "/usr/bin:/bin" }, onEnd: resolve, onNotStarted: resolve },
    });
    // Nothing more is written meanwhile.
    spawnSync("sleep", ["1"]);
  });
  expect([await ended, readFileSync(output, "utf8")]).toEqual([
    { exitCode: 0 },
    expect.not.stringContaining("have not come"),
  ]);
});
