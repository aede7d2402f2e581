/**
 * @file A backup is rehearsed: a fleet at work is copied, lost with all its state, and brought back by the commands that a user has, and a doctor finds
 * it well. Also what is refused, with nothing half done.
 */

import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, it } from "vitest";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";

const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-backup-"));
const state = path.join(folder, "state");
const cli = cliOf("kept", () => state);
const backup = path.join(folder, "backup");
const go = path.join(folder, "go");

afterAll(async () => {
  await cli("down", "--stop-jobs", "--purge");
  removeFolder(folder);
});

interface Listed {
  readonly jobs: readonly { readonly jobId: string; readonly state: string }[];
}

async function states(): Promise<Readonly<Record<string, string>>> {
  const { jobs } = JSON.parse(await cli("list", "--all", "--json")) as Listed;
  return Object.fromEntries(jobs.map((job) => [job.jobId, job.state]));
}

it("brings back the jobs that had ended, ran and waited; those of later are lost", async () => {
  await cli("up", "--isolated");
  await cli("submit", "--key", "done", "--gpus", "1", "--wait", "--", "true");
  await cli("submit", "--key", "held", "--gpus", "1", "--hold", "--", "echo", "held until then");
  const waitForGo = `until [ -e '${go}' ]; do sleep 0.2; done`;
  await cli("submit", "--key", "runs", "--gpus", "2", "--", "sh", "-c", waitForGo);
  await cli("submit", "--key", "waits", "--gpus", "8", "--", "true");
  await expect.poll(states).toMatchObject({ runs: "running" });
  const taken = JSON.parse(await cli("backup", backup, "--json")) as object;
  expect(taken).toMatchObject({ fleet: "kept", folder: backup, left: [] });
  await expect(cli("backup", backup)).rejects.toThrow(/is there already/);
  await expect(cli("restore", backup)).rejects.toThrow(/is up here. Run `orbweaver down/);
  await cli("submit", "--key", "late", "--gpus", "1", "--", "true");
  await cli("down", "--stop-jobs", "--purge");
  expect(existsSync(path.join(state, "kept"))).toBe(false);

  await cli("restore", backup, "--fleet", "kept");
  await cli("up");
  await cli("release", "held");
  writeFileSync(go, "");
  await expect
    .poll(states)
    .toEqual({ done: "completed", held: "completed", runs: "completed", waits: "completed" });
  expect(await cli("logs", "held")).toContain("held until then");
  const { gpus } = JSON.parse(await cli("fleet", "show", "--json")) as { gpus: object };
  expect(gpus).toMatchObject({ held: 0, vacating: 0 });
});

interface Doctored {
  readonly findings: readonly { readonly check: string; readonly verdict: string }[];
}

it("a doctor finds no problem then, and names what was made wrong", async () => {
  const look = async (): Promise<Readonly<Record<string, string>>> => {
    const { findings } = JSON.parse(await cli("doctor", "--json")) as Doctored;
    return Object.fromEntries(findings.map(({ check, verdict }) => [check, verdict]));
  };
  const sound = await look();
  expect(Object.values(sound)).not.toContain("problem");
  expect(sound).toMatchObject({
    ...{ server: "ok", authorisation: "warning", clock: "ok", "search attributes": "ok" },
    ...{ fleet: "ok", workers: "ok", agents: "ok", trust: "ok", files: "ok" },
  });
  await cli("drain", "local/node1");
  chmodSync(path.join(state, "kept", "history.db"), 0o644);
  expect(await look()).toMatchObject({ agents: "warning", files: "warning" });
  await cli("undrain", "local/node1");
});

it("refuses another fleet's backup, a damaged one, and a state that is there; then nothing has changed", async () => {
  await cli("down");
  const kept = path.join(state, "kept");
  const before = readdirSync(kept).sort();
  await expect(cli("restore", backup)).rejects.toThrow(/has a state of fleet kept. Add --force/);
  await expect(cli("restore", backup, "--fleet", "other")).rejects.toThrow(/is of fleet kept/);
  await expect(cli("restore", state)).rejects.toThrow(/is no backup: its backup.json/);
  const damaged = path.join(folder, "damaged");
  cpSync(backup, damaged, { recursive: true });
  appendFileSync(path.join(damaged, "temporal.db"), "x");
  await expect(cli("restore", damaged, "--force")).rejects.toThrow(
    /temporal.db is not as it was written. .* nothing was restored/,
  );
  rmSync(path.join(damaged, "temporal.db"));
  await expect(cli("restore", damaged, "--force")).rejects.toThrow(/temporal.db is missing/);
  expect(readdirSync(kept).sort()).toEqual(before);
  const launches = path.join(kept, "hosts");
  const hosts = readdirSync(launches);
  const { aside } = JSON.parse(await cli("restore", backup, "--force", "--json")) as {
    aside: string;
  };
  expect(readdirSync(aside)).toEqual(
    expect.arrayContaining(["history.db", "temporal.db", "up.json"]),
  );
  // What runs on the hosts is theirs.
  expect(readdirSync(launches)).toEqual(hosts);
  mkdirSync(path.join(kept, ".restoring"));
  await expect(cli("up")).rejects.toThrow(/a restore of fleet kept was not finished/);
  await cli("restore", backup, "--force");
});
