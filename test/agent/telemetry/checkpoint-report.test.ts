/** @file What an agent tells its fleet of checkpoints: the newest complete one of each run, once, in one word for all. */

import { mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { newestMarks, reportCheckpoints } from "../../../agent/telemetry/checkpoint-report.ts";
import { leaseId, token } from "../../../domain/values/ids.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import {
  eventually,
  folder,
  HOST,
  orderOf,
  OTHER_HOST,
  removeFolders,
  stopOf,
  testAgent,
} from "../fixture.ts";

afterEach(removeFolders);

/** Writes a checkpoint as a run would have, at that time. */
function write(dir: string, name: string, atMs: number): void {
  const path = join(dir, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  utimesSync(path, atMs / 1_000, atMs / 1_000);
}

async function runningAgent(dir: string, more: Parameters<typeof orderOf>[1] = {}) {
  const agent = testAgent();
  const order = orderOf("while :; do sleep 0.02; done", {
    ...more,
    run: {
      checkpoint: { order: { kind: "signal", signal: "SIGUSR1" }, dir, graceMs: 0 as never },
    },
  });
  const running = agent.runs.run(order);
  await eventually(() => agent.task.beats.some((beat) => beat?.phase === "running"));
  return {
    agent,
    stop: async () => {
      await agent.orders.stop(stopOf(order));
      await running;
    },
  };
}

describe("newestMarks", () => {
  it("are of the run's own token and complete", async () => {
    const dir = folder();
    const { agent, stop } = await runningAgent(dir);
    write(dir, "4/of-an-earlier-run", 9_000_000);
    expect(newestMarks([agent.host])).toEqual([]);
    write(dir, "5/step-1", 1_000_000);
    write(dir, "5/step-2", 2_000_000);
    write(dir, "5/step-3.tmp", 3_000_000);
    expect(newestMarks([agent.host])).toEqual([{ lease: "lease-5", atMs: 2_000_000 }]);
    await stop();
    expect(newestMarks([agent.host])).toEqual([]);
  });

  it("are found beside whatever else a job puts into its folder", async () => {
    const dir = folder();
    const { agent, stop } = await runningAgent(dir);
    write(dir, "5/step-1", 1_000_000);
    symlinkSync("loop", join(dir, "5", "loop"));
    expect(newestMarks([agent.host])).toEqual([{ lease: "lease-5", atMs: 1_000_000 }]);
    rmSync(join(dir, "5"), { recursive: true });
    symlinkSync("5", join(dir, "5"));
    expect(newestMarks([agent.host])).toEqual([]);
    // Such a folder keeps neither a stop nor the report of the end.
    await stop();
    expect(agent.host.open.size).toBe(0);
  });

  it("are told by the host of rank 0 alone", async () => {
    const dir = folder();
    const other = { host: OTHER_HOST, mask: 1, address: "10.0.0.2" };
    const gang = [other, { host: HOST, mask: 1, address: "10.0.0.1" }];
    const stored = { order: { ...orderOf("true"), gang, run: { checkpoint: { dir } } } };
    const { agent, stop } = await runningAgent(dir);
    write(dir, "5/step-1", 1_000_000);
    const [run] = [...agent.host.open.values()];
    expect(run).toBeDefined();
    const copy = { ...agent.host, open: new Map([["x", { ...run, stored } as never]]) };
    expect(newestMarks([copy])).toEqual([]);
    await stop();
  });
});

describe("reportCheckpoints", () => {
  it("says nothing without news, tells each once, and again what was not heard", async () => {
    const dir = folder();
    const { agent, stop } = await runningAgent(dir, {
      token: token(6),
      leaseId: leaseId(token(6)),
    });
    const told: InboxEntry[] = [];
    let looks = 0;
    let isDeaf = true;
    const closing = new AbortController();
    const reporting = reportCheckpoints({
      clock: nodeSystem.clock,
      hosts: [agent.host],
      everyMs: 5,
      closing: closing.signal,
      tellFleet: (entry) => {
        looks += 1;
        if (isDeaf) return Promise.reject(new Error("no fleet"));
        told.push(entry);
        return Promise.resolve();
      },
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(looks).toBe(0);
    write(dir, "6/step-1", 1_000_000);
    await eventually(() => looks > 2);
    isDeaf = false;
    await eventually(() => told.length > 0);
    const heardAt = looks;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(looks).toBe(heardAt);
    write(dir, "6/step-2", 2_000_000);
    await eventually(() => told.length > 1);
    expect(told).toEqual([
      { kind: "checkpointed", marks: [{ lease: "lease-6", atMs: 1_000_000 }] },
      { kind: "checkpointed", marks: [{ lease: "lease-6", atMs: 2_000_000 }] },
    ]);
    closing.abort();
    await reporting;
    await stop();
  });
});
