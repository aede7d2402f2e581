import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { fakeAgent } from "./fake-host.ts";
import { FakeMachine } from "./fakes.ts";
import { ms } from "../../domain/values/units.ts";
import {
  batchOf,
  endOf,
  endsOf,
  filesOf,
  stopTasksOf,
  taskOutput,
  tasksUpTo,
} from "./batch-fixture.ts";
import {
  HOST,
  OTHER_HOST,
  eventually,
  folder,
  gangOf,
  orderOf,
  pidIn,
  queryOf,
  removeFolders,
  runs,
  testAgent,
} from "./fixture.ts";

afterEach(removeFolders);

/** Of whoever takes a task of a job's workflow: no order is parsed. */
describe("an order whose numbers are paths", () => {
  const path = `${"../".repeat(20)}tmp/elsewhere` as unknown as number;

  it("opens no launch elsewhere, makes no folder of a task there, and reads no output there", async () => {
    const agent = testAgent();
    const order = batchOf("echo out", { tasks: [0] });
    const { taskBatch } = order;
    const run = (more: object) =>
      agent.runs.run({ ...order, taskBatch: { ...taskBatch, ...more } });
    await expect(run({ seq: path })).rejects.toMatchObject({ type: "NOT_ALLOWED" });
    await expect(run({ tasks: [path] })).rejects.toMatchObject({ type: "HOST_REFUSED" });
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
    for (const query of [{ task: 0, rank: path }, { task: path }])
      await expect(agent.orders.readLogs(queryOf(order, query))).rejects.toMatchObject({
        type: "RUN_UNKNOWN",
      });
    const stop = { ...stopTasksOf(order, 0), batchSeq: path };
    await expect(agent.orders.stopTasks(stop)).rejects.toMatchObject({ type: "NOT_ALLOWED" });
  });
});

