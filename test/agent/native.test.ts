/** What one supervisor must do as the other does, beside the tests of launches, which run with each (`unit`, `fallback`). */

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { LaunchPlan, LaunchStatus } from "../../agent/folder/launch-files.ts";
import { launchFiles } from "../../agent/folder/launch-files.ts";
import { readJson } from "../../agent/folder/json-files.ts";
import { readLog } from "../../agent/shim/log-reader.ts";
import { NATIVE_PROTOCOL, planWords } from "../../agent/runs/plan-words.ts";
import { findNative } from "../../agent/system/native-supervisor.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { builtNative, builtShim, folder, removeFolders } from "./fixture.ts";

afterEach(removeFolders);

const PLAN: LaunchPlan = {
  command: ["sh", "-c", 'printf "%s" "$TEXT"'],
  cwd: "/",
  ranks: [{ rank: 3, env: { PATH: "/usr/bin:/bin", TEXT: "a\nb = \u00fc" } }],
  graceMs: 100,
  log: { partBytes: 1_000, parts: 2 },
};
const MARKS = { kind: "marks" } as const;

describe("the words of a plan", () => {
  it("begin with the protocol, and end each in a NUL byte", () => {
    const words = planWords(PLAN, MARKS);
    expect(words?.split("\0").slice(0, 5)).toEqual([NATIVE_PROTOCOL, "100", "-1", "1000", "2"]);
    expect(words?.endsWith("\0end\0")).toBe(true);
  });

  it.each([
    ["a batch", { batch: { tasks: [], count: 1, slots: [], isPortAgreed: false, leaseDir: "/" } }],
    ["a word with a NUL byte", { command: ["a\0b"] }],
  ])("are not there for %s, which the shim in Node runs", (_what, over) => {
    expect(planWords({ ...PLAN, ...over }, MARKS)).toBeUndefined();
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
