/** @file An agent's start on a machine that runs what its state folder does not know: the folder was lost, or files in it are broken. */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Containment } from "../../agent/containment/container.ts";
import { livingRuns } from "../../agent/runs/agent-host.ts";
import { endStrays } from "../../agent/runs/stray-launches.ts";
import type { LaunchFiles } from "../../agent/folder/launch-files.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { fakeAgent, ranksOn, STATE_DIR } from "./fake-host.ts";
import { FakeMachine } from "./fakes.ts";
import { eventually, folder, orderOf, removeFolders, runs, testAgent } from "./fixture.ts";
import { removeFolder } from "../support/remove-folder.ts";

afterEach(removeFolders);

const BEST = findContainment();
const MARKS: Containment = { kind: "marks" };

/** Starts a launch whose rank writes its pid once for each time it is started. */
async function started(containment: Containment) {
  const dir = folder();
  const stateDir = folder();
  const owner = `test-${process.pid}-${dir.split("-").at(-1) ?? ""}`;
  const agent = testAgent({ stateDir, containment, owner });
  const order = orderOf(`echo $$ >> ${dir}/pids; exec sleep 300`);
  const files = agent.filesOf(order);
  agent.runs.run(order).catch(() => undefined);
  const pids = (): readonly number[] =>
    existsSync(`${dir}/pids`)
      ? readFileSync(`${dir}/pids`, "utf8").trim().split("\n").map(Number)
      : [];
  await eventually(() => pids().length > 0 && agent.task.beats.at(-1)?.phase === "running");
  const next = () => testAgent({ stateDir, containment, owner });
  return { stateDir, order, files, pids, next };
}

describe.each([
  { by: "its group, where the kernel keeps one", containment: BEST },
  { by: "its marks", containment: MARKS },
])("a launch that is found by $by", ({ containment }) => {
  it("is ended when the state folder is lost, so that its job does not run twice", async () => {
    const { stateDir, order, pids, next } = await started(containment);
    const [first = 0] = pids();
    removeFolder(join(stateDir, "default"));
    const agent = next();
    const [strays] = await endStrays([agent.host]);
    // The rank and its shim.
    expect(strays?.processes).toBeGreaterThanOrEqual(2);
    // One that dies loses its environment, by which it is found, a moment before it is gone.
    await eventually(() => !runs(first));
    // Its job asks for the same lease again: it runs once.
    agent.runs.run(order).catch(() => undefined);
    const second = await eventually(() => pids()[1]);
    expect(runs(second)).toBe(true);
    expect(pids()).toHaveLength(2);
  });

  it("is adopted when the folder knows it", async () => {
    const { pids, next } = await started(containment);
    const agent = next();
    expect(await endStrays([agent.host])).toEqual([]);
    expect(runs(pids()[0] ?? 0)).toBe(true);
    expect(livingRuns(agent.host)).toHaveLength(1);
  });

  it.each([
    { file: "order", text: "" },
    { file: "order", text: '{"order":{"leas' },
    { file: "claim", text: "" },
    { file: "claim", text: '{"kind":"sh' },
  ] as const satisfies readonly { file: keyof LaunchFiles; text: string }[])(
    "is ended when its $file holds $text, and may not start again",
    async ({ file, text }) => {
      const { files, order, pids, next } = await started(containment);
      const [first = 0] = pids();
      writeFileSync(files[file], text);
      const agent = next();
      await endStrays([agent.host]);
      await eventually(() => !runs(first));
      // The agent of before is alive in this process and may have written the report by now: either answer starts nothing.
      const answer = await agent.runs
        .run(order)
        .then(({ end }) => end)
        .catch((error: unknown) => error);
      expect([answer, (answer as { readonly type?: string }).type]).toSatisfy(
        ([end, type]: readonly unknown[]) => end === "stopped" || type === "STALE_TOKEN",
      );
      expect(pids()).toHaveLength(1);
    },
  );

  it.each(["status", "plan", "container"] as const)(
    "is adopted and stopped whole when its %s is cut short",
    async (file) => {
      const { files, order, pids, next } = await started(containment);
      const [first = 0] = pids();
      writeFileSync(files[file], '{"ki');
      const agent = next();
      await endStrays([agent.host]);
      await agent.orders.stop({ ...order, isCheckpointFirst: false, reason: "cancelled" });
      await eventually(() => !runs(first));
      expect(pids()).toHaveLength(1);
    },
  );
});

describe("an agent's start", () => {
  it("spares the launches of another host and of another fleet", async () => {
    const machine = new FakeMachine();
    const agent = fakeAgent(machine);
    agent.runs.run(orderOf("train")).catch(() => undefined);
    await machine.pass(1_000);
    expect(ranksOn(machine)).toHaveLength(1);
    const other = fakeAgent(machine, { owner: "another" });
    await machine.until(endStrays([other.host]));
    expect(ranksOn(machine)).toHaveLength(1);
  });

  it("ends nothing after a reboot, whatever has the old pids", async () => {
    const machine = new FakeMachine();
    fakeAgent(machine)
      .runs.run(orderOf("train"))
      .catch(() => undefined);
    await machine.pass(1_000);
    machine.reboot();
    machine.system().files.remove(STATE_DIR);
    const agent = fakeAgent(machine);
    expect(await machine.until(endStrays([agent.host]))).toEqual([]);
  });

  it("admits no token before the fleet has said which it gave, and none that it gave before", async () => {
    const machine = new FakeMachine();
    let answer: () => void = () => undefined;
    const agent = fakeAgent(machine, {
      heal: async ({ tokens }) => {
        await new Promise<void>((resolve) => (answer = resolve));
        await tokens.heal([5, 9]);
      },
    });
    const run = (mask: number) =>
      agent.runs.run(orderOf("train", { gang: [{ host: agent.host.id, mask, address: "a" }] }));
    await expect(machine.until(run(0b1))).rejects.toMatchObject({ type: "HOST_REFUSED" });
    answer();
    await machine.pass(10);
    await expect(machine.until(run(0b10))).rejects.toMatchObject({ type: "STALE_TOKEN" });
    run(0b1).catch(() => undefined);
    await machine.pass(1_000);
    expect(ranksOn(machine)).toHaveLength(1);
  });
});
