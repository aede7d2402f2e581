/** @file `house --collect` on the folders of a fleet: what goes, what stays and why, with a question, without one, and without a server. */

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openHistory } from "../../../console/history/database.ts";
import { SMALL_FLEET } from "../../domain/fleet-text.ts";
import { fleetYaml } from "../../../domain/fleet/fleet-yaml.ts";
import { run, type Outside } from "../run.ts";
import { temporalOf, type Served } from "./served.ts";

const DAY_MS = 86_400_000;
const NOW_MS = Date.UTC(2027, 0, 31);
const daysAgo = (days: number): number => NOW_MS - days * DAY_MS;
let root = "";
let stateDir = "";
let jobs: Map<string, Served>;
let asked: string[];
const files = new Map<string, object>();

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "orbweaver-collect-"));
  stateDir = path.join(root, "state", "f");
  mkdirSync(stateDir, { recursive: true });
  jobs = new Map();
  asked = [];
  files.clear();
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(name: string, bytes: number, days: number): string {
  const file = path.join(stateDir, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, "x".repeat(bytes));
  utimesSync(file, daysAgo(days) / 1_000, daysAgo(days) / 1_000);
  return file;
}
/** A job with a checkpoint as old as its end. */
function job(
  name: string,
  days: number,
  how: "open" | "COMPLETED" | "FAILED" | "gone",
  bytes = 10,
): void {
  put(`jobs/${name}/checkpoints/3/step`, bytes, days);
  if (how === "gone") return;
  jobs.set(name, how === "open" ? "open" : { status: how, closedMs: daysAgo(days) });
}
const ended = (name: string, days: number) => ({
  ...{ job: name, run: "r", name, tenant: "research", class: "training", user: "u" },
  ...{ gpus: 1, tasks: 1, submittedMs: 0, endedMs: daysAgo(days), outcome: "completed", why: "" },
});
async function history(...rows: readonly ReturnType<typeof ended>[]): Promise<void> {
  const database = await openHistory(path.join(stateDir, "history.db"), { isNew: true });
  database.writeJobs(rows.map((record) => ({ job: record.job, record, runs: [] })));
  database.close();
}
function keep(rules: object, tenant?: object): string {
  const file = path.join(root, "fleet.yaml");
  const tenants = [{ name: "research", ...(tenant !== undefined && { keep: tenant }) }];
  writeFileSync(file, fleetYaml({ ...SMALL_FLEET, tenants, keep: rules }));
  return file;
}
async function house(words: readonly string[], outside: Outside = {}) {
  const temporal = temporalOf({
    ...{ fleet: "f", jobs, runs: [[{}]], lobbies: [], files },
    onAsked: (name) => void asked.push(name),
  });
  const env = { ORBWEAVER_STATE_DIR: path.join(root, "state"), ORBWEAVER_FLEET: "f" };
  return await run(["house", "--collect", ...words], {
    ...{ env, cwd: root, nowMs: NOW_MS, client: {}, temporal },
    ...outside,
  });
}
const jobsLeft = (): readonly string[] => {
  const folder = path.join(stateDir, "jobs");
  return existsSync(folder) ? readdirSync(folder).sort() : [];
};
/** Every file below the state folder, as it was. */
const everything = (): readonly string[] =>
  readdirSync(stateDir, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(path.join(stateDir, name)).isFile())
    .sort();

