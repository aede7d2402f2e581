import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { newestCheckpoint } from "../../agent/folder/checkpoints.ts";
import { phaseOf } from "../../agent/runs/local-run.ts";
import { ms } from "../../domain/values/units.ts";
import type { RunSpec } from "../../domain/job/job.ts";
import {
  HOST,
  JOB,
  eventually,
  folder,
  kill,
  orderOf,
  pidIn,
  removeFolders,
  runs,
  stopOf,
  testAgent,
  launchIn,
} from "./fixture.ts";

afterEach(removeFolders);

describe("stop", () => {
  it("ends a run with TERM, and the run reports that it was stopped and why", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(
      `trap 'echo told > ${dir}/term; exit 0' TERM; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`,
    );
    const running = agent.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    expect(await agent.orders.stop(stopOf(order))).toMatchObject({
      host: HOST,
      hadProcesses: true,
    });
    expect(runs(pid)).toBe(false);
    expect(existsSync(join(dir, "term"))).toBe(true);
    // Exit 0 after TERM is politeness, not completion.
    expect(await running).toMatchObject({
      end: "stopped",
      cause: { code: "STOPPED", message: "cancelled" },
    });
  });

  it("kills after the grace whatever does not listen, a daemon of a daemon included", async () => {
    const dir = folder();
    const agent = testAgent();
    const daemon = `setsid sh -c 'trap "" TERM HUP; setsid sh -c "trap \\"\\" TERM HUP; echo \\$\\$ > ${dir}/grandchild; while :; do sleep 0.05; done" & echo $$ > ${dir}/child; while :; do sleep 0.05; done'`;
    const order = orderOf(
      `${daemon} & trap '' TERM; echo $$ > ${dir}/rank; while :; do sleep 0.05; done`,
      { run: { graceMs: ms(300) } },
    );
    const running = agent.runs.run(order);
    const pids = await Promise.all(
      ["rank", "child", "grandchild"].map((name) => pidIn(join(dir, name))),
    );
    expect(pids.map(runs)).toEqual([true, true, true]);
    const report = await agent.orders.stop(stopOf(order));
    expect(pids.map(runs)).toEqual([false, false, false]);
    expect(report.hadProcesses).toBe(true);
    expect(await running).toMatchObject({ end: "stopped", ranks: [{ signal: "SIGKILL" }] });
  });

  it("that kills sends no TERM and waits for no grace", async () => {
    const dir = folder();
    const agent = testAgent();
    const script = `trap 'echo told >> ${dir}/term' TERM; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`;
    const patient = { run: { graceMs: ms(600_000) } };
    const order = orderOf(script, patient);
    const running = agent.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    await agent.orders.stop({ ...stopOf(order), isKill: true });
    expect(runs(pid)).toBe(false);
    expect(existsSync(join(dir, "term"))).toBe(false);
    expect(await running).toMatchObject({ end: "stopped", ranks: [{ signal: "SIGKILL" }] });
  });

  it("that kills ends the grace of a stop that is under way", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(
      `trap 'echo told > ${dir}/term' TERM; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`,
      { run: { graceMs: ms(600_000) } },
    );
    const running = agent.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    const graceful = agent.orders.stop(stopOf(order));
    await eventually(() => existsSync(join(dir, "term")));
    expect(runs(pid)).toBe(true);
    await agent.orders.stop({ ...stopOf(order), isKill: true });
    expect(runs(pid)).toBe(false);
    expect(await graceful).toMatchObject({ hadProcesses: true });
    expect(await running).toMatchObject({ end: "stopped", ranks: [{ signal: "SIGKILL" }] });
  });

  it("leaves nothing of the shim either", async () => {
    const agent = testAgent();
    const order = orderOf("sleep 60");
    const running = agent.runs.run(order);
    const phase = await eventually(() => {
      const seen = phaseOf(launchIn(agent.filesOf(order)));
      return seen.kind === "running" && seen;
    });
    await agent.orders.stop(stopOf(order));
    expect(runs(phase.shim.pid)).toBe(false);
    await running;
  });

  it("revokes its token, so that a run that arrives later starts nothing", async () => {
    const agent = testAgent();
    const order = orderOf("echo late");
    expect(await agent.orders.stop(stopOf(order))).toEqual({ host: HOST, hadProcesses: false });
    await expect(agent.runs.run(order)).rejects.toMatchObject({
      type: "STALE_TOKEN",
      nonRetryable: true,
    });
    const restarted = testAgent({ stateDir: agent.stateDir });
    await expect(restarted.runs.run(order)).rejects.toMatchObject({ type: "STALE_TOKEN" });
  });

  it("may be ordered again, also after the end, and says that nothing ran and how the run ended", async () => {
    const agent = testAgent();
    const order = orderOf("exit 0");
    const report = await agent.runs.run(order);
    expect(report.end).toBe("completed");
    const answer = { host: HOST, hadProcesses: false, report };
    expect(await agent.orders.stop(stopOf(order))).toEqual(answer);
    expect((await agent.runs.run(order)).end).toBe("completed");
  });

  it("leaves a run that has ended by itself meanwhile its own end", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(
      `trap 'exit 0' USR1; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`,
      {
        run: { checkpoint: { order: { kind: "signal", signal: "SIGUSR1" }, graceMs: ms(60_000) } },
      },
    );
    const running = agent.runs.run(order);
    await pidIn(join(dir, "pid"));
    await agent.orders.stop(stopOf(order, true));
    expect((await running).end).toBe("completed");
  });

  it("finds every process by its environment when the shim was killed, and the run names what happened", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(
      `setsid sh -c 'trap "" TERM HUP; echo $$ > ${dir}/daemon; exec sleep 60' & echo $$ > ${dir}/rank; exec sleep 60`,
    );
    const running = agent.runs.run(order);
    const pids = await Promise.all(["rank", "daemon"].map((name) => pidIn(join(dir, name))));
    // A process may run before its shim has noted that it does.
    await eventually(() => {
      const now = phaseOf(launchIn(agent.filesOf(order)));
      return now.kind === "running" && now.status.startedAtMs !== undefined;
    });
    const phase = phaseOf(launchIn(agent.filesOf(order)));
    kill("shim" in phase ? phase.shim.pid : 0);
    const report = await running;
    expect(report).toMatchObject({ end: "failed", hasStarted: true, cause: { code: "HOST_LOST" } });
    expect(pids.map(runs)).toEqual([false, false]);
  });

  it("of one host leaves the same lease on another host of the same machine alone", async () => {
    const dir = folder();
    const here = testAgent();
    const there = testAgent();
    const order = orderOf(`echo $$ > ${dir}/$WHERE; exec sleep 60`);
    const runsHere = here.runs.run({ ...order, run: { ...order.run, env: { WHERE: "here" } } });
    const runsThere = there.runs.run({ ...order, run: { ...order.run, env: { WHERE: "there" } } });
    const pid = await pidIn(join(dir, "there"));
    await pidIn(join(dir, "here"));
    await here.orders.stop(stopOf(order));
    await runsHere;
    expect(runs(pid)).toBe(true);
    await there.orders.stop(stopOf(order));
    await runsThere;
  });
});

