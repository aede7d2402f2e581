/** @file Launches and the ids of their GPUs: two never run on one GPU, though an agent finds the machine's GPUs in other places than the one before. */
import { afterEach, expect, it } from "vitest";
import { placesOf } from "../../../agent/runs/own-gpus.ts";
import { token } from "../../../domain/values/ids.ts";
import { HOST, orderOf, removeFolders, stopOf, testAgent } from "../fixture.ts";

afterEach(removeFolders);

const GONE = { isGone: true } as const;
const gpusOf = (...names: readonly string[]) =>
  names.map((name, index) => ({ index, uuid: `GPU-${name}`, nodes: [], devices: [] }));
const onGpu = (gpu: number, count: number, line = "sleep 3600") =>
  orderOf(line, {
    token: token(count),
    gang: [{ host: HOST, mask: 2 ** gpu, address: "10.0.0.1" }],
  });

it("a launch on the GPU of one that runs on is refused by name, and starts when that has ended", async () => {
  const first = testAgent({ gpus: gpusOf("a", "b", "c") });
  const runs = onGpu(2, 5);
  const report = first.runs.run(runs);
  await expect.poll(() => first.task.beats.some((beat) => beat?.phase === "running")).toBe(true);
  // GPU b is gone.
  const next = testAgent({ stateDir: first.stateDir, gpus: gpusOf("a", "c") });
  const moved = onGpu(1, 6, "echo $CUDA_VISIBLE_DEVICES");
  await expect(next.runs.run(moved)).rejects.toMatchObject({
    type: "HOST_REFUSED",
    message: expect.stringMatching(/lease-5 still has GPU-c there/) as string,
  });
  expect(await next.runs.run(onGpu(0, 7, "true"))).toMatchObject({ end: "completed" });
  await next.orders.stop(stopOf(runs));
  await report;
  expect(await next.runs.run(onGpu(1, 8, "true"))).toMatchObject({ end: "completed" });
});

it("a launch on a GPU that is gone is refused by its id, and faults are those of the launch that has the GPU's id", async () => {
  const gpus = gpusOf("a", "b").map((gpu) => ({ ...gpu, ...(gpu.index === 0 && GONE) }));
  const agent = testAgent({ gpus });
  await expect(agent.runs.run(onGpu(0, 5, "true"))).rejects.toMatchObject({
    type: "HOST_REFUSED",
    message: expect.stringMatching(
      /names GPU 0, and the machine no longer shows it \(GPU-a\)/,
    ) as string,
  });
  const order = onGpu(1, 6);
  const host = { gpus: gpusOf("b", "c") };
  expect(placesOf(host, { order, gpuUuids: ["GPU-b"] })).toEqual([0]);
  expect(placesOf(host, { order, gpuUuids: ["GPU-x"] })).toEqual([]);
  expect(placesOf(host, { order })).toEqual([1]);
  expect(placesOf({}, { order, gpuUuids: ["GPU-b"] })).toEqual([1]);
});

it("a launch on a GPU that the machine does not show is refused, and gets no index", async () => {
  const agent = testAgent({ gpus: gpusOf("a", "b") });
  await expect(agent.runs.run(onGpu(2, 5, "true"))).rejects.toMatchObject({
    type: "HOST_REFUSED",
    message: expect.stringContaining("the lease names GPU 2, and the machine shows 2") as string,
  });
  expect(await agent.runs.run(onGpu(1, 6, "true"))).toMatchObject({ end: "completed" });
});
