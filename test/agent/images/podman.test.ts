/**
 * @file Launches in an image of podman's, with real supervisors, containers and processes. The image is made by hand, in a store of the test's own. Skipped
 * by name where podman, its init or crun is not installed, or may not run.
 *
 * crun refuses machines on which both versions of cgroups are mounted with controllers; there podman runs in a mount namespace without version 2. The
 * processes are in the launch's groups all the same.
 */

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { groupsOf, readContainer } from "../../../agent/containment/container.ts";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { findContainment } from "../../../agent/system/find-containment.ts";
import { nodeImages } from "../../../agent/system/node-images.ts";
import type { Images } from "../../../agent/ports/images.ts";
import type { ImageRule } from "../../../domain/job/job-image.ts";
import { ms } from "../../../domain/values/units.ts";
import { builtNative, eventually, folder, orderOf, outputOf } from "../fixture.ts";
import { removeFolders, stopOf, testAgent, type AgentSetup } from "../fixture.ts";
import { execBeside, makeRoot } from "./image-root.ts";

const IMAGE = "localhost/orbweaver-test:1";
const UNIFIED = "/sys/fs/cgroup/unified";
/** Seconds that no other process of the machine sleeps. */
const TAG = `4322.${process.pid}`;

/** Where `path` has a podman that can run here, if there is any. */
function podmanPath(): string {
  const path = process.env["PATH"] ?? "";
  const [real] = path.split(":").filter((dir) => existsSync(join(dir, "podman")));
  if (real === undefined || !existsSync(UNIFIED)) return path;
  const dir = folder();
  const own = `exec unshare --mount --propagation private sh -c 'umount ${UNIFIED} && exec ${real}/podman "$@"' podman "$@"\n`;
  writeFileSync(join(dir, "podman"), `#!/bin/sh\n${own}`);
  chmodSync(join(dir, "podman"), 0o755);
  return `${dir}:${path}`;
}

function storeIn(dir: string): string {
  const file = join(dir, "storage.conf");
  for (const name of ["graph", "run"]) mkdirSync(join(dir, name));
  writeFileSync(
    file,
    `[storage]\ndriver = "vfs"\ngraphroot = "${dir}/graph"\nrunroot = "${dir}/run"\n`,
  );
  return file;
}

const store = folder();
const env = { PATH: podmanPath(), CONTAINERS_STORAGE_CONF: storeIn(store) };
const images: Images = nodeImages({ env: { ...process.env, ...env }, native: builtNative() });
const podman = images.tools.find(({ runtime }) => runtime === "podman");

function sleeping(): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return readFileSync(`/proc/${name}/cmdline`, "latin1").endsWith(`sleep\0${TAG}\0`);
    } catch {
      return false;
    }
  });
}

const ruleOf = (change: Partial<ImageRule> = {}): ImageRule => ({
  ...{ image: IMAGE, runtime: "podman", mounts: [], user: "host", pullTimeoutMs: ms(60_000) },
  ...change,
});
const inImage = (line: string, change: Partial<ImageRule> = {}) =>
  orderOf(line, {
    prepareTimeoutMs: 60_000,
    run: { container: ruleOf(change), graceMs: ms(60_000) },
  });
const agentOf = (setup: AgentSetup = {}) =>
  testAgent({ images, env, containment: findContainment(), ...setup });

afterAll(removeFolders);

