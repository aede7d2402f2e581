/**
 * @file Memory, processors and open files of launches, on real groups of the kernel. As root these are made in throw-away groups of the test's own
 * owner; where this machine or user has none, the tests of real groups are skipped by name.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { readContainer } from "../../agent/containment/container.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { token } from "../../domain/values/ids.ts";
import { gib } from "../../domain/values/units.ts";
import {
  eventually,
  folder,
  HOST,
  orderOf,
  outputOf,
  removeFolders,
  testAgent,
} from "./fixture.ts";

afterEach(removeFolders);

const GIB = 2 ** 30;
const MIB = 2 ** 20;
const containment = findContainment();
const limits = {
  memory: "memory" in containment && containment.memory !== undefined,
  cpu: "cpu" in containment && containment.cpu !== undefined,
};
/** Takes 1 MiB after the other, and would end by itself at 1 GiB. */
const HOG = `exec ${process.execPath} -e "const held = []; while (held.length < 1024) held.push(Buffer.alloc(1048576, 1))"`;
const resourcesOf = (memoryGiB: number) => ({ per: "gpu" as const, memoryGiB: gib(memoryGiB) });
const onGpu = (gpu: number) => [{ host: HOST, mask: 1 << gpu, address: "10.0.0.1" }];

describe.skipIf(!limits.memory)("memory of a launch (needs a memory controller)", () => {
  it("ends a hog alone, by its code and with its peak, beside another job and under the same agent", async () => {
    const agent = testAgent({ containment });
    const go = join(folder(), "go");
    const hog = orderOf(HOG, { run: { resources: resourcesOf(128 / 1024) } });
    const neighbour = orderOf(`until [ -e ${go} ]; do sleep 0.05; done; echo undisturbed`, {
      token: token(6),
      gang: onGpu(1),
      run: { resources: resourcesOf(128 / 1024) },
    });
    const beside = agent.runs.run(neighbour);
    const report = await agent.runs.run(hog);
    expect(report).toMatchObject({ end: "failed", cause: { code: "OUT_OF_MEMORY", rank: 0 } });
    expect(report.peakMemoryBytes).toBeLessThanOrEqual(128 * MIB);
    expect(report.peakMemoryBytes).toBeGreaterThan(64 * MIB);
    writeFileSync(go, "");
    expect(await beside).toMatchObject({ end: "completed" });
    expect(await outputOf(agent, neighbour)).toBe("undisturbed\n");
    expect(await agent.runs.run(orderOf("true", { token: token(7) }))).toMatchObject({
      end: "completed",
    });
  });

  it("is the cause when the kernel killed a process that the rank had started", async () => {
    const agent = testAgent({ containment });
    const order = orderOf(`(${HOG}); exit 3`, { run: { resources: resourcesOf(128 / 1024) } });
    expect(await agent.runs.run(order)).toMatchObject({
      end: "failed",
      cause: { code: "OUT_OF_MEMORY" },
    });
  });

  it("is still counted when the report is written, so that a crash before that loses nothing", async () => {
    const order = orderOf("true", { run: { resources: resourcesOf(1) } });
    const counted: boolean[] = [];
    const agent = testAgent({
      containment,
      settled: (of) => {
        const container = containerOf(agent, of);
        const group = container && "memory" in container ? container.memory?.group : undefined;
        counted.push(nodeSystem.groups.memoryUse(group ?? "") !== undefined);
      },
    });
    await agent.runs.run(order);
    expect(counted).toEqual([true]);
    const { group } = containerOf(agent, order) as { readonly group: string };
    expect(existsSync(group)).toBe(false);
  });

  it("is named in the message of an array's task that was killed for it", async () => {
    const agent = testAgent({ containment });
    const order = orderOf(HOG, {
      run: { resources: resourcesOf(128 / 1024) },
      taskBatch: { seq: 1, tasks: [0], slots: 1, gpusPerTask: 1, count: 1 },
    });
    const { tasks } = await agent.runs.run(order);
    expect(tasks).toMatchObject([{ task: 0, end: "failed", signal: "SIGKILL" }]);
    expect(tasks?.[0]?.message).toContain("ran out of memory");
  });

  it("is that of its GPUs where the job says nothing", async () => {
    const agent = testAgent({ containment, resources: { cpus: 16, memoryBytes: 8 * GIB } });
    const order = orderOf("true", { gang: [{ host: HOST, mask: 0b11, address: "10.0.0.1" }] });
    const report = await agent.runs.run(order);
    expect(report.end).toBe("completed");
    expect(report.peakMemoryBytes).toBeGreaterThan(0);
    expect(containerOf(agent, order)).toMatchObject({ memory: { bytes: 2 * GIB } });
  });
});

describe.skipIf(!limits.cpu)("processors of a launch (needs a processor controller)", () => {
  it("have the weight of its GPUs among those of its host", async () => {
    const agent = testAgent({ containment, resources: { cpus: 16 } });
    const go = join(folder(), "go");
    const order = orderOf(`until [ -e ${go} ]; do sleep 0.05; done`);
    const report = agent.runs.run(order);
    await eventually(() => agent.task.beats.at(-1)?.phase === "running");
    const { cpu } = containerOf(agent, order) as { readonly cpu: { readonly group: string } };
    const shares = join(cpu.group, "cpu.shares");
    const [file, want] = existsSync(shares)
      ? [shares, 2 * 1024]
      : [join(cpu.group, "cpu.weight"), 20];
    expect(Number(readFileSync(file, "utf8"))).toBe(want);
    writeFileSync(go, "");
    expect((await report).end).toBe("completed");
  });
});

describe("a launch", () => {
  it("is refused where it needs more than its GPUs' share, with both amounts", async () => {
    const agent = testAgent({ resources: { cpus: 16, memoryBytes: 8 * GIB } });
    const order = orderOf("true", { run: { resources: resourcesOf(1.5) } });
    await expect(agent.runs.run(order)).rejects.toMatchObject({
      type: "HOST_REFUSED",
      message: expect.stringMatching(/needs 1\.5 GiB for 1 of 8 GPUs.* is 1 GiB/) as string,
    });
  });

  it("opens a bounded number of files", async () => {
    const agent = testAgent();
    const order = orderOf("ulimit -n");
    await agent.runs.run(order);
    const own = Number(execFileSync("sh", ["-c", "ulimit -Hn"])) || Infinity;
    expect(Number(await outputOf(agent, order))).toBe(Math.min(own, 65_536));
  });
});

const containerOf = (agent: ReturnType<typeof testAgent>, order: RunOrder) =>
  readContainer(nodeSystem.files, agent.filesOf(order));
