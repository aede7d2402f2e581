/** What one supervisor must do as the other does, beside the tests of launches, which run with each (`unit`, `fallback`). */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import type { LaunchPlan, LaunchStatus } from "../../agent/folder/launch-files.ts";
import { launchFiles, taskDir } from "../../agent/folder/launch-files.ts";
import { readTurns } from "../../agent/folder/slot-journal.ts";
import { noteStops } from "../../agent/shim/task-stop.ts";
import { readJson } from "../../agent/folder/json-files.ts";
import { readLog } from "../../agent/shim/log-reader.ts";
import { NATIVE_PROTOCOL, planWords } from "../../agent/runs/plan-words.ts";
import { findNative } from "../../agent/system/native-supervisor.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { builtNative, builtShim, eventually, folder, removeFolders } from "./fixture.ts";

afterEach(removeFolders);

const PLAN: LaunchPlan = {
  command: ["sh", "-c", 'printf "%s" "$TEXT"'],
  cwd: "/",
  ranks: [{ rank: 3, env: { PATH: "/usr/bin:/bin", TEXT: "a\nb = \u00fc" } }],
  graceMs: 100,
  log: { partBytes: 1_000, parts: 2 },
};
const MARKS = { kind: "marks" } as const;

/** Tasks 0 to 2 in one slot, each of two ranks. */
const batchPlan = (leaseDir: string, over: Partial<LaunchPlan> = {}): LaunchPlan => ({
  ...PLAN,
  ranks: [],
  batch: {
    tasks: [
      { task: 0, checkpointDir: "/ckpt/0" },
      { task: 1, checkpointDir: "/ckpt/1", checkpoint: "/ckpt/1/7/\u00fc" },
      { task: 2, checkpointDir: "/ckpt/2" },
    ],
    count: 9,
    slots: [
      [0, 1].map((rank) => ({
        rank,
        env: {
          PATH: "/usr/bin:/bin",
          RANK: String(rank),
          ARRAY_INDEX: "of the slot",
          TEXT: "a\nb",
        },
      })),
    ],
    isPortAgreed: false,
    leaseDir,
  },
  ...over,
});

describe("the words of a plan", () => {
  it("begin with the protocol, and end each in a NUL byte", () => {
    const words = planWords(PLAN, MARKS);
    expect(words?.split("\0").slice(0, 5)).toEqual([NATIVE_PROTOCOL, "100", "-1", "1000", "2"]);
    expect(words?.endsWith("\0end\0")).toBe(true);
  });

  it("are not there for a word with a NUL byte, which the shim in Node runs", () => {
    expect(planWords({ ...PLAN, command: ["a\0b"] }, MARKS)).toBeUndefined();
  });

  it("are not there for a group whose path JSON would write in another way", () => {
    expect(planWords(PLAN, { kind: "cgroup2", group: '/sys/"a"' })).toBeUndefined();
  });
});

it("a choice of supervisor that is none, or cannot be had, is refused", () => {
  expect(() => findNative("/no/such", "perl")).toThrow(/auto, native, node/);
  expect(() => findNative("/no/such", "native")).toThrow(/compiler/);
  expect(findNative("/no/such")).toBeUndefined();
  expect(findNative("/no/such", "")).toBeUndefined();
  expect(findNative("/no/such", "node")).toBeUndefined();
});

it("a look at processes from one on finds it and all that came later, however soon it comes again", () => {
  const { processes } = nodeSystem;
  const own = processes.own();
  const pids = (): readonly number[] => processes.all(own).map(({ pid }) => pid);
  const before = pids();
  const child = spawn("sleep", ["60"]);
  try {
    for (const found of [pids(), pids()])
      expect(found).toEqual(expect.arrayContaining([own.pid, child.pid]));
    expect(before).toContain(own.pid);
    expect(processes.all().some(({ pid }) => pid === 1)).toBe(true);
  } finally {
    child.kill("SIGKILL");
  }
});

