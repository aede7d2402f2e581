import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { phaseOf } from "../../agent/runs/local-run.ts";
import { readTurns } from "../../agent/folder/slot-journal.ts";
import { jobId } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import {
  batchOf,
  endOf,
  endsOf,
  filesOf,
  stopTasksOf,
  tasksUpTo,
  turnOf,
} from "./batch-fixture.ts";
import {
  HOST,
  eventually,
  folder,
  kill,
  pidIn,
  removeFolders,
  runs,
  stopOf,
  testAgent,
  launchIn,
} from "./fixture.ts";

afterEach(removeFolders);

/** Writes its pid and waits; task 0 ends at once. */
const waitIn = (dir: string): string =>
  `[ $ARRAY_INDEX = 0 ] && exit 0; echo $$ > ${dir}/$ARRAY_INDEX; exec sleep 60`;

describe("a batch that is stopped", () => {
  it("stops what runs, starts nothing more and says what became of each task", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = batchOf(waitIn(dir), { tasks: tasksUpTo(6) });
    const running = agent.runs.run(order);
    const pids = await Promise.all(["1", "2"].map((name) => pidIn(join(dir, name))));
    expect(await agent.orders.stop(stopOf(order))).toEqual({ host: HOST, hadProcesses: true });
    expect(pids.map(runs)).toEqual([false, false]);
    const report = await running;
    expect(report).toMatchObject({ end: "stopped", cause: { code: "STOPPED" } });
    expect(endsOf(report)).toBe("0:completed 1:stopped 2:stopped 3:not-run 4:not-run 5:not-run");
    expect(endOf(report, 1)).toMatchObject({ message: "cancelled", signal: "SIGTERM" });
    expect(await agent.orders.stop(stopOf(order))).toEqual({ host: HOST, hadProcesses: false });
    await expect(agent.runs.run(batchOf("exit 0", { seq: 2 }))).rejects.toMatchObject({
      type: "STALE_TOKEN",
    });
  });

  it.each([
    { name: "by a signal", rule: { kind: "signal" as const, signal: "SIGUSR1" } },
    {
      name: "by a command",
      rule: {
        kind: "command" as const,
        command: ["sh", "-c", 'kill -USR1 $(cat "$PIDS/$ARRAY_INDEX")'],
      },
    },
  ])("lets each running task write its checkpoint first, ordered $name", async ({ rule }) => {
    const dir = folder();
    const agent = testAgent();
    const save = 'mkdir "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step"';
    const line = `[ $ARRAY_INDEX = 0 ] && exit 0; trap '${save}' USR1; echo $$ > ${dir}/$ARRAY_INDEX; while :; do sleep 0.02; done`;
    const run = { env: { PIDS: dir }, checkpoint: { order: rule, graceMs: ms(60_000) } };
    const order = batchOf(line, { run });
    const running = agent.runs.run(order);
    await Promise.all(["1", "2"].map((name) => pidIn(join(dir, name))));
    // A task may run before its shim has noted that it does.
    await eventually(() => [1, 2].every((task) => turnOf(agent, order, task) !== undefined));
    await agent.orders.stop(stopOf(order, true));
    expect(endsOf(await running)).toBe("0:completed 1:stopped 2:stopped");
    const saved = (task: number): string =>
      join(
        agent.host.layout.checkpointDir(order.jobId),
        "tasks",
        `${task}`,
        `${order.token}`,
        "step",
      );
    expect([0, 1, 2].map((task) => existsSync(saved(task)))).toEqual([false, true, true]);
  });

  it("never starts when the stop came first", async () => {
    const agent = testAgent();
    await agent.orders.stop(stopOf(batchOf("")));
    await expect(agent.runs.run(batchOf("exit 0"))).rejects.toMatchObject({ type: "STALE_TOKEN" });
  });

  it("by its cancellation before it starts reports that none has run", async () => {
    const agent = testAgent({
      gang: { look: () => new Promise(() => undefined) },
    });
    agent.task.cancel("asked");
    const report = await agent.runs.run(batchOf("exit 0"));
    expect(report).toMatchObject({ end: "stopped", hasStarted: false });
    expect(endsOf(report)).toBe("0:not-run 1:not-run 2:not-run");
  });
});

