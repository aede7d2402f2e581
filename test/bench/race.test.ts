/** @file The race with another scheduler: rows without figures say why, and the throw-away root leaves nothing behind. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { runRace } from "../../bench/race/run.ts";
import { DEFAULTS, installSlurm } from "../../bench/race/slurm.ts";
import { slurmContestant } from "../../bench/race/slurm-races.ts";
import { openThrowawayRoot } from "../../bench/race/throwaway-root.ts";
import { benchRequest } from "../support/bench-request.ts";

const REQUEST = benchRequest();
const isRoot = process.getuid?.() === 0;

afterEach(() => {
  vi.restoreAllMocks();
});

describe("bench race slurm", () => {
  test("has a row for every race, without a figure and with the reason, where it may not be run", async () => {
    vi.spyOn(process as { getuid: () => number }, "getuid").mockReturnValue(1_000);
    const { bars } = await runRace(REQUEST);
    expect(bars.map(({ id }) => id)).toContain("preempt-time-best");
    expect(bars).toHaveLength(30);
    expect(bars.every(({ got, holds }) => got === null && !holds)).toBe(true);
    expect(bars[0]?.note).toBe("not measured: a throw-away root needs root");
  });

  test("takes no time of Slurm's for one when a script of it fails", async () => {
    const contestant = slurmContestant({
      settings: DEFAULTS,
      run: () => Promise.reject(new Error("Slurm completed 49 of 50")),
      stop: () => Promise.resolve(),
    });
    await expect(contestant.array(50)).rejects.toThrow("49 of 50");
    const silent = slurmContestant({
      settings: DEFAULTS,
      run: () => Promise.resolve(""),
      stop: () => Promise.resolve(),
    });
    await expect(silent.start()).rejects.toThrow("no time");
  });

  test("says that a machine without Debian's packages has no Slurm", async () => {
    const root = {
      run: () => Promise.reject(new Error("there is no apt-get")),
      close: () => Promise.resolve(),
    };
    await expect(installSlurm(root)).rejects.toThrow("there is no apt-get");
  });
});

describe.skipIf(!isRoot)("a throw-away root", () => {
  test("keeps what is written to it from the machine, but for the shared folder, and ends its processes", async () => {
    const dir = await mkdtemp(join(tmpdir(), "orbweaver-root-test-"));
    try {
      const root = await openThrowawayRoot(dir);
      const file = `/etc/orbweaver-throwaway-${String(process.pid)}`;
      await root.run(`echo here > ${file}; echo given > ${dir}/shared/given`);
      expect((await root.run(`cat ${file}`)).trim()).toBe("here");
      expect(existsSync(file)).toBe(false);
      expect(await readFile(join(dir, "shared/given"), "utf8")).toBe("given\n");
      // 1 is the root's own first process; a daemon's process id inside says nothing outside, its command line does.
      const mark = `86400.${String(process.pid)}`;
      await root.run(`setsid sleep ${mark} >/dev/null 2>&1 < /dev/null &`);
      await expect(root.run("echo gone wrong >&2; exit 3")).rejects.toThrow("gone wrong");
      await root.close();
      const running = execFileSync("ps", ["-eo", "args"]).toString("utf8");
      expect(running).not.toContain(`sleep ${mark}`);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});
