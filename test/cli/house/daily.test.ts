/** @file Collection by itself: once a day, by the rules of the file that `up` was given, and not where that says by hand; `house` shows when it was. */

import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { withLock } from "../../../agent/system/process-lock.ts";
import { collectIfDue } from "../../../cli/house/daily.ts";
import type { Session } from "../../../cli/command/session.ts";
import type { Io } from "../../../cli/terminal/io.ts";
import { fleetYaml } from "../../../domain/fleet/fleet-yaml.ts";
import { SMALL_FLEET } from "../../domain/fleet-text.ts";
import { run } from "../run.ts";
import { temporalOf, type Served } from "./served.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = Date.UTC(2027, 0, 31);
let root = "";
let stateDir = "";
let jobs: Map<string, Served>;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "orbweaver-daily-"));
  stateDir = path.join(root, "state", "f");
  mkdirSync(stateDir, { recursive: true });
  jobs = new Map();
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function checkpoint(name: string, days: number): string {
  const folder = path.join(stateDir, "jobs", name, "checkpoints");
  const atMs = NOW_MS - days * DAY_MS;
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, "step"), "x");
  utimesSync(path.join(folder, "step"), atMs / 1_000, atMs / 1_000);
  jobs.set(name, { status: "COMPLETED", closedMs: atMs });
  return folder;
}

function upGave(keep: object): void {
  const fleetFile = path.join(root, "fleet.yaml");
  writeFileSync(fleetFile, fleetYaml({ ...SMALL_FLEET, keep }));
  const state = { version: 1, fleet: "f", fleetFile, workers: [], configuredAddress: "here:7233" };
  writeFileSync(path.join(stateDir, "up.json"), JSON.stringify(state));
}

async function look(atMs: number): Promise<readonly string[]> {
  const said: string[] = [];
  const temporal = temporalOf({ fleet: "f", jobs, runs: [[{}]], lobbies: [] });
  // What a collection uses of a session and of a terminal.
  const session = {
    temporal,
    connection: {
      ...{ address: "here:7233", namespace: "default" },
      workerPayloads: { dataConverter: {} },
    },
  } as unknown as Session;
  const io = {
    cwd: root,
    nowMs: () => atMs,
    interrupted: new AbortController().signal,
  } as unknown as Io;
  await collectIfDue({ io, say: (text) => said.push(text) }, session, { fleet: "f", stateDir });
  return said;
}

const shown = async (): Promise<string> => {
  const env = { ORBWEAVER_STATE_DIR: path.join(root, "state"), ORBWEAVER_FLEET: "f" };
  return (await run(["house"], { env, nowMs: NOW_MS + HOUR_MS })).stdout;
};

describe("a fleet's folder", () => {
  it("is collected by the file's rules once a day, and `house` says when", async () => {
    upGave({ checkpoints: { for: "10d" } });
    expect(await shown()).toContain("nothing was collected here yet");
    const [first, kept] = [checkpoint("first", 20), checkpoint("kept", 5)];
    expect(await look(NOW_MS)).toEqual([expect.stringMatching(/^collected 1 thing, /)]);
    expect([existsSync(first), existsSync(kept)]).toEqual([false, true]);
    expect(await shown()).toMatch(/collected 1h\S* ago by itself: 1 thing, 0\.0 MiB/);
    const second = checkpoint("second", 20);
    expect(await look(NOW_MS + 23 * HOUR_MS)).toEqual([]);
    expect(existsSync(second)).toBe(true);
    await look(NOW_MS + DAY_MS);
    expect(existsSync(second)).toBe(false);
  });

  it("is left alone where its file says so, and where `up` has left no word of its file", async () => {
    const folder = checkpoint("old", 90);
    await look(NOW_MS);
    upGave({ automatic: false, checkpoints: { for: "10d" } });
    await look(NOW_MS);
    expect(existsSync(folder)).toBe(true);
    upGave({ automatic: true });
    await look(NOW_MS);
    expect(existsSync(folder)).toBe(false);
  });

  it("is collected once where two consoles look at once, and by nobody while `up` or `down` is at work", async () => {
    upGave({ checkpoints: { for: "10d" } });
    const folder = checkpoint("old", 20);
    await withLock(`${stateDir}.lock`, { onWait: () => undefined }, () => look(NOW_MS));
    expect(existsSync(folder)).toBe(true);
    const said = await Promise.all([look(NOW_MS), look(NOW_MS)]);
    expect(said.flat()).toEqual([expect.stringMatching(/^collected 1 thing, /)]);
    expect(existsSync(folder)).toBe(false);
  });

  it("is collected where its last collection was in a time to come", async () => {
    upGave({ checkpoints: { for: "10d" } });
    await look(NOW_MS + 365 * DAY_MS);
    const folder = checkpoint("old", 20);
    await look(NOW_MS);
    expect(existsSync(folder)).toBe(false);
  });

  it("keeps what is of jobs where another server answers", async () => {
    upGave({});
    const folder = checkpoint("old", 90);
    const state = { version: 1, fleet: "f", fleetFile: path.join(root, "fleet.yaml"), workers: [] };
    writeFileSync(
      path.join(stateDir, "up.json"),
      JSON.stringify({ ...state, configuredAddress: "elsewhere:7233" }),
    );
    await look(NOW_MS);
    expect(existsSync(folder)).toBe(true);
  });
});
