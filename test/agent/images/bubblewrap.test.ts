/**
 * @file Launches in an unpacked root by bubblewrap, with real supervisors and processes. Skipped by name where `bwrap` is not installed or may make no
 * namespaces, and in the project without the native supervisor.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findContainment } from "../../../agent/system/find-containment.ts";
import { nodeImages } from "../../../agent/system/node-images.ts";
import type { ImageRule } from "../../../domain/job/job-image.ts";
import { ms } from "../../../domain/values/units.ts";
import { builtNative, eventually, folder, orderOf, outputOf } from "../fixture.ts";
import { removeFolders, stopOf, testAgent } from "../fixture.ts";
import { execBeside, makeRoot } from "./image-root.ts";

/** Seconds that no other process of the machine sleeps. */
const TAG = `4321.${process.pid}`;

function sleeping(): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return readFileSync(`/proc/${name}/cmdline`, "latin1").endsWith(`/bin/sleep\0${TAG}\0`);
    } catch {
      return false;
    }
  });
}

const images = nodeImages({ env: process.env, native: builtNative() });
const hasBubblewrap = images.tools.some(({ runtime }) => runtime === "bubblewrap");
let image = "";

const ruleOf = (change: Partial<ImageRule> = {}): ImageRule => ({
  ...{ image, runtime: "auto", mounts: [], user: "host", pullTimeoutMs: ms(1_000) },
  ...change,
});
const inImage = (line: string, change: Partial<ImageRule> = {}) =>
  orderOf(line, { run: { container: ruleOf(change), graceMs: ms(60_000) } });

beforeEach(() => {
  image = makeRoot();
});
afterEach(removeFolders);

describe.skipIf(!hasBubblewrap)("in an image (needs bubblewrap)", () => {
  it("a rank sees the image, its own variables and folders, and nothing else of the host", async () => {
    const data = folder();
    writeFileSync(join(data, "rows"), "of the host\n");
    const agent = testAgent({ images });
    const order = inImage(
      [
        `cat /etc/name ${data}/rows`,
        'echo "rank $RANK of $ORBWEAVER_JOB_ID, $PATH"',
        '[ "$HOME" = "$(env pwd 2>/dev/null || echo "$PWD")" ] && echo at home',
        'echo kept > "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/file"',
        `touch ${data}/rows 2>/dev/null || echo read-only`,
        "[ -e /root ] || echo no root",
        'echo "$(ls /proc | while read n; do [ -d /proc/$n/task ] && echo $n; done)" | while read n; do echo "$n"; done > /tmp/pids',
        "[ $$ -lt 20 ] && echo few processes",
      ].join("\n"),
      { mounts: [{ source: data, target: data, isReadOnly: true }] },
    );
    const report = await agent.runs.run(order);
    expect(await outputOf(agent, order)).toBe(
      [
        ...["of the image", "of the host"],
        `rank 0 of ${order.jobId}, /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
        ...["at home", "read-only", "no root", "few processes", ""],
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
    const report = await testAgent({ images }).runs.run(inImage(line));
    expect(report).toMatchObject({ end: "failed", cause: { code: "PROCESS_EXITED", exitCode } });
  });

  it("`user: root` is root of a user namespace, without a capability of the host", async () => {
    const agent = testAgent({ images });
    const order = inImage("id -u; cat /proc/self/uid_map", { user: "root" });
    expect(await agent.runs.run(order)).toMatchObject({ end: "completed" });
    const ids = await outputOf(agent, order);
    expect(ids).toMatch(/^0\n +0 +\d+ +1\n$/);
  });

  it.each([
    ["marks alone", undefined],
    ["the best container here", findContainment()],
  ])(
    "a stop gives the program its grace, and leaves nothing behind under %s",
    async (_kind, best) => {
      const agent = testAgent({ images, ...(best !== undefined && { containment: best }) });
      const shared = folder();
      const order = inImage(
        [
          `trap 'echo told; touch ${shared}/told; until [ -e ${shared}/go ]; do sleep 0.05; done; exit 3' TERM`,
          `env -i /bin/setsid /bin/sleep ${TAG} &`,
          `touch ${shared}/up`,
          "while :; do sleep 0.05; done",
        ].join("\n"),
        { mounts: [{ source: shared, target: shared, isReadOnly: false }] },
      );
      const running = agent.runs.run(order);
      await eventually(() => existsSync(join(shared, "up")) && sleeping().length === 1);
      const stopping = agent.orders.stop(stopOf(order));
      await eventually(() => existsSync(join(shared, "told")));
      writeFileSync(join(shared, "go"), "");
      expect(await stopping).toMatchObject({ hadProcesses: true });
      expect(await running).toMatchObject({ end: "stopped" });
      // Once, and the rest is the shell's word on its own child.
      expect((await outputOf(agent, order)).match(/told/g)).toHaveLength(1);
      expect(sleeping()).toEqual([]);
    },
  );

  it("a command beside a rank starts in the image, with the rank's variables and its own status", async () => {
    const agent = testAgent({ images, containment: findContainment() });
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

  it("a signal for a checkpoint reaches the program, and not the runtime", async () => {
    const agent = testAgent({ images });
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
});

it("a host without a runtime for the image refuses it by name", async () => {
  const refused = testAgent().runs.run(inImage("true"));
  await expect(refused).rejects.toMatchObject({
    type: "HOST_REFUSED",
    message: expect.stringMatching(
      /eu-1\/host-1 refuses .* needs bubblewrap, apptainer there/,
    ) as string,
  });
});
