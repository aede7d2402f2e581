/** @file What lies where: counted without following links, whatever the names are; and nothing is changed by looking. */

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { houseOf } from "../../../cli/house/holdings.ts";
import { run } from "../run.ts";

const DAY_MS = 86_400_000;
const NOW_MS = Date.UTC(2027, 0, 31);
let root: string;
let stateDir: string;
let elsewhere: string;

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "orbweaver-house-"));
  stateDir = path.join(root, "state", "f");
  elsewhere = path.join(root, "elsewhere");
  mkdirSync(stateDir, { recursive: true });
  mkdirSync(elsewhere);
  writeFileSync(path.join(elsewhere, "a user's"), "x".repeat(1_000_000));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(name: string, bytes: number, ageMs = 0): string {
  const file = path.join(stateDir, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, "x".repeat(bytes));
  const seconds = (NOW_MS - ageMs) / 1_000;
  utimesSync(file, seconds, seconds);
  return file;
}
const holding = (what: string) =>
  houseOf(stateDir, NOW_MS).holdings.find((each) => each.what === what);

describe("what a fleet keeps", () => {
  it("is counted by what it is", () => {
    put("temporal.db", 100);
    put("temporal.db-wal", 20);
    put("history.db", 7);
    put("history.db.runs/r.history.gz", 50);
    put(`store/${"0".repeat(64)}.json`, 30);
    put("logs/fleet.log", 11);
    put("jobs/j-1/checkpoints/3/step-1", 40);
    put("jobs/j-1/checkpoints/3/step-2/part", 2);
    put("jobs/j-2/checkpoints/4/step", 1_000);
    expect(holding("server's database")).toMatchObject({ files: 2, bytes: 120 });
    expect(holding("history database")).toMatchObject({ files: 1, bytes: 7 });
    expect(holding("archived runs")).toMatchObject({ files: 1, bytes: 50, due: { bytes: 0 } });
    expect(holding("store")).toMatchObject({ files: 1, bytes: 30 });
    expect(holding("logs of processes")).toMatchObject({ files: 1, bytes: 11 });
    expect(holding("checkpoints")).toMatchObject({ files: 3, bytes: 1_042 });
    expect(houseOf(stateDir, NOW_MS).checkpoints).toMatchObject([
      { folder: "j-2", bytes: 1_000, changedAtMs: NOW_MS },
      { folder: "j-1", bytes: 42 },
    ]);
  });

  it("is due by the rule of agents: output older than a week", () => {
    put("hosts/alpha/a1/leases/old/output", 10, 9 * DAY_MS);
    put("hosts/alpha/a1/leases/old/report.json", 1, 8 * DAY_MS);
    put("hosts/alpha/a1/leases/runs/output", 2, 80 * DAY_MS);
    put("hosts/alpha/a1/leases/new/output", 5, 6 * DAY_MS);
    put("hosts/alpha/a2/leases/long/output", 3, 30 * DAY_MS);
    put("hosts/alpha/a2/leases/long/report.json", 1, DAY_MS);
    expect(holding("output of launches")).toMatchObject({
      ...{ files: 6, bytes: 22 },
      due: { files: 2, bytes: 11 },
    });
  });

  it("is never what a link points at", () => {
    put("jobs/j/checkpoints/1/step", 5);
    symlinkSync(elsewhere, path.join(stateDir, "jobs/j/checkpoints/1/link"));
    symlinkSync(elsewhere, path.join(stateDir, "jobs/linked"));
    symlinkSync(stateDir, path.join(stateDir, "jobs/j/checkpoints/loop"));
    mkdirSync(path.join(stateDir, "hosts/alpha"), { recursive: true });
    symlinkSync(elsewhere, path.join(stateDir, "hosts/alpha/a1"));
    symlinkSync(elsewhere, path.join(stateDir, "store"));
    const { holdings } = houseOf(stateDir, NOW_MS);
    expect(Math.max(...holdings.map(({ bytes }) => bytes))).toBeLessThan(1_000);
    expect(readdirSync(elsewhere)).toEqual(["a user's"]);
  });

  it("is counted whatever its names are, and shown without obeying them", async () => {
    const hostile = "a\u001b[2Jb\nc $(rm -rf ~) -rf";
    put(`jobs/${hostile}/checkpoints/1/${hostile}`, 9);
    put(`jobs/..%2F..%2Fetc/checkpoints/1/x`, 8);
    const env = { ORBWEAVER_STATE_DIR: path.join(root, "state"), ORBWEAVER_FLEET: "f" };
    const shown = await run(["house"], { env });
    expect(shown.code).toBe(0);
    expect(shown.stdout).not.toContain("\u001b");
    expect(shown.stdout).toContain("..%2F..%2Fetc");
    const { stdout } = await run(["house", "--json"], { env });
    const { checkpoints } = JSON.parse(stdout) as { readonly checkpoints: { bytes: number }[] };
    expect(checkpoints.map(({ bytes }) => bytes)).toEqual([9, 8]);
    const none = await run(["house", "--fleet", "other"], { env });
    expect(none.code).not.toBe(0);
    expect(none.stderr).toMatch(/NOT_FOUND: there is no fleet other/);
  });
});
