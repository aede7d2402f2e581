/** @file An operator's programs around launches: what they are told, what their failures do, and that GPUs wait for them. */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { findContainment } from "../../../agent/system/find-containment.ts";
import { leaseChecker, type LeaseChecks } from "../../../agent/health/lease-checks.ts";
import { runCheckProgram } from "../../../agent/system/check-program.ts";
import { token } from "../../../domain/values/ids.ts";
import { eventually, folder, HOST, orderOf, removeFolders, stopOf } from "../fixture.ts";
import { runs, testAgent } from "../fixture.ts";

afterEach(removeFolders);

const GPUS = ["GPU-a", "GPU-b"].map((uuid, index) => ({ index, uuid, nodes: [], devices: [] }));
const line = (text: string) => ({ command: ["/bin/sh", "-c", text], timeoutMs: 60_000 });

/** The real programs, and the reasons for which the host is to be set aside. */
function checkerOf(checks: LeaseChecks) {
  const reasons: string[] = [];
  const closing = new AbortController();
  const checkLease = leaseChecker(checks, {
    clock: { nowMs: () => Date.UTC(2030, 4, 4) },
    closing: closing.signal,
    hostGpus: GPUS,
    run: runCheckProgram,
    onFailed: (reason) => reasons.push(reason),
  });
  return { checkLease, reasons, closing };
}

describe("a prologue", () => {
  it("is told the lease, and nothing starts before it has passed", async () => {
    const dir = folder();
    const { checkLease, reasons } = checkerOf({
      prologue: line(
        `echo "$CUDA_VISIBLE_DEVICES $ORBWEAVER_GPU_INDICES $ORBWEAVER_LEASE_ID $ORBWEAVER_TENANT" > ${dir}/told`,
      ),
    });
    const agent = testAgent({ checkLease });
    const order = orderOf(`cp ${dir}/told ${dir}/seen`, {
      gang: [{ host: HOST, mask: 0b10, address: "10.0.0.1" }],
    });
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
    expect(readFileSync(join(dir, "seen"), "utf8")).toBe(`GPU-b 1 ${order.leaseId} default\n`);
    expect(reasons).toEqual([]);
  });

  it("that fails refuses the launch by name, starts nothing, and is a reason to set the host aside", async () => {
    const dir = folder();
    const { checkLease, reasons } = checkerOf({ prologue: line("echo no fan; exit 3") });
    const order = orderOf(`touch ${dir}/started`);
    await expect(testAgent({ checkLease }).runs.run(order)).rejects.toMatchObject({
      type: "HOST_REFUSED",
      message: expect.stringMatching(
        /eu-1\/host-1 refuses lease-5 .*prologue failed: \/bin\/sh ended with exit code 3: no fan/,
      ) as string,
    });
    expect(existsSync(join(dir, "started"))).toBe(false);
    expect(reasons).toEqual([
      "set aside at 2030-05-04T00:00:00Z: the prologue of lease-5 failed: /bin/sh ended with exit code 3: no fan",
    ]);
  });

  it("that takes too long is ended, and has failed", async () => {
    const { checkLease } = checkerOf({ prologue: { ...line("exec sleep 600"), timeoutMs: 100 } });
    await expect(testAgent({ checkLease }).runs.run(orderOf("true"))).rejects.toMatchObject({
      message: expect.stringContaining("took longer than 0.1 s") as string,
    });
  });

  it("is ended where the launch is called off, and says nothing of the host then", async () => {
    const dir = folder();
    const { checkLease, reasons } = checkerOf({
      prologue: line(`touch ${dir}/up; exec sleep 600`),
    });
    const agent = testAgent({ checkLease });
    const order = orderOf("true");
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(dir, "up")));
    await agent.orders.stop(stopOf(order));
    expect(await running).toMatchObject({ end: "stopped" });
    expect(reasons).toEqual([]);
  });
});

describe("an epilogue", () => {
  /** Runs until `go` is there. */
  const waiting = (dir: string): LeaseChecks => ({
    epilogue: line(
      `touch ${dir}/up; until [ -e ${dir}/go ]; do sleep 0.05; done; echo x >> ${dir}/over`,
    ),
  });

  it("runs once nothing of the launch is left, and the report waits for it", async () => {
    const dir = folder();
    const { checkLease } = checkerOf(waiting(dir));
    const agent = testAgent({ checkLease, containment: findContainment() });
    const order = orderOf(`setsid sleep 600 & echo $! > ${dir}/pid`);
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(dir, "up")));
    expect(runs(Number(readFileSync(join(dir, "pid"), "utf8")))).toBe(false);
    expect(existsSync(agent.filesOf(order).report)).toBe(false);
    writeFileSync(join(dir, "go"), "");
    expect(await running).toMatchObject({ end: "completed" });
    expect(readFileSync(join(dir, "over"), "utf8")).toBe("x\n");
  });

  it("is waited for by an order to stop and by the next launch on the same GPUs, and runs once", async () => {
    const dir = folder();
    const { checkLease } = checkerOf(waiting(dir));
    const agent = testAgent({ checkLease });
    const order = orderOf(`touch ${dir}/running; exec sleep 600`);
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(dir, "running")));
    const stopping = agent.orders.stop(stopOf(order));
    await eventually(() => existsSync(join(dir, "up")));
    const next = agent.runs.run(orderOf(`cat ${dir}/over > ${dir}/first`, { token: token(6) }));
    writeFileSync(join(dir, "go"), "");
    expect(await stopping).toMatchObject({ hadProcesses: true });
    expect(await running).toMatchObject({ end: "stopped" });
    expect(await next).toMatchObject({ end: "completed" });
    expect(readFileSync(join(dir, "first"), "utf8")).toBe("x\n");
  });

  it("that fails leaves the report as it is, and is a reason to set the host aside", async () => {
    const { checkLease, reasons } = checkerOf({ epilogue: line("exit 4") });
    expect(await testAgent({ checkLease }).runs.run(orderOf("true"))).toMatchObject({
      end: "completed",
    });
    expect(reasons).toEqual([expect.stringContaining("the epilogue of lease-5 failed") as string]);
  });

  it("that the agent's end interrupts is the next agent's: the launch has no report before", async () => {
    const dir = folder();
    const { checkLease, closing } = checkerOf(waiting(dir));
    const agent = testAgent({ checkLease });
    const order = orderOf("true");
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(dir, "up")));
    closing.abort();
    await expect(running).rejects.toMatchObject({ type: "HOST_LOST" });
    expect(existsSync(agent.filesOf(order).report)).toBe(false);
    writeFileSync(join(dir, "go"), "");
    const { stateDir } = agent;
    const later = testAgent({ stateDir, checkLease: checkerOf(waiting(dir)).checkLease });
    expect(await later.runs.run(order)).toMatchObject({ end: "completed" });
    expect(readFileSync(join(dir, "over"), "utf8")).toBe("x\n");
  });

  it("does not run for a launch that never started", async () => {
    const dir = folder();
    const { checkLease } = checkerOf({
      prologue: line("exit 1"),
      epilogue: line(`touch ${dir}/over`),
    });
    await testAgent({ checkLease })
      .runs.run(orderOf("true"))
      .catch(() => undefined);
    expect(existsSync(join(dir, "over"))).toBe(false);
  });
});