describe("a supervisor", () => {
  const native = builtNative();
  /** Runs the launch to its end. */
  function supervise(plan: LaunchPlan, prepare: (dir: string) => void = () => undefined) {
    const files = launchFiles(join(folder(), "leases", "lease-1"));
    mkdirSync(files.dir, { recursive: true });
    writeFileSync(files.plan, JSON.stringify(plan));
    writeFileSync(files.container, JSON.stringify(MARKS));
    const words = planWords(plan, MARKS);
    if (words !== undefined) writeFileSync(files.planWords, words);
    prepare(files.dir);
    const command = native === undefined ? [process.execPath, builtShim()] : [native];
    const [program = "", ...args] = [...command, files.dir];
    execFileSync(program, args, { stdio: "pipe" });
    const status = readJson<LaunchStatus>(nodeSystem.files, files.status);
    return { files, status };
  }

  it("hands environment and words over byte by byte, and numbers ranks as the plan does", () => {
    const { files, status } = supervise(PLAN);
    expect(status).toMatchObject({ phase: "ended", ranks: [{ rank: 3, end: { exitCode: 0 } }] });
    const range = { offset: 0, maxBytes: 100, isFinal: true };
    expect(readLog(nodeSystem.files, join(files.dir, "ranks", "3"), range).text).toBe(
      "a\nb = \u00fc",
    );
  });

  it("starts nothing once an order to stop is there", () => {
    const { files, status } = supervise(PLAN, (dir) =>
      writeFileSync(join(dir, "stop.json"), '{"reason":"r","atMs":1}'),
    );
    expect(status).toMatchObject({ phase: "ended", ranks: [{ rank: 3 }] });
    expect(status?.startedAtMs).toBeUndefined();
    expect(existsSync(join(files.dir, "ranks"))).toBe(false);
  });

  it("does nothing when another one has the claim", () => {
    const { files, status } = supervise(PLAN, (dir) =>
      writeFileSync(join(dir, "claim.json"), '{"kind":"revoked"}'),
    );
    expect(status).toBeUndefined();
    expect(readFileSync(files.claim, "utf8")).toBe('{"kind":"revoked"}');
  });

  it.each([
    [
      "a folder that is missing",
      { cwd: '/no/"such' },
      "not-started",
      'the folder /no/"such does not exist',
    ],
    ["a program that is missing", { command: ["/no/such"] }, "not-found", "ENOENT for /no/such"],
  ])("says why %s kept a rank from starting", (_what, over, kind, message) => {
    expect(supervise({ ...PLAN, ...over }).status?.failure).toMatchObject({
      ...{ rank: 3, kind, exitCode: 127, message },
    });
  });

  it("keeps the newest parts of an output, cut where the plan says, across characters and streams", () => {
    const line = "i=0; while [ $i -lt 400 ]; do printf '\\303\\274-%03d\\n' $i; i=$((i+1)); done";
    const { files } = supervise({ ...PLAN, command: ["sh", "-c", line] });
    const range = { offset: -1_000, maxBytes: 1_000, isFinal: true };
    const slice = readLog(nodeSystem.files, join(files.dir, "ranks", "3"), range);
    expect(slice.totalBytes).toBe(400 * 7);
    expect(slice.text.endsWith("\u00fc-399\n")).toBe(true);
    const names = nodeSystem.files.list(join(files.dir, "ranks", "3"));
    expect([...names].sort()).toEqual(["0000000000001000.log", "0000000000002000.log"]);
  });

  /** Runs the batch to its end. */
  function superviseBatch(
    over: Partial<LaunchPlan>,
    prepare: (dir: string) => void = () => undefined,
  ) {
    const leaseDir = folder();
    const { files, status } = supervise(batchPlan(leaseDir, over), prepare);
    const turns = readTurns(nodeSystem.files, files.journal);
    const output = (task: number, rank: number): string =>
      readLog(nodeSystem.files, join(taskDir(leaseDir, task), "ranks", String(rank)), {
        ...{ offset: 0, maxBytes: 1_000, isFinal: true },
      }).text;
    return { status, turns, output };
  }

  it("gives each rank of a task its slot's environment and the task's own, byte by byte", () => {
    const line =
      'printf "%s|" "$RANK" "$TEXT" "$ARRAY_INDEX" "$ARRAY_COUNT" "$ORBWEAVER_CHECKPOINT_DIR" "$ORBWEAVER_CHECKPOINT" "${ORBWEAVER_LAUNCH_TASK##*/}"';
    const { status, turns, output } = superviseBatch({ command: ["sh", "-c", line] });
    expect(status).toMatchObject({ phase: "ended", startedAtMs: expect.any(Number), ranks: [] });
    expect(output(0, 0)).toBe("0|a\nb|0|9|/ckpt/0||lease-1#0|");
    expect(output(1, 1)).toBe("1|a\nb|1|9|/ckpt/1|/ckpt/1/7/\u00fc|lease-1#1|");
    expect([...turns].map(([task, { isOver, slot }]) => [task, isOver, slot])).toEqual([
      [0, true, 0],
      [1, true, 0],
      [2, true, 0],
    ]);
    expect(turns.get(2)?.status).toEqual({
      startedAtMs: expect.any(Number),
      endedAtMs: expect.any(Number),
      ranks: [0, 1].map((rank) => ({ rank, end: { exitCode: 0, atMs: expect.any(Number) } })),
    });
  });

  it("skips the tasks of a batch that are to stop, and keeps the reason as it was written", () => {
    const reason = 'he said "task":1, {"stop":\\ \u00fc}\n';
    const { turns } = superviseBatch({}, (dir) =>
      noteStops({ files: launchFiles(dir), system: nodeSystem }, [2, 77, 0], {
        reason,
        atMs: 1_700_000_000_123,
      }),
    );
    const stop = { reason, atMs: 1_700_000_000_123 };
    expect(turns.get(0)).toEqual({ isOver: true, stop });
    expect(turns.get(1)).toMatchObject({ isOver: true, startedAtMs: expect.any(Number) });
    expect(turns.get(2)).toEqual({ isOver: true, stop });
    expect(turns.size).toBe(3);
  });

  it("counts the time limit for each task, and goes on with the next", () => {
    const line = "[ $ARRAY_INDEX = 1 ] && exec sleep 60; exit 0";
    const { turns } = superviseBatch({ command: ["sh", "-c", line], timeLimitMs: 3_000 });
    expect(turns.get(0)?.status?.limitAtMs).toBeUndefined();
    expect(turns.get(1)?.status).toMatchObject({
      limitAtMs: expect.any(Number),
      failure: { kind: "signalled", signal: "SIGTERM" },
    });
    expect(turns.get(2)?.status?.failure).toBeUndefined();
  });

  it("names the program that is missing at each task of a batch", () => {
    const { turns } = superviseBatch({ command: ["/no/such"] });
    expect([...turns.values()].map(({ status }) => status?.failure)).toEqual(
      [0, 1, 2].map(() => ({
        ...{ rank: 0, kind: "not-found", exitCode: 127, message: "ENOENT for /no/such" },
        atMs: expect.any(Number),
      })),
    );
    expect(turns.get(1)?.status?.startedAtMs).toBeUndefined();
  });

  it("starts no task of a batch once an order to stop is there", () => {
    const { status, turns } = superviseBatch({}, (dir) =>
      writeFileSync(join(dir, "stop.json"), '{"reason":"r","atMs":1}'),
    );
    expect(status).toMatchObject({ phase: "ended", ranks: [] });
    expect(turns.size).toBe(0);
  });

  it.runIf(native !== undefined)(
    "starts no task of a batch before its start is in the journal",
    async () => {
      const leaseDir = folder();
      const dir = join(leaseDir, "leases", "lease-1");
      const files = launchFiles(dir);
      mkdirSync(dir, { recursive: true });
      const plan = batchPlan(leaseDir, { command: ["sh", "-c", `echo >> ${leaseDir}/starts`] });
      writeFileSync(files.planWords, planWords(plan, MARKS) ?? "");
      // No journal can lie in what is no folder.
      writeFileSync(join(dir, "turns"), "");
      const ended = once(spawn(native ?? "", [dir], { stdio: "ignore" }), "exit");
      await eventually(() => existsSync(files.claim));
      await setTimeout(700);
      expect(existsSync(join(leaseDir, "starts"))).toBe(false);
      rmSync(join(dir, "turns"));
      expect(await ended).toEqual([0, null]);
      expect(readFileSync(join(leaseDir, "starts"), "utf8")).toBe("\n".repeat(6));
      expect(readTurns(nodeSystem.files, files.journal).size).toBe(3);
    },
  );

  it.runIf(native !== undefined).each([
    [
      "with more slots than it holds",
      (words: string) => words.replace("\x001\x002\x000\0", "\x002\x002\x000\0"),
    ],
    [
      "with more tasks than it holds",
      (words: string) => words.replace("\x003\x000\0/ckpt", "\x004\x000\0/ckpt"),
    ],
  ])("refuses a batch %s", (_what, broken) => {
    const words = planWords(batchPlan("/"), MARKS) ?? "";
    expect(broken(words)).not.toBe(words);
    expect(() =>
      superviseBatch({}, (dir) => writeFileSync(join(dir, "plan.words"), broken(words))),
    ).toThrow(/plan.words is missing or broken/);
  });

  it.runIf(native !== undefined).each([
    ["cut short", (words: string) => words.slice(0, -5)],
    [
      "of another protocol",
      (words: string) => words.replace(NATIVE_PROTOCOL, `${NATIVE_PROTOCOL}0`),
    ],
    [
      "with more ranks than it holds",
      (words: string) => words.replace("\x001\x003\0", "\x002\x003\0"),
    ],
    [
      "with a list longer than itself",
      (words: string) => words.replace("\x003\0sh", "\x00999999999\0sh"),
    ],
  ])("refuses a plan %s, before it takes the claim", (_what, broken) => {
    const words = planWords(PLAN, MARKS) ?? "";
    let dir = "";
    expect(broken(words)).not.toBe(words);
    expect(() =>
      supervise(PLAN, (path) => {
        dir = path;
        writeFileSync(join(path, "plan.words"), broken(words));
      }),
    ).toThrow(/plan.words is missing or broken/);
    expect(existsSync(join(dir, "claim.json"))).toBe(false);
  });
});