describe("house --collect", () => {
  it("removes checkpoints of jobs that ended long ago, and of no other", async () => {
    job("done", 40, "COMPLETED");
    job("young", 20, "COMPLETED");
    job("runs", 90, "open");
    job("failed", 90, "FAILED");
    job("dropped", 90, "gone");
    job("nobody's", 90, "gone");
    await history(ended("dropped", 90));
    const { code, stdout } = await house(["--yes"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/removed 2 things/);
    expect(jobsLeft()).toEqual(["failed", "nobody's", "runs", "young"]);
  });

  it("leaves a checkpoint from which a job that has not ended or is on a schedule is to go on, also when it was submitted while somebody was asked, whatever stands torn beside it", async () => {
    job("done", 40, "COMPLETED");
    job("other", 40, "COMPLETED");
    const from = (name: string) => ({ name: "again", run: { checkpoint: { from: name } } });
    files.set("done-r1", from("done"));
    files.set("plain", { name: "plain", run: {} });
    const submitted = (): void => void files.set("other-r1", from("other"));
    const temporal = temporalOf({
      ...{ fleet: "f", jobs, runs: [[{}]], lobbies: [], files, onListed: submitted },
    });
    const { stdout } = await house([], { typed: "y", temporal });
    expect(stdout).toMatch(/removed 0 things.*1 thing stayed/);
    expect(jobsLeft()).toEqual(["done", "other"]);
    files.clear();
    const crons = new Map<string, object | "torn">([
      ["before", "torn"],
      ["nightly", from("other")],
    ]);
    await house(["--yes"], {
      temporal: temporalOf({ fleet: "f", jobs, runs: [[{}]], lobbies: [], crons }),
    });
    expect(jobsLeft()).toEqual(["other"]);
    await house(["--yes"]);
    expect(jobsLeft()).toEqual([]);
  });

  it("counts a job that nobody knows as ended when that was first seen", async () => {
    job("lost", 400, "gone");
    await house(["--yes"]);
    await house(["--yes"], { nowMs: NOW_MS + 29 * DAY_MS });
    expect(jobsLeft()).toEqual(["lost"]);
    // Known for a day, as on the right server.
    jobs.set("lost", "open");
    await house(["--yes"], { nowMs: NOW_MS + 30 * DAY_MS });
    jobs.delete("lost");
    await house(["--yes"], { nowMs: NOW_MS + 31 * DAY_MS });
    expect(jobsLeft()).toEqual(["lost"]);
    await house(["--yes"], { nowMs: NOW_MS + 62 * DAY_MS });
    expect(jobsLeft()).toEqual([]);
  });

  it("knows the end of a job that Temporal has dropped since; quotas take no job that nobody knows", async () => {
    job("seen", 5, "FAILED", 2 ** 20);
    job("lost", 5, "gone", 2 ** 20);
    const file = keep({ checkpoints: { most: "1 KiB" } });
    await house(["--file", file, "--yes"]);
    expect(jobsLeft()).toEqual(["lost", "seen"]);
    jobs.delete("seen");
    const { stdout } = await house(["--file", file, "--yes"], { nowMs: NOW_MS + 2 * DAY_MS });
    expect(jobsLeft()).toEqual(["lost"]);
    expect(stdout).toMatch(/checkpoints of all: 1\.0 MiB stay, beyond the quota/);
  });

  it("removes what is beyond a tenant's quota, of the jobs that ended first", async () => {
    const MIB = 2 ** 20;
    job("first", 9, "COMPLETED", 3 * MIB);
    job("second", 8, "COMPLETED", 3 * MIB);
    job("runs", 20, "open", 3 * MIB);
    job("other", 25, "COMPLETED", MIB);
    await history(ended("first", 9), ended("second", 8), ended("runs", 20));
    const file = keep({}, { checkpoints: "7 MiB" });
    const { stdout } = await house(["--file", file, "--yes", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      isDryRun: false,
      collected: { things: 1, bytes: 3 * MIB },
    });
    expect(jobsLeft()).toEqual(["other", "runs", "second"]);
  });

  it("removes output beyond its quota where the launch is over and its job has ended", async () => {
    const order = (name: string): string =>
      JSON.stringify({ order: { jobId: name, holder: { tenant: "research" } } });
    const launch = (name: string, days: number, isOver = true): void => {
      const folder = `hosts/eu/h1/leases/lease-${name}`;
      writeFileSync(put(`${folder}/order.json`, 0, days), order(name));
      utimesSync(
        path.join(stateDir, folder, "order.json"),
        daysAgo(days) / 1_000,
        daysAgo(days) / 1_000,
      );
      put(`${folder}/ranks/0/output`, 2 ** 20, days);
      if (isOver) put(`${folder}/report.json`, 1, days);
    };
    for (const [name, days] of [
      ["a", 6],
      ["b", 5],
      ["c", 4],
      ["d", 3],
    ] as const)
      launch(name, days, name !== "b");
    for (const name of ["a", "b", "d"])
      jobs.set(name, { status: "COMPLETED", closedMs: daysAgo(3) });
    jobs.set("c", "open");
    const file = keep({ output: { tenant: "1 MiB" } });
    const { stdout } = await house(["--file", file, "--yes"]);
    expect(stdout).toMatch(/output of launches of research: 2\.0 MiB stay, beyond the quota/);
    const leases = path.join(stateDir, "hosts", "eu", "h1", "leases");
    expect(readdirSync(leases).sort()).toEqual(["lease-b", "lease-c"]);
  });

  it("removes old archived runs but the newest, old logs, and old rows", async () => {
    for (const [name, days] of [
      ["r1", 300],
      ["r2", 200],
      ["r3", 190],
    ] as const)
      put(`history.db.runs/${name}.history.gz`, 5, days);
    put("history.db.runs/notes.txt", 5, 300);
    put("logs/agent-old.log", 5, 31);
    put("logs/fleet.log", 5, 2);
    await history(ended("old", 500), ended("new", 10));
    const file = keep({ archives: { for: "180d" }, history: { for: "400d" } });
    await house(["--file", file, "--yes"]);
    expect(everything()).toEqual(
      expect.arrayContaining([
        "history.db.runs/r3.history.gz",
        "history.db.runs/notes.txt",
        "logs/fleet.log",
      ]),
    );
    expect(everything()).not.toContain("history.db.runs/r2.history.gz");
    expect(everything()).not.toContain("logs/agent-old.log");
    const database = await openHistory(path.join(stateDir, "history.db"), { isNew: false });
    expect(database.all("SELECT job FROM jobs", {})).toEqual([{ job: "new" }]);
    database.close();
  });

  it("says what it has removed where the history database fails after that", async () => {
    job("done", 40, "COMPLETED");
    await history(ended("old", 500));
    const temporal = temporalOf({
      ...{ fleet: "f", jobs, runs: [[{}]], lobbies: [] },
      onAsked: (name) => {
        if (asked.push(name) !== 2) return;
        rmSync(path.join(stateDir, "history.db"));
        mkdirSync(path.join(stateDir, "history.db"));
      },
    });
    const file = keep({ history: { for: "400d" } });
    const { code, stdout, stderr } = await house(["--file", file, "--yes"], { temporal });
    expect(code).toBe(1);
    expect(stdout).toMatch(/removed 1 thing/);
    expect(stderr).toMatch(/not removed: .*history\.db: /);
  });

  it("shows and changes nothing with --dry-run, without a yes, and where nobody can be asked", async () => {
    job("done", 40, "COMPLETED");
    put("logs/agent-old.log", 5, 31);
    const before = everything();
    const dry = await house(["--dry-run", "--json"]);
    expect(JSON.parse(dry.stdout)).toMatchObject({ isDryRun: true });
    expect(dry.stdout).toContain("jobs/done/checkpoints");
    const refused = await house([], { typed: "n" });
    expect(refused.stderr).toMatch(/remove 2 things, .*\[y\/N\] nothing was removed/);
    const alone = await house([]);
    expect(alone.stderr).toMatch(/nothing was removed. Add --yes/);
    expect(everything()).toEqual(before);
    const agreed = await house([], { typed: "y" });
    expect(agreed.stdout).toMatch(/removed 2 things/);
    expect(jobsLeft()).toEqual([]);
  });

  it("leaves what is of jobs where no server, or another one, answers", async () => {
    job("done", 40, "COMPLETED");
    put(`store/${"0".repeat(64)}.json`, 5, 90);
    put("logs/agent-old.log", 5, 31);
    const temporal = temporalOf({ fleet: "another", jobs, runs: [[{}]], lobbies: [] });
    const other = await house(["--yes"], { temporal });
    expect(other.stdout).toMatch(
      /checkpoints, output of launches and the store stay: .*knows no fleet f/,
    );
    expect(jobsLeft()).toEqual(["done"]);
    expect(everything()).toContain(`store/${"0".repeat(64)}.json`);
    expect(everything()).not.toContain("logs/agent-old.log");
  });

  it("leaves what is of jobs where a fleet of that name in another namespace answers", async () => {
    job("done", 40, "COMPLETED");
    const up = (namespace: string) => ({
      ...{ fleet: "f", fleetFile: keep({}), workers: [] },
      server: {
        ...{ bootId: "b", pid: 1, started: "1", address: "fake:1", namespace },
        ...{ databaseFile: path.join(stateDir, "temporal.db"), logFile: "server.log" },
      },
    });
    const note = (namespace: string): void =>
      writeFileSync(path.join(stateDir, "up.json"), JSON.stringify(up(namespace)));
    note("ours");
    const { stdout } = await house(["--yes"]);
    expect(stdout).toMatch(/the store stay: the fleet is in namespace ours, and default was to be/);
    expect(jobsLeft()).toEqual(["done"]);
    note("default");
    await house(["--yes"]);
    expect(jobsLeft()).toEqual([]);
  });

  it("brings back a checkpoint whose job runs again just then", async () => {
    job("again", 40, "COMPLETED");
    const temporal = temporalOf({
      ...{ fleet: "f", jobs, runs: [[{}]], lobbies: [] },
      onAsked: (name) => {
        if (asked.push(name) === 2) jobs.set(name, "open");
      },
    });
    const { stdout } = await house(["--yes"], { temporal });
    expect(asked).toEqual(["again", "again"]);
    expect(stdout).toMatch(/removed 0 things.*1 thing stayed/);
    expect(everything()).toContain("jobs/again/checkpoints/3/step");
  });

  it("ends what a killed collection has begun", async () => {
    job("kept", 2, "COMPLETED");
    const uuid = "00000000-0000-4000-8000-000000000000";
    put(`jobs/kept2/.aside.checkpoints.${uuid}/3/step`, 5, 2);
    put(`jobs/torn/.gone.checkpoints.${uuid}/3/half`, 5, 90);
    jobs.set("kept2", "open");
    const { stderr } = await house(["--yes"]);
    expect(stderr).toMatch(/1 thing that a collection had begun with came back/);
    expect(everything()).toContain("jobs/kept2/checkpoints/3/step");
    expect(everything().join()).not.toContain("half");
  });

  it("follows no link, and never leaves the fleet's folder", async () => {
    const elsewhere = path.join(root, "elsewhere", "checkpoints", "1");
    mkdirSync(elsewhere, { recursive: true });
    writeFileSync(path.join(elsewhere, "a user's"), "x");
    job("done", 40, "COMPLETED");
    symlinkSync(elsewhere, path.join(stateDir, "jobs/done/checkpoints/link"));
    symlinkSync(path.join(root, "elsewhere"), path.join(stateDir, "jobs/linked"));
    put("jobs/%2E%2E%2F..%2Felsewhere/checkpoints/1/x", 5, 90);
    for (const name of ["linked", "../../elsewhere"])
      jobs.set(name, { status: "COMPLETED", closedMs: daysAgo(80) });
    // The link in it is as new as this test, and so is the folder.
    await house(["--yes"], { nowMs: Date.now() + 60 * DAY_MS });
    expect(readdirSync(elsewhere)).toEqual(["a user's"]);
    expect(jobsLeft()).toEqual(["linked"]);
  });

  it("refuses a file that it cannot read, and ages of less than a day", async () => {
    job("done", 40, "COMPLETED");
    for (const rules of [{ checkpoints: { for: "1h" } }, { checkpoints: { most: "7" } }]) {
      const { code, stderr } = await house(["--file", keep(rules), "--yes"]);
      expect(code).toBe(2);
      expect(stderr).toMatch(/keep\.checkpoints|checkpoints/);
    }
    expect(jobsLeft()).toEqual(["done"]);
  });
});
