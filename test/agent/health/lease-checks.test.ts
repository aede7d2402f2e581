/** @file An operator's programs around launches: what they are told, what their failures do, and that GPUs wait for them. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { findContainment } from "../../../agent/system/find-containment.ts";
import {
  leaseChecker,
  type DriverLook,
  type LeaseChecks,
} from "../../../agent/health/lease-checks.ts";
import { leftOnGpus, PATIENCE_MS } from "../../../agent/health/left-on-gpus.ts";
import { nodeClock } from "../../../agent/system/node-clock.ts";
import { nodeProcesses } from "../../../agent/system/node-processes.ts";
import { runCheckProgram } from "../../../agent/system/check-program.ts";
import { token } from "../../../domain/values/ids.ts";
import type { RunOrder } from "../../../protocol/agent-contract.ts";
import { batchOf, filesOf } from "../batch-fixture.ts";
import { eventually, folder, HOST, orderOf, removeFolders, stopOf } from "../fixture.ts";
import { runs, testAgent } from "../fixture.ts";

afterEach(removeFolders);

type Placed = Pick<RunOrder, "gang">;
const reportOf = (agent: ReturnType<typeof testAgent>, order: RunOrder): string =>
  (order.taskBatch === undefined ? agent.filesOf(order) : filesOf(agent, order)).report;

const GPUS = ["GPU-a", "GPU-b"].map((uuid, index) => ({ index, uuid, nodes: [], devices: [] }));
const line = (text: string) => ({ command: ["/bin/sh", "-c", text], timeoutMs: 60_000 });

/** The real programs, and the reasons for which the host is to be set aside. */
function checkerOf(checks: LeaseChecks, driver?: DriverLook) {
  const reasons: string[] = [];
  const closing = new AbortController();
  const checkLease = leaseChecker(checks, {
    clock: { nowMs: () => Date.UTC(2030, 4, 4) },
    closing: closing.signal,
    hostGpus: GPUS,
    ...(driver !== undefined && { driver }),
    run: runCheckProgram,
    onFailed: (reason) => reasons.push(reason),
    onReady: () => undefined,
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

describe("a process that computes on the GPUs of a launch that has ended", () => {
  /** A driver's word on one GPU; the patience is over after `looks` looks. */
  function driverOf(pids: () => readonly number[], looks = Number.POSITIVE_INFINITY): DriverLook {
    const computing = () => Promise.resolve(pids().map((pid) => ({ uuid: "GPU-b", pid })));
    let seen = 0;
    const elapsedMs = (): number => ((seen += 1) > looks ? PATIENCE_MS * 2 : 0);
    const clock = { elapsedMs, pause: nodeClock.pause };
    const ports = { clock, processes: nodeProcesses, hostGpus: GPUS, computing };
    return { computing, leftOnGpus: (launch) => leftOnGpus(launch, ports) };
  }
  /** A launch on `GPU-b` that runs until it may end, and what somebody else has started meanwhile, as a container's daemon would. */
  async function launched(
    agent: ReturnType<typeof testAgent>,
    { program = "cat", orderFor = orderOf as (line: string, over: Placed) => RunOrder } = {},
  ) {
    const dir = folder();
    const gang = [{ host: HOST, mask: 0b10, address: "10.0.0.1" }];
    const line = `touch ${dir}/up; until [ -e ${dir}/go ]; do sleep 0.05; done`;
    const order = orderFor(line, { gang });
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(dir, "up")));
    const stranger = spawn(program);
    strangers.push(stranger);
    return { order, running, stranger, go: () => writeFileSync(join(dir, "go"), "") };
  }
  const strangers: ChildProcess[] = [];
  afterEach(() => {
    for (const stranger of strangers.splice(0)) stranger.kill("SIGKILL");
  });

  it("is waited for before the GPUs are free, though it is in no group of the launch", async () => {
    let looks = 0;
    let stranger: ChildProcess | undefined;
    const driver = driverOf(() => {
      looks += 1;
      return stranger?.exitCode === null && stranger.signalCode === null ? [stranger.pid ?? 0] : [];
    });
    const { checkLease, reasons } = checkerOf({}, driver);
    const agent = testAgent({ checkLease });
    const launch = await launched(agent);
    stranger = launch.stranger;
    launch.go();
    await eventually(() => looks >= 3);
    expect(existsSync(agent.filesOf(launch.order).report)).toBe(false);
    stranger.kill("SIGKILL");
    expect(await launch.running).toMatchObject({ end: "completed" });
    expect(reasons).toEqual([]);
  });

  it("that stays sets the host aside with its number, and no launch starts on its GPU until it is gone", async () => {
    let pids: readonly number[] = [];
    const { checkLease, reasons } = checkerOf(
      {},
      driverOf(() => pids, 1),
    );
    const agent = testAgent({ checkLease });
    const { running, stranger, go } = await launched(agent);
    pids = [stranger.pid ?? 0];
    go();
    expect(await running).toMatchObject({ end: "completed" });
    const said = `process ${stranger.pid} computes on GPU-b`;
    expect(reasons).toEqual([`set aside at 2030-05-04T00:00:00Z: lease-5 has ended, and ${said}`]);
    const on = (mask: number, number: number) =>
      orderOf("true", { token: token(number), gang: [{ host: HOST, mask, address: "10.0.0.1" }] });
    await expect(agent.runs.run(on(0b10, 6))).rejects.toMatchObject({
      type: "HOST_REFUSED",
      message: expect.stringMatching(
        `: ${said}, left there by an earlier launch. End it`,
      ) as string,
    });
    expect(reasons).toHaveLength(2);
    expect(await agent.runs.run(on(0b01, 7))).toMatchObject({ end: "completed" });
    pids = [];
    expect(await agent.runs.run(on(0b10, 8))).toMatchObject({ end: "completed" });
  });

  /** The stranger while it runs, and how often was asked for it. */
  function asked() {
    const of: { stranger?: ChildProcess; looks: number } = { looks: 0 };
    const pids = (): readonly number[] => {
      of.looks += 1;
      const { stranger } = of;
      return stranger?.exitCode === null && stranger.signalCode === null ? [stranger.pid ?? 0] : [];
    };
    return { of, pids };
  }

  it.each([
    { what: "a launch", orderFor: orderOf },
    {
      what: "a batch of array tasks",
      orderFor: (text: string, order: Placed) => batchOf(text, { order, tasks: [0], slots: 1 }),
    },
  ])("of $what is waited for by the agent that takes it over", async ({ orderFor }) => {
    const former = checkerOf({});
    const agent = testAgent({ checkLease: former.checkLease });
    const { order, running, stranger, go } = await launched(agent, { orderFor });
    // Killed, as far as its launches can tell: it ends none of them.
    former.closing.abort();
    const { of, pids } = asked();
    of.stranger = stranger;
    const { checkLease, reasons } = checkerOf({}, driverOf(pids));
    const next = testAgent({ stateDir: agent.stateDir, checkLease });
    const adopted = next.runs.run(order);
    go();
    await expect(running).rejects.toMatchObject({ type: "HOST_LOST" });
    await eventually(() => of.looks >= 3);
    expect(existsSync(reportOf(next, order))).toBe(false);
    stranger.kill("SIGKILL");
    expect(await adopted).toMatchObject({ end: "completed" });
    expect([existsSync(reportOf(next, order)), reasons]).toEqual([true, []]);
  });

  it("is asked for again by the next agent where one ends while it waits", async () => {
    const { of, pids } = asked();
    const former = checkerOf({}, driverOf(pids));
    const agent = testAgent({ checkLease: former.checkLease });
    const { order, running, stranger, go } = await launched(agent);
    of.stranger = stranger;
    go();
    await eventually(() => of.looks >= 2);
    former.closing.abort();
    await expect(running).rejects.toMatchObject({ type: "HOST_LOST" });
    expect([existsSync(reportOf(agent, order)), former.reasons]).toEqual([false, []]);
    const { checkLease, reasons } = checkerOf({}, driverOf(pids, 1));
    const next = testAgent({ stateDir: agent.stateDir, checkLease });
    expect(await next.runs.run(order)).toMatchObject({ end: "completed" });
    expect(reasons).toEqual([
      `set aside at 2030-05-04T00:00:00Z: lease-5 has ended, and process ${stranger.pid} computes on GPU-b`,
    ]);
  });

  it("is not its own where it is elder, or gone, or on another GPU", async () => {
    const ended = spawnSync("true").pid;
    const driver = driverOf(() => [process.pid, ended]);
    const { checkLease, reasons } = checkerOf({}, driver);
    const agent = testAgent({ checkLease });
    const { running, go } = await launched(agent);
    go();
    expect(await running).toMatchObject({ end: "completed" });
    const one = orderOf("true", { token: token(6) });
    expect(await agent.runs.run(one)).toMatchObject({ end: "completed" });
    expect(reasons).toEqual([]);
  });

  it("is not its own where it serves CUDA's Multi-Process Service, which outlives the job that it began with", async () => {
    const program = join(folder(), "nvidia-cuda-mps-server");
    writeFileSync(program, "#!/bin/sh\nread line\n", { mode: 0o755 });
    let pids: readonly number[] = [];
    const { checkLease, reasons } = checkerOf(
      {},
      driverOf(() => pids),
    );
    const { running, stranger, go } = await launched(testAgent({ checkLease }), { program });
    pids = [stranger.pid ?? 0];
    go();
    expect(await running).toMatchObject({ end: "completed" });
    expect([runs(stranger.pid ?? 0), reasons]).toEqual([true, []]);
  });
});
