import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { livingRuns, startedRuns } from "../../agent/runs/agent-host.ts";
import { phaseOf } from "../../agent/runs/local-run.ts";
import { watchUnattended } from "../../agent/runs/unattended-run.ts";
import { leaseId, token } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import {
  HOST,
  eventually,
  folder,
  kill,
  orderOf,
  outputOf,
  pidIn,
  removeFolders,
  runs,
  stopOf,
  testAgent,
  launchIn,
} from "./fixture.ts";

afterEach(removeFolders);

const withToken = (order: RunOrder, count: number): RunOrder => ({
  ...order,
  token: token(count),
  leaseId: leaseId(token(count)),
});

describe("a restarted agent", () => {
  it("takes over what runs, starts nothing twice and reports its end", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(
      `echo start >> ${dir}/starts; echo $$ > ${dir}/pid; while [ ! -e ${dir}/go ]; do sleep 0.02; done; exit 6`,
    );
    const abandoned = old.runs.run(order);
    await pidIn(join(dir, "pid"));
    old.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });

    const restarted = testAgent({ stateDir: old.stateDir });
    expect(livingRuns(restarted.host).map((run) => run.leaseId)).toEqual([order.leaseId]);
    const adopted = restarted.runs.run(order);
    await eventually(() => restarted.task.beats.some((beat) => beat?.phase === "running"));
    writeFileSync(join(dir, "go"), "");
    expect(await adopted).toMatchObject({
      end: "failed",
      hasStarted: true,
      cause: { code: "PROCESS_EXITED", exitCode: 6 },
    });
    expect(readFileSync(join(dir, "starts"), "utf8")).toBe("start\n");
  });

  it("reports what ended while no agent was there", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(
      `echo $$ > ${dir}/pid; echo bye; while [ ! -e ${dir}/go ]; do sleep 0.02; done; exit 4`,
    );
    const abandoned = old.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    old.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });
    writeFileSync(join(dir, "go"), "");
    await eventually(() => !runs(pid) && phaseOf(launchIn(old.filesOf(order))).kind === "ended");

    const restarted = testAgent({ stateDir: old.stateDir });
    expect(livingRuns(restarted.host)).toEqual([]);
    expect(await restarted.runs.run(order)).toMatchObject({
      end: "failed",
      cause: { exitCode: 4, lastLines: "bye\n" },
    });
    expect(await outputOf(restarted, order)).toBe("bye\n");
  });

  it("keeps counting a time limit that began before it", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`, { timeLimitMs: 10_000 });
    const abandoned = old.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    old.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });
    await eventually(() => !runs(pid));
    const report = await testAgent({ stateDir: old.stateDir }).runs.run(order);
    expect(report.cause?.code).toBe("TIME_LIMIT");
  });

  it("stops what an earlier one has started", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`);
    const abandoned = old.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    old.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });
    const restarted = testAgent({ stateDir: old.stateDir });
    expect(await restarted.orders.stop(stopOf(order))).toMatchObject({ hadProcesses: true });
    expect(runs(pid)).toBe(false);
    expect((await restarted.runs.run(order)).end).toBe("stopped");
  });

  it("tells of the end of a run that nobody took over, and only of such", async () => {
    const dir = folder();
    const old = testAgent();
    const line = `echo $$ > ${dir}/$ORBWEAVER_TOKEN; while [ ! -e ${dir}/go ]; do sleep 0.02; done`;
    const left = withToken(orderOf(line), 5);
    const taken = withToken(orderOf(line, { gang: [{ host: HOST, mask: 0b10, address: "a" }] }), 6);
    const abandoned = [old.runs.run(left), old.runs.run(taken)];
    await Promise.all([pidIn(join(dir, "5")), pidIn(join(dir, "6"))]);
    old.task.cancel("shutdown");
    await Promise.allSettled(abandoned);

    const { host, runs: activities } = testAgent({ stateDir: old.stateDir });
    const told: string[] = [];
    const closing = new AbortController().signal;
    const watching = startedRuns(host).map((run) =>
      watchUnattended(host, run, {
        closing,
        isOver: () => Promise.resolve(false),
        onVacated: () => told.push(run.leaseId),
      }),
    );
    const adopted = activities.run(taken);
    writeFileSync(join(dir, "go"), "");
    expect((await adopted).end).toBe("completed");
    await Promise.all(watching);
    expect(told).toEqual([left.leaseId]);
    expect((await activities.run(left)).end).toBe("completed");
  });

  it("stops what runs for a job that is over, and tells that nothing runs", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`);
    const abandoned = old.runs.run(order);
    const rank = await pidIn(join(dir, "pid"));
    old.task.cancel("shutdown");
    await Promise.allSettled([abandoned]);

    const { host } = testAgent({ stateDir: old.stateDir });
    const told: string[] = [];
    const closing = new AbortController().signal;
    await Promise.all(
      startedRuns(host).map((run) =>
        watchUnattended(host, run, {
          closing,
          isOver: ({ leaseId }) => Promise.resolve(leaseId === order.leaseId),
          onVacated: () => told.push(run.leaseId),
        }),
      ),
    );
    expect(told).toEqual([order.leaseId]);
    expect(runs(rank)).toBe(false);
  });

  it("names the restart of the machine as the reason that a run is gone", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`);
    const abandoned = agent.runs.run(order);
    const rank = await pidIn(join(dir, "pid"));
    const files = agent.filesOf(order);
    const phase = await eventually(() => {
      const seen = phaseOf(launchIn(files));
      return seen.kind === "running" && seen;
    });
    agent.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });
    // What a power cut leaves behind: no process, no last word, and the boot id of an earlier life.
    kill(phase.shim.pid);
    kill(rank);
    writeFileSync(
      files.claim,
      readFileSync(files.claim, "utf8").replace(phase.shim.bootId, "an-earlier-boot"),
    );
    const report = await testAgent({ stateDir: agent.stateDir }).runs.run(order);
    expect(report).toMatchObject({ end: "failed", hasStarted: true, cause: { code: "HOST_LOST" } });
    expect(report.cause?.message).toContain("restarted");
  });

  it("knows the run of a delivery that came twice: both attempts report the same", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`echo start >> ${dir}/starts; sleep 0.1`);
    const [first, second] = await Promise.all([agent.runs.run(order), agent.runs.run(order)]);
    expect(second).toEqual(first);
    expect(readFileSync(join(dir, "starts"), "utf8")).toBe("start\n");
  });
});

