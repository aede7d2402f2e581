/** @file State folders on real disks that are full or read-only: small file systems in memory, mounted as root; skipped where that is not allowed. */
import { execFileSync, spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { rankDir } from "../../agent/folder/launch-files.ts";
import { lastLines } from "../../agent/shim/log-reader.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import {
  eventually,
  folder,
  orderOf,
  pidIn,
  removeFolders,
  runs,
  stopOf,
  testAgent,
} from "./fixture.ts";

const mounted: string[] = [];

function unmountAll(): void {
  for (const dir of mounted.splice(0)) spawnSync("umount", ["--lazy", dir]);
}

afterEach(() => {
  unmountAll();
  removeFolders();
});

/** A file system of this size; undefined where none may be mounted. */
function smallDisk(mebibytes: number): string | undefined {
  const dir = folder();
  const done = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${mebibytes}m`, "tmpfs", dir]);
  if (done.status !== 0) return undefined;
  mounted.push(dir);
  return dir;
}

const mayMount = ((): boolean => {
  const disk = smallDisk(1);
  unmountAll();
  removeFolders();
  return disk !== undefined;
})();

const diskOf = (mebibytes: number): string => smallDisk(mebibytes) ?? "/no/disk";

/** Until not one byte more is taken. */
function fill(dir: string): string {
  const file = join(dir, "filler");
  spawnSync("dd", ["if=/dev/zero", `of=${file}`, "bs=64k"], { stdio: "ignore" });
  spawnSync("dd", ["if=/dev/zero", `of=${join(dir, "crumbs")}`, "bs=1"], { stdio: "ignore" });
  return file;
}

describe.skipIf(!mayMount)("with its state on a real disk", () => {
  it("that fills up, a launch that prints runs on, is stopped to its last process, and tells its end once there is room", async () => {
    const dir = folder();
    const disk = diskOf(16);
    const agent = testAgent({ stateDir: disk, minFreeBytes: 2 ** 20 });
    const order = orderOf(
      `echo $$ > ${dir}/pid; while :; do echo a line of some length; sleep 0.01; done`,
    );
    const running = agent.runs.run(order).then(
      (report) => report.end,
      () => "no report",
    );
    const pid = await pidIn(join(dir, "pid"));
    const filler = fill(disk);
    await new Promise((wake) => setTimeout(wake, 500));
    expect(runs(pid)).toBe(true);
    // The note of a stop may find no room, and the order says so; a kill needs none.
    await agent.orders.stop(stopOf(order)).catch(() => undefined);
    rmSync(filler);
    await agent.orders.stop(stopOf(order));
    expect(runs(pid)).toBe(false);
    expect(["stopped", "no report"]).toContain(await running);
  });

  it("that is full when a launch ends, the end is told once there is room, and the log says what was lost", async () => {
    const dir = folder();
    const disk = diskOf(16);
    const agent = testAgent({ stateDir: disk, minFreeBytes: 2 ** 20 });
    const order = orderOf(
      `echo first; echo $$ > ${dir}/pid; until [ -e ${dir}/go ]; do sleep 0.01; done; head -c 20000 /dev/zero | tr '\\0' x`,
    );
    const said = () => lastLines(nodeSystem.files, rankDir(agent.filesOf(order).dir, 0), 200);
    const running = agent.runs.run(order);
    const pid = await pidIn(join(dir, "pid"));
    await eventually(() => said() !== "");
    const filler = fill(disk);
    writeFileSync(join(dir, "go"), "");
    await eventually(() => !runs(pid));
    rmSync(filler);
    expect(await running).toMatchObject({ end: "completed" });
    expect(said()).toMatch(/^\[orbweaver: \d{5} bytes were lost, the disk did not take them\]\n$/);
  });

  it("that is full, an agent starts nothing, by name", async () => {
    const disk = diskOf(4);
    const agent = testAgent({ stateDir: disk, minFreeBytes: 2 ** 20 });
    fill(disk);
    await expect(agent.runs.run(orderOf("echo"))).rejects.toMatchObject({ type: "HOST_REFUSED" });
  });

  it("that is read-only, an agent starts nothing, and starts it once the disk takes writes again", async () => {
    const dir = folder();
    const disk = diskOf(8);
    const agent = testAgent({ stateDir: disk, minFreeBytes: 2 ** 20 });
    writeFileSync(join(disk, "used"), "");
    execFileSync("mount", ["-o", "remount,ro", disk]);
    const order = orderOf(`touch ${dir}/started`);
    await expect(agent.runs.run(order)).rejects.toMatchObject({ type: "HOST_REFUSED" });
    execFileSync("mount", ["-o", "remount,rw", disk]);
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
  });
});