describe("stopTasks", () => {
  it("keeps back what has not started, stops what runs, and leaves the others alone", async () => {
    const dir = folder();
    const agent = testAgent();
    const line = `case $ARRAY_INDEX in 1|2) echo $$ > ${dir}/$ARRAY_INDEX; [ $ARRAY_INDEX = 1 ] && exec sleep 60; while [ ! -e ${dir}/go ]; do sleep 0.01; done;; 4) exit 7;; esac`;
    const order = batchOf(line, { tasks: [1, 2, 3, 4, 5] });
    const running = agent.runs.run(order);
    const [pid = 0] = await Promise.all(["1", "2"].map((name) => pidIn(join(dir, name))));
    // Slot 0 is held by task 1, slot 1 by task 2; 3 to 5 wait.
    expect(await agent.orders.stopTasks(stopTasksOf(order, 5, 3, 99))).toEqual({
      host: HOST,
      stopped: [],
    });
    expect(turnOf(agent, order, 5)).toMatchObject({ isOver: true });
    expect(await agent.orders.stopTasks(stopTasksOf(order, 1, 3))).toEqual({
      host: HOST,
      stopped: [1],
    });
    expect(runs(pid)).toBe(false);
    expect(await agent.orders.stopTasks(stopTasksOf(order, 1, 3))).toEqual({
      host: HOST,
      stopped: [1],
    });
    writeFileSync(join(dir, "go"), "");
    const report = await running;
    expect(report.end).toBe("completed");
    expect(endsOf(report)).toBe("1:stopped 2:completed 3:stopped 4:failed 5:stopped");
    expect(endOf(report, 1)).toMatchObject({ message: "not wanted any more", signal: "SIGTERM" });
    expect(endOf(report, 3)).toEqual({ task: 3, end: "stopped", message: "not wanted any more" });
    expect(await agent.orders.stopTasks(stopTasksOf(order, 2, 4))).toEqual({
      host: HOST,
      stopped: [2, 4],
    });
  });

  it("kills after the grace what does not listen to TERM", async () => {
    const dir = folder();
    const agent = testAgent();
    const line = `trap '' TERM; echo $$ > ${dir}/$ARRAY_INDEX; while :; do sleep 0.02; done`;
    const order = batchOf(line, { tasks: [1], slots: 1, run: { graceMs: ms(200) } });
    const running = agent.runs.run(order);
    const pid = await pidIn(join(dir, "1"));
    await agent.orders.stopTasks(stopTasksOf(order, 1));
    expect(runs(pid)).toBe(false);
    expect(endOf(await running, 1)).toMatchObject({ end: "stopped", signal: "SIGKILL" });
  });

  it("before its batch comes holds for that batch, and not for a later one", async () => {
    const dir = folder();
    const early = testAgent();
    const order = batchOf(`echo $ARRAY_INDEX >> ${dir}/starts`, { slots: 1 });
    expect(await early.orders.stopTasks(stopTasksOf(order, 1, 2))).toEqual({
      host: HOST,
      stopped: [],
    });
    const agent = testAgent({ stateDir: early.stateDir });
    expect(endsOf(await agent.runs.run(order))).toBe("0:completed 1:stopped 2:stopped");
    const later = { ...order, taskBatch: { ...order.taskBatch, seq: 2, tasks: [2] } };
    expect(endsOf(await agent.runs.run(later))).toBe("2:completed");
    expect(readFileSync(join(dir, "starts"), "utf8")).toBe("0\n2\n");
  });

  it("is refused for another job's lease", async () => {
    const agent = testAgent();
    const order = batchOf("exit 0");
    await agent.runs.run(order);
    await expect(
      agent.orders.stopTasks({ ...stopTasksOf(order, 1), jobId: jobId("job-8") }),
    ).rejects.toMatchObject({ type: "STALE_TOKEN" });
  });
});

describe("a batch outlives", () => {
  it("its agent: the next one takes it over, and reports all of it", async () => {
    const dir = folder();
    const old = testAgent();
    const line = `echo $ARRAY_INDEX >> ${dir}/starts; [ $ARRAY_INDEX -lt 3 ] || while [ ! -e ${dir}/go ]; do sleep 0.01; done; [ $ARRAY_INDEX != 1 ]`;
    const order = batchOf(line, { tasks: tasksUpTo(8) });
    const abandoned = old.runs.run(order);
    await eventually(() => turnOf(old, order, 4) !== undefined);
    old.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });

    const agent = testAgent({ stateDir: old.stateDir });
    const adopted = agent.runs.run(order);
    await eventually(() => agent.task.beats.length > 0);
    expect(agent.task.beats[0]?.tasks).toEqual({ running: [3, 4], ended: 3, failed: 1 });
    writeFileSync(join(dir, "go"), "");
    const report = await adopted;
    expect(report.end).toBe("completed");
    expect(endsOf(report)).toBe(
      tasksUpTo(8)
        .map((t) => `${t}:${t === 1 ? "failed" : "completed"}`)
        .join(" "),
    );
    const starts = readFileSync(join(dir, "starts"), "utf8").trim().split("\n");
    expect(starts).toHaveLength(8);
  });

  it("nothing when its shim is killed: what runs is killed, and what is known is reported", async () => {
    const dir = folder();
    const agent = testAgent();
    const daemon = `setsid sh -c 'trap "" TERM HUP; echo $$ > ${dir}/daemon; exec sleep 60' &`;
    const order = batchOf(`[ $ARRAY_INDEX = 1 ] && ${daemon} ${waitIn(dir)}`, {
      tasks: tasksUpTo(5),
    });
    const running = agent.runs.run(order);
    const pids = await Promise.all(["1", "2", "daemon"].map((name) => pidIn(join(dir, name))));
    // A task may run before its shim has noted that it does.
    await eventually(() => [1, 2].every((task) => turnOf(agent, order, task) !== undefined));
    const phase = phaseOf(launchIn(filesOf(agent, order)));
    kill("shim" in phase ? phase.shim.pid : 0);
    const report = await running;
    expect(report).toMatchObject({ end: "failed", hasStarted: true, cause: { code: "HOST_LOST" } });
    expect(endsOf(report)).toBe("0:completed 1:stopped 2:stopped 3:not-run 4:not-run");
    expect(endOf(report, 1)?.message).toContain(
      "the process that watched toy[1] on eu-1/host-1 was killed",
    );
    expect(pids.map(runs)).toEqual([false, false, false]);
    expect(await agent.orders.stopTasks(stopTasksOf(order, 1, 4))).toEqual({
      host: HOST,
      stopped: [1],
    });
  });
});

describe("the journal of a batch", () => {
  it("is read up to a line that was cut off", () => {
    const path = join(folder(), "journal");
    expect(readTurns(nodeSystem.files, path).size).toBe(0);
    appendFileSync(
      path,
      '{"kind":"start","task":3,"slot":1,"atMs":5}\n{"kind":"end","task":3,"sta',
    );
    expect([...readTurns(nodeSystem.files, path)]).toEqual([
      [3, { isOver: false, startedAtMs: 5, slot: 1 }],
    ]);
  });
});