describe("tokens", () => {
  it("a stale one starts nothing, also after a restart", async () => {
    const agent = testAgent();
    await agent.runs.run(withToken(orderOf("exit 0"), 9));
    await expect(agent.runs.run(withToken(orderOf("exit 0"), 8))).rejects.toMatchObject({
      type: "STALE_TOKEN",
      nonRetryable: true,
    });
    const restarted = testAgent({ stateDir: agent.stateDir });
    expect(restarted.host.tokens.highest()).toBe(9);
    await expect(restarted.runs.run(withToken(orderOf("exit 0"), 7))).rejects.toMatchObject({
      type: "STALE_TOKEN",
    });
  });

  it("a lower one may start on GPUs that have seen no higher one", async () => {
    const agent = testAgent();
    await agent.runs.run(withToken(orderOf("exit 0"), 9));
    const beside = withToken(
      orderOf("exit 0", { gang: [{ host: HOST, mask: 0b10, address: "a" }] }),
      8,
    );
    expect((await agent.runs.run(beside)).end).toBe("completed");
  });

  it("a higher one ends what a lower one still runs on its GPUs before it starts", async () => {
    const dir = folder();
    const agent = testAgent();
    const lower = withToken(orderOf(`echo $$ > ${dir}/pid; exec sleep 60`), 5);
    const stale = agent.runs.run(lower);
    const pid = await pidIn(join(dir, "pid"));
    const higher = withToken(orderOf(`kill -0 ${pid} 2>/dev/null && echo alive || echo gone`), 6);
    expect((await agent.runs.run(higher)).end).toBe("completed");
    expect(await outputOf(agent, higher)).toBe("gone\n");
    expect(await stale).toMatchObject({
      end: "stopped",
      cause: { message: expect.stringContaining("higher token") },
    });
  });

  it("of two jobs under one lease id refuse the second", async () => {
    const agent = testAgent();
    const order = orderOf("exit 0");
    await agent.runs.run(order);
    const other = { ...order, jobId: `${order.jobId}-other` as typeof order.jobId };
    await expect(agent.runs.run(other)).rejects.toMatchObject({ type: "STALE_TOKEN" });
  });
});