describe("a batch of array tasks", () => {
  it("runs them all in order, as many at a time as it has slots, and reports one end for each", async () => {
    const dir = folder();
    const agent = testAgent();
    // The first three wait for each other: one that is done early would let a fourth begin before the third has said so.
    const line = `echo $ARRAY_INDEX >> ${dir}/starts; while [ $(wc -l < ${dir}/starts) -lt 3 ]; do sleep 0.01; done; ls -d ${dir}/on-* 2>/dev/null | wc -l >> ${dir}/beside; : > ${dir}/on-$ARRAY_INDEX; sleep 0.05; rm ${dir}/on-$ARRAY_INDEX`;
    const order = batchOf(line, { tasks: [7, 3, 5, 1, 9, 2, 8, 4], slots: 3 });
    const report = await agent.runs.run(order);
    expect(report).toMatchObject({ end: "completed", hasStarted: true, ranks: [], host: HOST });
    expect(report).not.toHaveProperty("cause");
    expect(endsOf(report)).toBe(order.taskBatch.tasks.map((task) => `${task}:completed`).join(" "));
    expect(endOf(report, 5)).toMatchObject({ exitCode: 0 });
    const starts = readFileSync(join(dir, "starts"), "utf8").trim().split("\n").map(Number);
    expect(new Set(starts)).toEqual(new Set(order.taskBatch.tasks));
    expect(new Set(starts.slice(0, 3))).toEqual(new Set([7, 3, 5]));
    const beside = readFileSync(join(dir, "beside"), "utf8").trim().split("\n").map(Number);
    expect(Math.max(...beside)).toBeLessThanOrEqual(2);
  });

  it("gives each slot its GPUs, and each task its own numbers, port and index", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = batchOf(
      `echo $CUDA_VISIBLE_DEVICES $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$NNODES $MASTER_ADDR $ARRAY_INDEX/$ARRAY_COUNT $ORBWEAVER_ARRAY_INDEX/$ORBWEAVER_ARRAY_COUNT $ORBWEAVER_GPUS; echo $MASTER_PORT > ${dir}/$ARRAY_INDEX.$RANK; while [ $(ls ${dir} | wc -l) -lt 4 ]; do sleep 0.01; done`,
      {
        tasks: [4, 6],
        gpusPerTask: 2,
        order: { gang: [{ host: HOST, mask: 0b1011_0100, address: "10.0.0.1" }] },
      },
    );
    expect(endsOf(await agent.runs.run(order))).toBe("4:completed 6:completed");
    expect(await taskOutput(agent, order, 4, 0)).toBe("2,4 0/2 0/2 0/1 127.0.0.1 4/10 4/10 2\n");
    expect(await taskOutput(agent, order, 4, 1)).toBe("2,4 1/2 1/2 0/1 127.0.0.1 4/10 4/10 2\n");
    expect(await taskOutput(agent, order, 6, 1)).toBe("5,7 1/2 1/2 0/1 127.0.0.1 6/10 6/10 2\n");
    const port = (name: string): string => readFileSync(join(dir, name), "utf8");
    expect(port("4.0")).toBe(port("4.1"));
    expect(port("4.0")).not.toBe(port("6.0"));
  });

  it("starts one process a task per host, with torchrun's options for the slot", async () => {
    const agent = testAgent();
    const order = batchOf(
      'echo $CUDA_VISIBLE_DEVICES $RANK/$WORLD_SIZE $PET_NPROC_PER_NODE; [ "$PET_MASTER_PORT" = "$MASTER_PORT" ]',
      { tasks: [0], slots: 1, gpusPerTask: 4, run: { launch: "per-host" } },
    );
    expect(endsOf(await agent.runs.run(order))).toBe("0:completed");
    expect(await taskOutput(agent, order, 0)).toBe("0,1,2,3 0/1 4\n");
  });

  it("goes on after a failed task, whose end says what happened in at most 512 bytes", async () => {
    const agent = testAgent();
    const line =
      'case $ARRAY_INDEX in 0) i=0; while [ $i -lt 40 ]; do echo "grüße, line $i of the output"; i=$((i+1)); done; exit 3;; 1) kill -SEGV $$;; *) echo fine;; esac';
    const report = await agent.runs.run(batchOf(line, { slots: 1 }));
    expect(report.end).toBe("completed");
    expect(endsOf(report)).toBe("0:failed 1:failed 2:completed");
    const failed = endOf(report, 0);
    expect(failed).toMatchObject({ exitCode: 3 });
    expect(failed?.message).toMatch(
      /^rank 0 of toy\[0\] on eu-1\/host-1 ended with exit code 3\n…/,
    );
    expect(failed?.message?.endsWith("grüße, line 39 of the output")).toBe(true);
    expect(Buffer.byteLength(failed?.message ?? "")).toBeLessThanOrEqual(512);
    expect(endOf(report, 1)).toMatchObject({ signal: "SIGSEGV" });
  });

  it("stops the other ranks of a task whose rank has failed, and nothing else", async () => {
    const agent = testAgent();
    const line = "[ $ARRAY_INDEX$RANK = 10 ] && exit 5; [ $ARRAY_INDEX = 1 ] && exec sleep 60; :";
    const report = await agent.runs.run(batchOf(line, { gpusPerTask: 2 }));
    expect(endsOf(report)).toBe("0:completed 1:failed 2:completed");
    expect(endOf(report, 1)).toMatchObject({ exitCode: 5 });
  });

  it("counts the time limit for each task", async () => {
    const machine = new FakeMachine();
    const { runs: activities } = fakeAgent(machine);
    const startShim = machine.onStart;
    const { clock } = machine.system();
    machine.onStart = (started) => {
      startShim(started);
      const task = started.order.env["ARRAY_INDEX"];
      if (task !== undefined && task !== "1")
        clock.after(1_100, () => started.end({ exitCode: 0 }));
    };
    const order = batchOf("", { tasks: [0, 1, 2, 3], slots: 1, order: { timeLimitMs: 3_000 } });
    const report = await machine.until(activities.run(order));
    expect(endsOf(report)).toBe("0:completed 1:failed 2:completed 3:completed");
    expect(endOf(report, 1)?.message).toContain("time limit of 3 s");
  });

  it("names a command that does not exist at each of its tasks", async () => {
    const report = await testAgent().runs.run(
      batchOf("", { run: { command: ["no-such-command"] } }),
    );
    expect(endsOf(report)).toBe("0:failed 1:failed 2:failed");
    expect(endOf(report, 2)?.message).toContain('"no-such-command" does not exist');
  });

  it.each([
    { name: "a daemon in a session of its own", start: "setsid" },
    { name: "a process without its environment", start: "env -i PATH=$PATH" },
  ])(
    "kills $name that a task leaves behind before the next one gets its GPUs",
    async ({ start }) => {
      const dir = folder();
      const agent = testAgent();
      const daemon = `${start} sh -c 'trap "" TERM HUP; echo $$ > ${dir}/daemon; exec sleep 60' > /dev/null 2>&1 &`;
      // A killed one may be a zombie for a while, which runs nothing.
      const state = `ps -o stat= -p $(cat ${dir}/daemon) | grep -v Z || echo gone`;
      const line = `if [ $ARRAY_INDEX = 0 ]; then ${daemon} while [ ! -s ${dir}/daemon ]; do sleep 0.01; done; else ${state}; fi`;
      const order = batchOf(line, { tasks: [0, 1], slots: 1 });
      expect(endsOf(await agent.runs.run(order))).toBe("0:completed 1:completed");
      expect(await taskOutput(agent, order, 1)).toBe("gone\n");
      expect(runs(await pidIn(join(dir, "daemon")))).toBe(false);
    },
  );

  it("says which tasks run and how many have ended, when that changes", async () => {
    const dir = folder();
    const agent = testAgent();
    const line = `[ $ARRAY_INDEX = 0 ] && exit 1; while [ ! -e ${dir}/go ]; do sleep 0.01; done`;
    const running = agent.runs.run(batchOf(line, { slots: 1 }));
    // A look may fall between the end of the first and the start of the second.
    const beat = await eventually(() => {
      const last = agent.task.beats.at(-1);
      return last?.tasks?.ended === 1 && last.tasks.running.length > 0 && last;
    });
    expect(beat).toMatchObject({
      phase: "running",
      host: HOST,
      tasks: { running: [1], ended: 1, failed: 1 },
    });
    writeFileSync(join(dir, "go"), "");
    await running;
  });

  it("is followed by the next batch of the lease; an earlier one that comes again is only reported", async () => {
    const agent = testAgent();
    const first = batchOf("echo one", { tasks: [0, 1] });
    const second = batchOf("echo two", { seq: 2, tasks: [2, 1] });
    const report = await agent.runs.run(first);
    expect(endsOf(await agent.runs.run(second))).toBe("2:completed 1:completed");
    expect(await agent.runs.run(first)).toEqual(report);
    // Run again on the same lease, a task goes on with its output.
    expect(await taskOutput(agent, second, 1)).toBe("one\ntwo\n");
    const late = (tasks: readonly number[]) =>
      agent.runs.run(batchOf("echo three", { tasks, order: { token: first.token } }));
    expect(await late([0, 1])).toEqual(report);
    // A job that was reset may give other tasks the number: nobody has run those.
    await expect(late([3, 1])).rejects.toMatchObject({ type: "NOT_ALLOWED" });
    expect(agent.host.open.size).toBe(0);
    await agent.runs.run(batchOf("exit 0", { seq: 4 }));
    await expect(agent.runs.run(batchOf("exit 0", { seq: 3 }))).rejects.toMatchObject({
      type: "STALE_TOKEN",
    });
  });

  it.each([
    { name: "more slots than the lease has GPUs for", over: { slots: 3, gpusPerTask: 3 } },
    { name: "a task twice", over: { tasks: [1, 1] } },
    { name: "several tasks over several hosts", over: { tasks: [1, 2], slots: 1 }, hosts: 2 },
  ])("with $name is refused", async ({ over, hosts = 1 }) => {
    const mask = 0b1111;
    const gang = [HOST, OTHER_HOST].slice(0, hosts).map((host) => ({ host, mask, address: "a" }));
    await expect(
      testAgent().runs.run(batchOf("", { ...over, order: { gang } })),
    ).rejects.toMatchObject({
      type: "HOST_REFUSED",
      message: expect.stringContaining("batch 1 of"),
    });
  });

  it("of one task over two hosts starts as a gang does, with ranks over both", async () => {
    const beat = { phase: "prepared" as const, host: OTHER_HOST, masterPort: 2_345 };
    let looks = 0;
    const agent = testAgent({
      gang: gangOf(() => ({
        isClosed: false,
        beats:
          ++looks < 3
            ? []
            : [{ ...beat, token: order.token, ...(looks > 5 && { phase: "running" as const }) }],
      })),
    });
    const gang = [
      { host: OTHER_HOST, mask: 0b111, address: "10.0.0.2" },
      { host: HOST, mask: 0b1, address: "10.0.0.1" },
    ];
    const order = batchOf(
      "echo $RANK/$WORLD_SIZE $NODE_RANK/$NNODES $MASTER_ADDR:$MASTER_PORT $ARRAY_INDEX",
      {
        tasks: [8],
        slots: 1,
        gpusPerTask: 4,
        order: { gang },
      },
    );
    expect(endsOf(await agent.runs.run(order))).toBe("8:completed");
    expect(await taskOutput(agent, order, 8, 3)).toBe("3/4 1/2 10.0.0.2:2345 8\n");
  });

  it("keeps checkpoints apart by task, and hands each its newest", async () => {
    const agent = testAgent();
    const checkpoint = { order: { kind: "signal" as const, signal: "SIGUSR1" }, graceMs: ms(100) };
    const line =
      'echo "${ORBWEAVER_CHECKPOINT##*/}"; mkdir "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/made-by-$ARRAY_INDEX" 2>/dev/null; :';
    const over = { tasks: [0, 1], run: { checkpoint } };
    await agent.runs.run(batchOf(line, { ...over, seq: 1 }));
    const again = batchOf(line, { ...over, seq: 2 });
    await agent.runs.run(again);
    expect(await taskOutput(agent, again, 1)).toBe("\nmade-by-1\n");
  });

  it("makes no folder for a task that writes nothing", async () => {
    const agent = testAgent();
    const order = batchOf("[ $ARRAY_INDEX = 3 ] && echo me; :", { tasks: tasksUpTo(10) });
    await agent.runs.run(order);
    const leaseDir = agent.host.layout.leaseDir(order.leaseId);
    expect(readdirSync(join(leaseDir, "tasks"))).toEqual(["3"]);
    expect(existsSync(filesOf(agent, order).report)).toBe(true);
  });
});

