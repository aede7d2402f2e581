/** @file What must survive an agent's death at any moment, and what its successor must not touch. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { livingRuns, startedRuns } from "../../agent/runs/agent-host.ts";
import { openContactStore } from "../../agent/presence/contact-store.ts";
import { contactPath } from "../../agent/presence/last-contact.ts";
import { createFence } from "../../agent/presence/fence.ts";
import type {
  Claim,
  LaunchPlan,
  LaunchStatus,
  StoredOrder,
} from "../../agent/folder/launch-files.ts";
import { identityOf, type ProcessIdentity } from "../../agent/system/process-identity.ts";
import { replaceFile } from "../../agent/system/state-files.ts";
import { watchUnattended } from "../../agent/runs/unattended-run.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { leaseId, token } from "../../domain/values/ids.ts";
import {
  builtEntry,
  builtNative,
  builtShim,
  folder,
  HOST,
  kill,
  orderOf,
  outputOf,
  removeFolders,
  runs,
  stopOf,
  testAgent,
  systemAt,
} from "./fixture.ts";

const bystanders: ChildProcess[] = [];
afterEach(() => {
  for (const child of bystanders.splice(0)) child.kill("SIGKILL");
  removeFolders();
});

describe("an agent that is killed again and again in the middle of a write", () => {
  /** How long each life lasts once it has begun, in ms. */
  const LIVES_MS = [5, 90, 0, 160, 40];
  const LINES = 5_000;
  const EXITS = [0, 3, 7];

  it("leaves every report, exit code and line of output whole, and starts nothing twice", async () => {
    const dir = folder();
    const stateDir = folder();
    const orders = EXITS.map((exit, gpu): RunOrder => {
      const line = `echo $$ >> ${dir}/starts-${gpu}; i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo $i; [ $((i % 10)) = 0 ] && sleep 0.01; done; exit ${exit}`;
      const count = token(5 + gpu);
      return orderOf(line, {
        token: count,
        leaseId: leaseId(count),
        gang: [{ host: HOST, mask: 1 << gpu, address: "a" }],
      });
    });
    const program = builtEntry("test/agent/killed-agent.ts");
    const args = [program, stateDir, builtShim(), builtNative() ?? "", JSON.stringify(orders)];
    for (const lifeMs of LIVES_MS) {
      const agent = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
      const gone = once(agent, "exit");
      await once(agent.stdout, "data");
      await new Promise((wake) => setTimeout(wake, lifeMs));
      agent.kill("SIGKILL");
      await gone;
      const hostDir = join(stateDir, "default/hosts/eu-1/host-1");
      expect(JSON.parse(readFileSync(contactPath(hostDir), "utf8"))).toMatchObject({
        fenceMs: 600_000,
      });
    }

    const restarted = testAgent({ stateDir });
    const reports = await Promise.all(orders.map((order) => restarted.runs.run(order)));
    expect(reports.map(({ ranks }) => ranks[0]?.exitCode)).toEqual(EXITS);
    expect(reports.map(({ end }) => end)).toEqual(["completed", "failed", "failed"]);
    const want = Array.from({ length: LINES }, (_, at) => `${at + 1}\n`).join("");
    for (const [gpu, order] of orders.entries()) {
      expect(await outputOf(restarted, order)).toBe(want);
      expect(
        readFileSync(join(dir, `starts-${gpu}`), "utf8")
          .trim()
          .split("\n"),
      ).toHaveLength(1);
    }
  });
});

describe("a process that has the id of one of ours", () => {
  /** A launch of an earlier agent whose shim and rank have ended, and whose ids others have now. */
  async function leftLaunch(
    stateDir: string,
  ): Promise<{ order: RunOrder; others: readonly ChildProcess[] }> {
    const order = orderOf("exec sleep 60");
    const { host } = testAgent({ stateDir });
    const dir = host.layout.leaseDir(order.leaseId);
    mkdirSync(dir, { recursive: true });
    // A group and a session of its own, as a rank has.
    const others = [1, 2].map(() => spawn("sleep", ["600"], { detached: true, stdio: "ignore" }));
    bystanders.push(...others);
    const [shim, rank] = others.map(({ pid }) => reused(pid ?? 0));
    if (shim === undefined || rank === undefined) throw new Error("two were started");
    const plan: LaunchPlan = {
      command: order.run.command,
      cwd: dir,
      ranks: [{ rank: 0, env: {} }],
      graceMs: 1_000,
      log: { partBytes: 1_000, parts: 2 },
    };
    const claim: Claim = { kind: "shim", shim };
    const status: LaunchStatus = {
      phase: "running",
      startedAtMs: 1,
      ranks: [{ rank: 0, process: rank }],
    };
    replaceFile(join(dir, "order.json"), { order } satisfies StoredOrder);
    replaceFile(join(dir, "plan.json"), plan);
    replaceFile(join(dir, "claim.json"), claim);
    replaceFile(join(dir, "status.json"), status);
    return { order, others };
  }

  const reused = (pid: number): ProcessIdentity => {
    const identity = identityOf(pid);
    if (identity === undefined) throw new Error(`${pid} does not run`);
    return { ...identity, started: "1" };
  };

  it.each([
    { how: "watching what an earlier agent has started", wantCode: "STOPPED" },
    { how: "an order to stop", wantCode: "STOPPED" },
    { how: "the fence", wantCode: "HOST_LOST" },
    { how: "taking the run over", wantCode: "HOST_LOST" },
  ])("is spared by $how", async ({ how, wantCode }) => {
    const stateDir = folder();
    const { order, others } = await leftLaunch(stateDir);
    const agent = testAgent({ stateDir });
    expect(livingRuns(agent.host)).toEqual([]);
    const started = startedRuns(agent.host);
    expect(started.map((run) => run.leaseId)).toEqual([order.leaseId]);
    if (how.startsWith("watching")) {
      const vacated: string[] = [];
      const closing = new AbortController().signal;
      const isOver = (): Promise<boolean> => Promise.resolve(true);
      for (const run of started) {
        const onVacated = (): number => vacated.push(run.leaseId);
        await watchUnattended(agent.host, run, { closing, isOver, onVacated });
      }
      expect(vacated).toEqual([order.leaseId]);
    } else if (how.startsWith("an order")) {
      expect(await agent.orders.stop(stopOf(order))).toMatchObject({ hadProcesses: false });
    } else if (how.startsWith("the fence")) {
      let nowMs = 0;
      const contacts = openContactStore(
        [agent.host],
        systemAt(() => nowMs),
      );
      contacts.agree({ fleet: "f", epoch: "e", silenceMs: 100, fenceMs: 100, onSilence: "fence" });
      nowMs = 1_000;
      const hosts = new Map([[HOST, agent.host]]);
      const { clock } = systemAt(() => nowMs);
      createFence({ hosts, contacts, clock, onNote: () => undefined }).look();
    }
    expect((await agent.runs.run(order)).cause?.code).toBe(wantCode);
    expect(others.map(({ pid }) => runs(pid ?? 0))).toEqual([true, true]);
    for (const { pid } of others) kill(pid ?? 0);
    expect(readdirSync(agent.host.layout.leaseDir(order.leaseId))).toContain("report.json");
  });
});
