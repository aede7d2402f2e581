/** @file What an agent's heartbeats tell of the use of its GPUs, on a clock of the test. */

import { expect, it } from "vitest";
import { LOOK_EVERY_MS, watchGpuUse } from "../../../agent/telemetry/gpu-use.ts";
import { parseHostId } from "../../../domain/values/ids.ts";
import { FakeMachine } from "../fakes.ts";

const HOST = parseHostId("eu/a");

function watched(
  answers: { driver?: string | Error | undefined; tensor?: string | undefined },
  uuids: readonly string[] = [],
) {
  const machine = new FakeMachine();
  const closing = new AbortController();
  let asked = 0;
  const beat = watchGpuUse({
    clock: machine.system().clock,
    closing: closing.signal,
    hosts: [{ id: HOST, gpuCount: 2 }],
    uuidsOf: () => uuids,
    askDriver: () => {
      asked += 1;
      const { driver } = answers;
      return driver instanceof Error ? Promise.reject(driver) : Promise.resolve(driver);
    },
    askTensor: () => Promise.resolve(answers.tensor),
  });
  const pass = async (looks: number): Promise<void> => {
    for (let look = 0; look < looks; look += 1) await machine.pass(LOOK_EVERY_MS);
  };
  return { beat, pass, asked: () => asked, close: () => closing.abort() };
}

it("is the mean of the last half minute, with the time for which each GPU was idle", async () => {
  const answers = { driver: "90, 100, 1000, 600\n0, 0, 1000, 70\n", tensor: "GPU 0   0.4\n" };
  const { beat, pass, close } = watched(answers);
  await pass(4);
  expect(beat()?.use[HOST]).toEqual([
    { use: 0.9, idleMs: 0, memoryMiB: 100, memoryOfMiB: 1_000, watts: 600, tensor: 0.4 },
    expect.objectContaining({ use: 0, idleMs: expect.closeTo(4 * LOOK_EVERY_MS, -4) as number }),
  ]);
  answers.driver = "0, 100, 1000, 600\n4, 0, 1000, 70\n";
  await pass(1);
  expect(beat()?.use[HOST]?.[0]).toMatchObject({ use: 0.6, idleMs: LOOK_EVERY_MS });
  answers.driver = "0, 100, 1000, 600\n5, 0, 1000, 70\n";
  await pass(1);
  expect(beat()?.use[HOST]?.[1]?.idleMs).toBe(0);
  close();
});

it("says nothing of a machine without a driver, which is asked rarely", async () => {
  const { beat, pass, asked, close } = watched({});
  await pass(12);
  expect(beat()).toBeUndefined();
  expect(asked()).toBe(1);
  close();
});

it("counts no time as idle in which nobody looked", async () => {
  const answers: { driver: string | Error } = { driver: "0, 1, 2, 3\n" };
  const { beat, pass, close } = watched(answers);
  const idleMs = () => beat()?.use[HOST]?.[0]?.idleMs;
  await pass(4);
  const before = idleMs() ?? 0;
  expect(before).toBeGreaterThanOrEqual(3 * LOOK_EVERY_MS);
  answers.driver = new Error("hangs");
  await pass(3);
  answers.driver = "0, 1, 2, 3\n";
  await pass(1);
  expect(idleMs()).toBe(before + 4 * LOOK_EVERY_MS);
  answers.driver = new Error("hangs");
  await pass(12);
  answers.driver = "0, 1, 2, 3\n";
  await pass(1);
  expect(idleMs()).toBe(0);
  await pass(1);
  expect(idleMs()).toBe(LOOK_EVERY_MS);
  close();
});

it("says nothing more once the driver has been silent for a minute", async () => {
  const answers: { driver: string | Error } = { driver: "50, 1, 2, 3\n" };
  const { beat, pass, close } = watched(answers);
  await pass(1);
  expect(beat()?.use[HOST]).toHaveLength(1);
  answers.driver = new Error("hangs");
  await pass(7);
  expect(beat()).toBeUndefined();
  close();
});

it("goes by the ids of the host's GPUs, so that one that is gone moves no other", async () => {
  const answers = { driver: "90, 1, 9, 6, GPU-b\n10, 1, 9, 6, GPU-a\n", tensor: undefined };
  const { beat, pass, close } = watched(answers, ["GPU-a", "GPU-b"]);
  await pass(1);
  const used = () => beat()?.use[HOST]?.map((each) => each?.use);
  expect(used()).toEqual([0.1, 0.9]);
  answers.driver = "70, 1, 9, 6, GPU-b\n";
  await pass(1);
  expect(used()).toEqual([undefined, 0.833]);
  close();
});