describe("the output of array tasks", () => {
  it("ends with its task, not with its batch", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = batchOf(
      `echo out; [ $ARRAY_INDEX = 0 ] || while [ ! -e ${dir}/go ]; do sleep 0.01; done`,
    );
    const running = agent.runs.run(order);
    const chunk = await eventually(() =>
      agent.task.beats.some((beat) => beat?.tasks?.ended === 1),
    ).then(() => agent.orders.readLogs(queryOf(order, { task: 0 })));
    expect(chunk).toMatchObject({ text: "out\n", isEnd: true });
    expect(await agent.orders.readLogs(queryOf(order, { task: 1, offset: 4 }))).toMatchObject({
      isEnd: false,
    });
    const waiting = agent.orders.readLogs(queryOf(order, { task: 1, offset: 4, waitMs: 60_000 }));
    writeFileSync(join(dir, "go"), "");
    expect(await waiting).toMatchObject({ text: "", isEnd: true });
    await running;
  });

  it.each([
    { name: "a task that it was not given", query: { task: 5 }, want: "was given tasks 0, 1, 2" },
    { name: "a rank that its task has not", query: { task: 1, rank: 4 }, want: "rank 4 of task 1" },
    { name: "no task", query: {}, want: "is a job array: the lease was given tasks 0, 1, 2" },
  ])("is RUN_UNKNOWN for $name", async ({ query, want }) => {
    const agent = testAgent();
    const order = batchOf("exit 0");
    await agent.runs.run(order);
    await expect(agent.orders.readLogs(queryOf(order, query))).rejects.toMatchObject({
      type: "RUN_UNKNOWN",
      message: expect.stringContaining(want),
    });
  });

  it("is RUN_UNKNOWN for a task of a run that is no array", async () => {
    const agent = testAgent();
    const order = orderOf("exit 0");
    await agent.runs.run(order);
    await expect(agent.orders.readLogs(queryOf(order, { task: 1 }))).rejects.toMatchObject({
      type: "RUN_UNKNOWN",
      message: expect.stringContaining("runs no array tasks"),
    });
    await expect(agent.orders.stopTasks(stopTasksOf(order, 1))).resolves.toMatchObject({
      stopped: [],
    });
  });
});