describe.skipIf(podman === undefined)("in an image (needs podman, catatonit and crun)", () => {
  beforeAll(() => {
    const root = makeRoot();
    const tar = join(folder(), "image.tar");
    execFileSync("tar", ["-C", root, "-cf", tar, "."]);
    execFileSync(podman?.path ?? "", ["import", tar, IMAGE], {
      env: { ...process.env, ...env },
      stdio: "ignore",
    });
  });

  it("a rank sees the image, its own variables and folders, and keeps to the launch's limits", async () => {
    const data = folder();
    writeFileSync(join(data, "rows"), "of the host\n");
    const agent = agentOf({ env: { ...env, http_proxy: "http://proxy:3128" } });
    const order = inImage(
      [
        `cat /etc/name ${data}/rows`,
        'echo "rank $RANK of $ORBWEAVER_JOB_ID${http_proxy}${CONTAINERS_STORAGE_CONF}"',
        '[ "$HOME" = "$PWD" ] && echo at home',
        'echo kept > "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/file"',
        `touch ${data}/rows 2>/dev/null || echo read-only`,
        "[ -e /root ] || echo no root",
        `[ "$(ulimit -n)" = ${images.limits.openFiles} ] && echo few files`,
        "grep CapEff /proc/self/status",
        "[ $$ -lt 20 ] && echo few processes",
      ].join("\n"),
      { mounts: [{ source: data, target: data, isReadOnly: true }] },
    );
    const report = await agent.runs.run(order);
    expect(await outputOf(agent, order)).toBe(
      [
        ...["of the image", "of the host", `rank 0 of ${order.jobId}`, "at home", "read-only"],
        ...["no root", "few files", "CapEff:\t0000000000000000", "few processes", ""],
      ].join("\n"),
    );
    expect(report).toMatchObject({ end: "completed" });
    expect(execFileSync("find", [agent.stateDir, "-name", "file"], { encoding: "utf8" })).toMatch(
      /\/file\n$/,
    );
  });

  it.each([
    ["exit 7", 7],
    ["exec no-such-program", 127],
    ["kill -KILL $$", 137],
  ])("`%s` ends the run with code %i", async (line, exitCode) => {
    const report = await agentOf().runs.run(inImage(line));
    expect(report).toMatchObject({ end: "failed", cause: { code: "PROCESS_EXITED", exitCode } });
  });

  it("a command that the image does not have ends the run with code 127", async () => {
    const order = inImage("");
    const run = { ...order.run, command: ["no-such-program"] };
    expect(await agentOf().runs.run({ ...order, run })).toMatchObject({
      cause: { code: "PROCESS_EXITED", exitCode: 127 },
    });
  });

  it("a command beside a rank starts in the image, with the rank's variables and its own status", async () => {
    const agent = agentOf();
    const shared = folder();
    const order = inImage(`touch ${shared}/up; until [ -e ${shared}/go ]; do sleep 0.05; done`, {
      mounts: [{ source: shared, target: shared, isReadOnly: false }],
    });
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(shared, "up")));
    const line = 'cat /etc/name; echo "rank $RANK"; exit 7';
    expect(await execBeside(agent, order, ["sh", "-c", line])).toEqual({
      said: "of the image\nrank 0\n",
      exit: { exitCode: 7 },
    });
    writeFileSync(join(shared, "go"), "");
    expect(await running).toMatchObject({ end: "completed" });
  });

  it("a stop gives the program its grace, and leaves nothing behind", async () => {
    const agent = agentOf();
    const shared = folder();
    const order = inImage(
      [
        `trap 'touch ${shared}/told; until [ -e ${shared}/go ]; do sleep 0.05; done; exit 3' TERM`,
        `env -i /bin/setsid /bin/sleep ${TAG} &`,
        `touch ${shared}/up`,
        "while :; do sleep 0.05; done",
      ].join("\n"),
      { mounts: [{ source: shared, target: shared, isReadOnly: false }] },
    );
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(shared, "up")) && sleeping().length === 1);
    const [group] = groupsOf(readContainer(nodeSystem.files, agent.filesOf(order)));
    if (group !== undefined) expect(nodeSystem.groups.pids(group)).toContain(Number(sleeping()[0]));
    const stopping = agent.orders.stop(stopOf(order));
    await eventually(() => existsSync(join(shared, "told")));
    writeFileSync(join(shared, "go"), "");
    expect(await stopping).toMatchObject({ hadProcesses: true });
    expect(await running).toMatchObject({ end: "stopped" });
    expect(sleeping()).toEqual([]);
  });

  it("a signal for a checkpoint reaches the program", async () => {
    const agent = agentOf();
    const shared = folder();
    const plain = inImage(
      [
        `trap 'd=$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/1; mkdir -p $d; touch $d/COMPLETE; exit 0' USR1`,
        `touch ${shared}/up`,
        "while :; do sleep 0.05; done",
      ].join("\n"),
      { mounts: [{ source: shared, target: shared, isReadOnly: false }] },
    );
    const checkpoint = {
      order: { kind: "signal", signal: "SIGUSR1" },
      graceMs: ms(60_000),
    } as const;
    const order = { ...plain, run: { ...plain.run, checkpoint } };
    const running = agent.runs.run(order);
    await eventually(() => existsSync(join(shared, "up")));
    await agent.orders.checkpoint(order);
    expect(await running).toMatchObject({ end: "completed" });
  });

  it("an image that is nowhere is refused by the host's name, and nothing is started", async () => {
    const order = inImage("true", { image: "localhost/no-such-image:1" });
    await expect(agentOf().runs.run(order)).rejects.toMatchObject({
      type: "IMAGE_UNAVAILABLE",
      message: expect.stringContaining("eu-1/host-1 cannot get the image") as string,
    });
  });
});
