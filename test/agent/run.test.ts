import { existsSync, mkdirSync, writeFileSync, chmodSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { fakeAgent, ranksOn } from "./fake-host.ts";
import { FakeMachine } from "./fakes.ts";
import {
  HOST,
  eventually,
  folder,
  orderOf,
  outputOf,
  pidIn,
  removeFolders,
  runs,
  testAgent,
} from "./fixture.ts";
import { handedOn } from "../../agent/runs/run-start.ts";
import type { ImageRule } from "../../domain/job/job-image.ts";
import { jobId, parseHostId, token } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";

afterEach(removeFolders);

const TWO_GPUS = [{ host: HOST, mask: 0b101, address: "10.0.0.1" }];

describe("run", () => {
  it("starts one process a GPU and reports that all ended with 0", async () => {
    const agent = testAgent();
    const order = orderOf("echo hello from $RANK of $WORLD_SIZE on $CUDA_VISIBLE_DEVICES", {
      gang: TWO_GPUS,
    });
    const report = await agent.runs.run(order);
    expect(report).toMatchObject({ host: HOST, hasStarted: true, end: "completed" });
    expect(report.cause).toBeUndefined();
    expect(report.ranks.map(({ rank, exitCode }) => ({ rank, exitCode }))).toEqual([
      { rank: 0, exitCode: 0 },
      { rank: 1, exitCode: 0 },
    ]);
    expect(await outputOf(agent, order, 0)).toBe("hello from 0 of 2 on 0,2\n");
    expect(await outputOf(agent, order, 1)).toBe("hello from 1 of 2 on 0,2\n");
  });

  it("on the one host of a gang says in a heartbeat that it runs once it has run for a second, and nothing before", async () => {
    const machine = new FakeMachine();
    const agent = fakeAgent(machine);
    const running = agent.runs.run(orderOf("train"));
    await machine.pass(900);
    expect(ranksOn(machine)).toHaveLength(1);
    expect(agent.lastBeat()).toBeUndefined();
    await machine.pass(1_000);
    const beat = agent.lastBeat();
    for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    const { startedAtMs } = await machine.until(running);
    expect(beat).toMatchObject({ phase: "running", startedAtMs, masterPort: expect.any(Number) });
  });

  it("starts one process a host when asked to", async () => {
    const agent = testAgent();
    const order = orderOf("echo $RANK $WORLD_SIZE $NPROC_PER_NODE $PET_NNODES", {
      gang: TWO_GPUS,
      run: { launch: "per-host" },
    });
    await agent.runs.run(order);
    expect(await outputOf(agent, order)).toBe("0 1 2 1\n");
  });

  it("does not hand the agent's own environment to jobs", async () => {
    const agent = testAgent();
    const order = orderOf("env", { run: { env: { MINE: "yes" } } });
    await agent.runs.run(order);
    const output = await outputOf(agent, order);
    expect(output).toContain("MINE=yes\n");
    expect(output).not.toContain("SECRET_OF_THE_AGENT");
  });

  const failures = [
    {
      name: "an exit code",
      line: "echo last words; exit 3",
      want: { code: "PROCESS_EXITED", exitCode: 3, lastLines: "last words\n" },
    },
    {
      name: "a signal",
      line: "kill -SEGV $$",
      want: { code: "PROCESS_SIGNALLED", signal: "SIGSEGV" },
    },
  ];
  it.each(failures)(
    "reports $name as the cause and never throws for it",
    async ({ line, want }) => {
      const report = await testAgent().runs.run(orderOf(line));
      expect(report.end).toBe("failed");
      expect(report.cause).toMatchObject({ ...want, rank: 0 });
    },
  );

  it("says 127 of a command that does not exist, with the PATH it looked in", async () => {
    const report = await testAgent().runs.run(
      orderOf("", { run: { command: ["no-such-trainer"], env: { PATH: "/bin" } } }),
    );
    expect(report).toMatchObject({ end: "failed", hasStarted: false });
    expect(report.cause).toMatchObject({ code: "COMMAND_NOT_FOUND", exitCode: 127, rank: 0 });
    expect(report.cause?.message).toContain("no-such-trainer");
    expect(report.cause?.message).toContain("PATH=/bin");
  });

  it("says 126 of a file that may not be executed", async () => {
    const file = join(folder(), "train.py");
    writeFileSync(file, "print()");
    chmodSync(file, 0o644);
    const report = await testAgent().runs.run(orderOf("", { run: { command: [file] } }));
    expect(report.cause).toMatchObject({ code: "COMMAND_NOT_FOUND", exitCode: 126 });
  });

  it("stops the other ranks for the first one that fails, which is the cause", async () => {
    const agent = testAgent();
    const line = 'if [ "$RANK" = 1 ]; then exit 9; fi; exec sleep 600';
    const report = await agent.runs.run(orderOf(line, { gang: TWO_GPUS }));
    expect(report.cause).toMatchObject({ code: "PROCESS_EXITED", rank: 1, exitCode: 9 });
    expect(report.ranks).toEqual([
      expect.objectContaining({ rank: 0, signal: "SIGTERM" }),
      expect.objectContaining({ rank: 1, exitCode: 9 }),
    ]);
  });

  it("stops a run that has lasted for its time limit", async () => {
    const report = await testAgent().runs.run(orderOf("sleep 60", { timeLimitMs: 300 }));
    expect(report.end).toBe("failed");
    expect(report.cause?.code).toBe("TIME_LIMIT");
    expect(report.endedAtMs - (report.startedAtMs ?? 0)).toBeGreaterThanOrEqual(300);
  });

  it("kills what ignores the end of its time limit when the grace is over", async () => {
    const order = orderOf("trap '' TERM; while :; do sleep 0.05; done", {
      // By then the shell has said that it is deaf, on a busy machine too.
      timeLimitMs: 6_000,
      run: { graceMs: ms(200) },
    });
    const report = await testAgent().runs.run(order);
    expect(report.cause?.code).toBe("TIME_LIMIT");
    expect(report.ranks).toEqual([expect.objectContaining({ signal: "SIGKILL" })]);
  });

  it("ends a daemon that the ranks have left behind before it reports", async () => {
    const dir = folder();
    const agent = testAgent();
    const report = await agent.runs.run(
      orderOf(
        `setsid sh -c 'trap "" TERM HUP; echo $$ > ${dir}/pid; exec sleep 60' & while [ ! -s ${dir}/pid ]; do sleep 0.02; done`,
      ),
    );
    expect(report.end).toBe("completed");
    expect(runs(await pidIn(join(dir, "pid")))).toBe(false);
  });

  it("runs in its own scratch folder, or in the one that the job names", async () => {
    const agent = testAgent();
    const dir = folder();
    const named = orderOf("pwd", { run: { workdir: dir } });
    await agent.runs.run(named);
    expect(await outputOf(agent, named)).toBe(`${dir}\n`);
  });

  it("hands over the newest complete checkpoint of the job, and reports the one at the end", async () => {
    const agent = testAgent();
    const dir = agent.host.layout.checkpointDir(orderOf("").jobId);
    mkdirSync(join(dir, "3", "step-10"), { recursive: true });
    mkdirSync(join(dir, "3", "step-20.tmp"));
    const order = orderOf(
      'echo "$ORBWEAVER_CHECKPOINT"; mkdir "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/step-30"',
    );
    const report = await agent.runs.run(order);
    expect(await outputOf(agent, order)).toBe(`${join(dir, "3", "step-10")}\n`);
    expect(report.checkpoint?.path).toBe(join(dir, "5", "step-30"));
  });

  describe("of a job that goes on from another", () => {
    const from = jobId("train-7");
    const checkpoint = {
      order: { kind: "signal", signal: "USR1" },
      graceMs: ms(1_000),
      from,
    } as const;
    const line =
      'echo "$ORBWEAVER_CHECKPOINT"; mkdir "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/own"';

    it("hands over that one's newest checkpoint until there is one of its own", async () => {
      const agent = testAgent();
      const former = join(agent.host.layout.checkpointDir(from), "3", "step-10");
      mkdirSync(former, { recursive: true });
      const first = orderOf(line, { run: { checkpoint } });
      const report = await agent.runs.run(first);
      expect(await outputOf(agent, first)).toBe(`${former}\n`);
      const own = join(agent.host.layout.checkpointDir(first.jobId), "5", "own");
      expect(report.checkpoint?.path).toBe(own);
      const next = orderOf(line, { run: { checkpoint }, token: token(6) });
      await agent.runs.run(next);
      expect(await outputOf(agent, next)).toBe(`${own}\n`);
      expect(existsSync(former)).toBe(true);
    });

    it("refuses to begin from nothing", async () => {
      const agent = testAgent();
      const order = orderOf(line, { run: { checkpoint } });
      await expect(agent.runs.run(order)).rejects.toMatchObject({
        type: "HOST_REFUSED",
        message: expect.stringMatching(/goes on from a checkpoint of train-7 .*has none/) as string,
      });
    });

    it("shows no folder of another job to an image", () => {
      const agent = testAgent();
      mkdirSync(join(agent.host.layout.checkpointDir(from), "3", "step-10"), { recursive: true });
      const container = { image: "a/b:1" } as unknown as ImageRule;
      const inImage = orderOf(line, { run: { checkpoint, container } });
      expect(() => handedOn(agent.host, inImage)).toThrow(/has none/);
    });

    it("starts on the other hosts of a gang without one", () => {
      const agent = testAgent();
      const gang = [
        { host: parseHostId("c/other"), mask: 1, address: "10.0.0.2" },
        { host: HOST, mask: 1, address: "10.0.0.1" },
      ];
      expect(handedOn(agent.host, orderOf(line, { run: { checkpoint }, gang }))).toBeUndefined();
    });
  });

  it("keeps what a launcher of many processes needs: the shim is one for all ranks", async () => {
    const agent = testAgent();
    const order = orderOf("echo $PPID", {
      gang: [{ host: HOST, mask: 0xff, address: "10.0.0.1" }],
    });
    await agent.runs.run(order);
    const parents = await Promise.all(
      [...Array(8).keys()].map((rank) => outputOf(agent, order, rank)),
    );
    expect(new Set(parents).size).toBe(1);
  });
});

describe("a host that refuses", () => {
  it.each([
    {
      name: "for GPUs that it does not have",
      over: { gang: [{ host: HOST, mask: 0x100, address: "a" }] },
      want: "names GPU 8",
    },
    {
      name: "for a lease without GPUs of it",
      over: { gang: [{ host: HOST, mask: 0, address: "a" }] },
      want: "no GPU",
    },
    {
      name: "for a working folder that is missing",
      over: { run: { workdir: "/no/such/folder" } },
      want: "/no/such/folder",
    },
  ])("$name says so and starts nothing", async ({ over, want }) => {
    const agent = testAgent();
    const order = orderOf("echo", over);
    await expect(agent.runs.run(order)).rejects.toMatchObject({
      type: "HOST_REFUSED",
      nonRetryable: true,
      message: expect.stringContaining(want),
    });
    expect(existsSync(agent.filesOf(order).claim)).toBe(false);
  });

  it("for an operator's refuse file gives the operator's reason", async () => {
    const agent = testAgent();
    writeFileSync(agent.host.layout.refuse, "fan broken");
    await expect(agent.runs.run(orderOf("echo"))).rejects.toMatchObject({
      type: "HOST_REFUSED",
      message: expect.stringContaining("fan broken"),
    });
  });

  it("for a full disk says how much room it needs", async () => {
    const agent = testAgent({ minFreeBytes: 2 ** 60 });
    await expect(agent.runs.run(orderOf("echo"))).rejects.toMatchObject({
      type: "HOST_REFUSED",
      message: expect.stringContaining("MiB free"),
    });
  });

  it.each([
    { kind: "shim", nativePath: undefined },
    { kind: "native supervisor", nativePath: "/no/such/supervisor" },
  ])(
    "for a $kind that cannot start says why, and never starts it later",
    async ({ nativePath }) => {
      const agent = testAgent({ shimPath: "/no/such/shim.js", nativePath });
      await expect(agent.runs.run(orderOf("echo"))).rejects.toMatchObject({
        type: "HOST_REFUSED",
        message: expect.stringContaining(nativePath ?? "/no/such/shim.js"),
      });
      await expect(agent.runs.run(orderOf("echo"))).rejects.toMatchObject({ type: "STALE_TOKEN" });
    },
  );

  it("of another agent is named", async () => {
    const agent = testAgent();
    await expect(
      agent.runs.run({
        ...orderOf("echo"),
        host: orderOf("").host.replace("1", "9") as typeof HOST,
      }),
    ).rejects.toMatchObject({ type: "HOST_REFUSED" });
  });
});

describe("cancellation", () => {
  it("stops the processes and reports that they were stopped", async () => {
    const dir = folder();
    const agent = testAgent();
    const running = agent.runs.run(orderOf(`echo $$ > ${dir}/pid; exec sleep 60`));
    const pid = await pidIn(join(dir, "pid"));
    agent.task.cancel("asked");
    expect(await running).toMatchObject({
      end: "stopped",
      hasStarted: true,
      cause: { code: "STOPPED" },
    });
    expect(runs(pid)).toBe(false);
  });

  it.each([
    { reason: "shutdown" as const, wantError: { type: "HOST_LOST" } },
    { reason: "paused" as const, wantError: { name: "CancelledFailure" } },
    { reason: "forgotten" as const, wantError: { name: "CompleteAsyncError" } },
  ])("leaves the processes alone when its reason is '$reason'", async ({ reason, wantError }) => {
    const dir = folder();
    const agent = testAgent();
    const running = agent.runs.run(orderOf(`echo $$ > ${dir}/pid; exec sleep 60`));
    const pid = await pidIn(join(dir, "pid"));
    agent.task.cancel(reason);
    await expect(running).rejects.toMatchObject(wantError);
    expect(runs(pid)).toBe(true);
  });

  it("stops the processes of a job that is gone when the server has forgotten the run", async () => {
    const dir = folder();
    const agent = testAgent({
      gang: { look: () => Promise.resolve({ isClosed: true, beats: [] }) },
    });
    const running = agent.runs.run(orderOf(`echo $$ > ${dir}/pid; exec sleep 60`));
    const pid = await pidIn(join(dir, "pid"));
    agent.task.cancel("forgotten");
    await expect(running).rejects.toMatchObject({ name: "CompleteAsyncError" });
    await eventually(() => agent.vacated.length > 0);
    expect(agent.vacated).toEqual(["lease-5"]);
    expect(runs(pid)).toBe(false);
  });
});