const checkpointed = (
  order: NonNullable<RunSpec["checkpoint"]>["order"],
  graceMs = 60_000,
): Partial<RunSpec> => ({
  checkpoint: { order, graceMs: ms(graceMs) },
});
/** Saves as the header of `checkpoints.ts` asks for: write aside, then rename. */
const SAVE =
  'mkdir "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step-1.tmp" && mv "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step-1.tmp" "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step-1"';

describe("checkpoint", () => {
  const ways = [
    {
      name: "a signal",
      line: `trap '${SAVE}' USR1;`,
      run: checkpointed({ kind: "signal", signal: "SIGUSR1" }),
    },
    {
      name: "a command",
      line: "",
      run: checkpointed({ kind: "command", command: ["sh", "-c", SAVE] }),
    },
  ];
  it.each(ways)(
    "is ordered by $name and answered when a new one is complete",
    async ({ line, run }) => {
      const dir = folder();
      const agent = testAgent();
      const order = orderOf(`${line} echo $$ > ${dir}/pid; while :; do sleep 0.02; done`, { run });
      const running = agent.runs.run(order);
      const pid = await pidIn(join(dir, "pid"));
      const report = await agent.orders.checkpoint(order);
      expect(report).toMatchObject({ host: HOST, isComplete: true });
      expect(report.checkpoint?.path).toBe(
        join(agent.host.layout.checkpointDir(JOB), "5", "step-1"),
      );
      expect(runs(pid)).toBe(true);
      await agent.orders.stop(stopOf(order));
      expect((await running).checkpoint).toEqual(report.checkpoint);
    },
  );

  it("comes before TERM when the stop asks for it", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(
      `trap '${SAVE}' USR1; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`,
      {
        run: checkpointed({ kind: "signal", signal: "SIGUSR1" }),
      },
    );
    const running = agent.runs.run(order);
    await pidIn(join(dir, "pid"));
    const report = await agent.orders.stop(stopOf(order, true));
    expect(report.checkpoint).toEqual(
      newestCheckpoint(nodeSystem.files, agent.host.layout.checkpointDir(JOB)),
    );
    expect(await running).toMatchObject({ end: "stopped", checkpoint: report.checkpoint });
  });

  it("that takes too long is given up after its grace", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`trap : USR1; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`, {
      run: checkpointed({ kind: "signal", signal: "SIGUSR1" }, 200),
    });
    const running = agent.runs.run(order);
    await pidIn(join(dir, "pid"));
    expect(await agent.orders.checkpoint(order)).toMatchObject({
      isComplete: false,
      message: expect.stringContaining("0.2 s"),
    });
    await agent.orders.stop(stopOf(order));
    await running;
  });

  it("is not waited for any more when a stop without one comes in between", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`trap : USR1; echo $$ > ${dir}/pid; while :; do sleep 0.02; done`, {
      run: checkpointed({ kind: "signal", signal: "SIGUSR1" }, 600_000),
    });
    const running = agent.runs.run(order);
    await pidIn(join(dir, "pid"));
    const gentle = agent.orders.stop(stopOf(order, true));
    await agent.orders.stop(stopOf(order));
    await gentle;
    await running;
  });

  it("by a command that fails says with which exit code", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`, {
      run: checkpointed({ kind: "command", command: ["sh", "-c", "exit 4"] }),
    });
    const running = agent.runs.run(order);
    await pidIn(join(dir, "pid"));
    expect(await agent.orders.checkpoint(order)).toMatchObject({
      isComplete: false,
      message: expect.stringContaining("exit code 4"),
    });
    await agent.orders.stop(stopOf(order));
    await running;
  });

  it("of a lease that does not run here, or without a rule, is not complete and says why", async () => {
    const agent = testAgent();
    const order = orderOf("exec sleep 60");
    expect(await agent.orders.checkpoint(order)).toMatchObject({
      isComplete: false,
      message: expect.stringContaining("does not run"),
    });
    const running = agent.runs.run(order);
    await eventually(() => {
      const now = phaseOf(launchIn(agent.filesOf(order)));
      return now.kind === "running" && now.status.startedAtMs !== undefined;
    });
    expect(await agent.orders.checkpoint(order)).toMatchObject({
      isComplete: false,
      message: expect.stringContaining("no checkpoint rule"),
    });
    await agent.orders.stop(stopOf(order));
    await running;
  });

  it("ends a process that does not handle its own checkpoint signal, and the cause says so", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`, {
      run: checkpointed({ kind: "signal", signal: "SIGUSR1" }),
    });
    const running = agent.runs.run(order);
    await pidIn(join(dir, "pid"));
    await agent.orders.checkpoint(order);
    expect((await running).cause).toMatchObject({
      code: "PROCESS_SIGNALLED",
      signal: "SIGUSR1",
      message: expect.stringContaining("does not handle it"),
    });
  });
});

describe("the newest checkpoint", () => {
  it("is of the highest token, even when a stale run has written later, and never unfinished", () => {
    const dir = folder();
    const agent = testAgent({ stateDir: dir });
    const root = agent.host.layout.checkpointDir(JOB);
    expect(newestCheckpoint(nodeSystem.files, root)).toBeUndefined();
    for (const [path, text] of [
      ["2/late", ""],
      ["3/good", ""],
      ["3/half.tmp", ""],
      ["3/.hidden", ""],
      ["notes/x", ""],
    ] as const) {
      const file = join(root, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    expect(newestCheckpoint(nodeSystem.files, root)?.path).toBe(join(root, "3/good"));
  });
});
