/** @file The process that starts supervisors: what it starts is as if the agent had, and no launch hangs on it. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { startShim } from "../../../agent/runs/shim-start.ts";
import { FINAL_KINDS, untilPhase } from "../../../agent/runs/local-run.ts";
import { replaceJson } from "../../../agent/folder/json-files.ts";
import { LAUNCH_MARK, launchFiles } from "../../../agent/folder/launch-files.ts";
import type { Starter } from "../../../agent/ports/starter.ts";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { statOf } from "../../../agent/system/process-identity.ts";
import { openStarter } from "../../../agent/system/starter.ts";
import {
  builtNative,
  builtShim,
  eventually,
  folder,
  kill,
  launchIn,
  removeFolders,
} from "../fixture.ts";

const native = builtNative() ?? "";
const closing: AbortController[] = [];
afterEach(() => {
  for (const each of closing.splice(0)) each.abort();
  removeFolders();
});

function opened(program = native): Starter {
  const controller = new AbortController();
  closing.push(controller);
  return openStarter(program, controller.signal);
}

const isGone = (pid: number): boolean => statOf(pid)?.isZombie !== false;

/** A launch of `command` in a folder of its own, started as an agent starts it. */
async function started(starter: Starter, command: readonly string[]) {
  const files = launchFiles(join(folder(), "leases", "lease-1"));
  mkdirSync(files.dir, { recursive: true });
  const launch = launchIn(files);
  replaceJson(nodeSystem.files, files.plan, {
    ...{ command, cwd: files.dir, graceMs: 100, log: { partBytes: 1_000, parts: 2 } },
    // With the mark by which what is left is found and ended.
    ranks: [{ rank: 0, env: { PATH: "/usr/bin:/bin", [LAUNCH_MARK]: files.dir } }],
  });
  const phase = await startShim(launch, {
    ...{ containment: { kind: "marks" }, owner: "o", shimPath: builtShim(), nativePath: native },
    ...{ starter, env: process.env, leaseId: "lease-1" },
  });
  return { launch, phase };
}

describe.runIf(native !== "")("a starter", () => {
  it("starts supervisors with a session, an environment and output of their own, and tells their ends", async () => {
    const dir = folder();
    const [output, env] = [join(dir, "out"), { ORBWEAVER_LAUNCH: dir, LANG: undefined, A: "ü" }];
    const starter = opened();
    // Without a plan there, it says so and ends.
    await new Promise<void>((resolve) => {
      expect(starter.start({ folder: dir, env, output, onEnd: resolve })).toBe(true);
    });
    expect(readFileSync(output, "utf8")).toContain(`${dir}/plan.words is missing or broken`);
    const { launch, phase } = await started(starter, ["sleep", "600"]);
    const shim = phase?.kind === "running" || phase?.kind === "starting" ? phase.shim : undefined;
    const stat = statOf(shim?.pid ?? 0);
    expect(stat).toMatchObject({ sid: shim?.pid, pgid: shim?.pid, ppid: starter.pid });
    const environment = readFileSync(`/proc/${String(shim?.pid)}/environ`, "utf8").split("\0");
    expect(environment).toContain(`ORBWEAVER_LAUNCH=${launch.files.dir}`);
    expect(environment.some((each) => each.startsWith("LANG="))).toBe(false);
    kill(shim?.pid ?? 0);
    await untilPhase(launch, FINAL_KINDS);
  });

  it("that is killed leaves supervisors running, and the next launch begins without it", async () => {
    const starter = opened();
    const first = await started(starter, ["sleep", "600"]);
    kill(starter.pid ?? 0);
    await eventually(() => isGone(starter.pid ?? 0));
    await untilPhase(first.launch, ["running"]);
    const { launch, phase } = await started(starter, ["true"]);
    expect(phase).toBeDefined();
    expect(await untilPhase(launch, FINAL_KINDS)).toMatchObject({ kind: "ended" });
    const now = await untilPhase(first.launch, ["running"]);
    kill(now?.shim.pid ?? 0);
  });

  it("that is stopped is waited for once, then gone around, and used again when it goes on", async () => {
    const starter = opened();
    process.kill(starter.pid ?? 0, "SIGSTOP");
    const { launch, phase } = await started(starter, ["true"]);
    expect(phase).toBeDefined();
    expect(await untilPhase(launch, FINAL_KINDS)).toMatchObject({ kind: "ended" });
    const order = { folder: "/", env: {}, output: "/dev/null", onEnd: () => undefined };
    expect(starter.start(order)).toBe(false);
    const second = await started(starter, ["true"]);
    expect(await untilPhase(second.launch, FINAL_KINDS)).toMatchObject({ kind: "ended" });
    // It starts a supervisor after all, which finds the claim taken.
    process.kill(starter.pid ?? 0, "SIGCONT");
    await eventually(() => starter.start(order));
    closing.at(-1)?.abort();
    await eventually(() => isGone(starter.pid ?? 0));
    for (const each of [launch, second.launch])
      expect(await untilPhase(each, FINAL_KINDS)).toMatchObject({ kind: "ended" });
  });

  it("is not gone around where the agent itself was too busy to hear that it took a request", async () => {
    const starter = opened();
    let isEnded = false;
    const start: Starter["start"] = (order) => {
      const onEnd = (): void => {
        isEnded = true;
        order.onEnd();
      };
      const isTaken = starter.start({ ...order, onEnd });
      const { claim } = launchFiles(order.folder);
      // At least as long as the agent waits, and until the starter has surely taken it.
      for (let times = 0; times < 100 && (times < 25 || !existsSync(claim)); times += 1)
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      return isTaken;
    };
    const { launch } = await started({ pid: starter.pid, start }, ["sleep", "600"]);
    const now = await untilPhase(launch, ["running"]);
    // Timers that came due meanwhile are called first.
    await nodeSystem.clock.pause(10);
    expect(isEnded).toBe(false);
    kill(now?.shim.pid ?? 0);
  });

  it("ends with the process that opened it, however that ends", async () => {
    const program = `const child = require("node:child_process").spawn(${JSON.stringify(native)}, ["--starter"], { detached: true, stdio: ["pipe", "pipe", "ignore"] }); console.log(child.pid); setInterval(() => undefined, 1000);`;
    const agent = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "ignore"] });
    const [line] = (await once(agent.stdout, "data")) as [Buffer];
    const pid = Number(line.toString());
    expect(isGone(pid)).toBe(false);
    agent.kill("SIGKILL");
    await eventually(() => isGone(pid));
  });

  it("takes nothing that is no program, that is too long, or once it is closed", () => {
    const order = { folder: "/", env: {}, output: "/dev/null", onEnd: () => undefined };
    expect(opened("/no/such/program").start(order)).toBe(false);
    const starter = opened();
    expect(starter.start({ ...order, env: { LONG: "x".repeat(300_000) } })).toBe(false);
    closing.at(-1)?.abort();
    expect(starter.start(order)).toBe(false);
  });

  it.each([
    ["words without an end", Buffer.from("1\0/\0/dev/null")],
    ["no number", Buffer.from("one\0/\0/dev/null\0")],
    ["a request that is too long", Buffer.alloc(0)],
  ])("ends at %s", async (what, words) => {
    const child = spawn(native, ["--starter"], { stdio: ["pipe", "ignore", "ignore"] });
    const size = Buffer.alloc(4);
    size.writeUInt32LE(what.includes("long") ? 2 ** 31 : words.length);
    child.stdin.write(Buffer.concat([size, words]));
    const [code] = (await once(child, "exit")) as [number];
    expect(code).toBe(0);
  });
});
