/** @file The plan that a served job is given: for its GPUs, as a file that its host reads; what is said when there is none. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { inferenceProviderOver } from "../../../activities/launch-extras/inference.ts";
import { planAnew } from "../../../activities/launch-extras/kept-plans.ts";
import type { LaunchExtrasOrder } from "../../../protocol/launch-extras-contract.ts";
import { parseNvidiaSmiTopo } from "../../../domain/bandwidth/parse-nvidia-smi.ts";
import type { FleetShape, HostShape } from "../../../domain/fleet/fleet.ts";
import { clusterId, jobId, parseHostId } from "../../../domain/values/ids.ts";
import { gib, watts } from "../../../domain/values/units.ts";
import { parseJobFile } from "../../../domain/job/job-file.ts";
import { parseServingPlan } from "../../../domain/model/serving-plan.ts";
import { branchySample } from "../../../models/onnx/onnx-samples.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-outfit-"));
afterAll(() => rmSync(folder, { recursive: true }));
writeFileSync(join(folder, "m.onnx"), branchySample({ side: 8, width: 4, depth: 1, blocks: 1 }));
writeFileSync(join(folder, "broken.onnx"), "no model");

const orderOf = (model: string, mask: number): LaunchExtrasOrder => {
  const read = parseJobFile({
    name: "s",
    class: "inference",
    model,
    gang: 2,
    run: { workdir: folder },
  });
  if (read.kind === "refused") throw new Error("refused");
  return {
    fleetWorkflowId: "f",
    jobId: jobId("j"),
    spec: read.spec,
    gpus: [{ host: parseHostId("a/b"), mask }],
    attempt: 1,
    parts: ["inference"],
  };
};
const CLUSTER = {
  id: clusterId("a"),
  site: "here",
  jurisdiction: "EU",
  isSimulated: true,
  hosts: [hostOfType("V100")],
};
const shapeOf = (gpuType: string): FleetShape => ({
  clusters: [{ ...CLUSTER, hosts: [hostOfType(gpuType)] }],
  links: [],
  tenants: [],
});

function hostOfType(gpuType: string): HostShape {
  return {
    id: parseHostId("a/b"),
    gpuType,
    gpuCount: 4,
    gpuMemoryGiB: gib(16),
    gpuWatts: watts(300),
  };
}

/** GPU0 and GPU1 behind one switch, GPU2 and GPU3 behind another; NVLink between GPU1 and GPU2. */
const MATRIX = `\tGPU0\tGPU1\tGPU2\tGPU3
GPU0\t X \tPIX\tSYS\tSYS
GPU1\tPIX\t X \tNV2\tSYS
GPU2\tSYS\tNV2\t X \tPIX
GPU3\tSYS\tSYS\tPIX\t X 
`;
const matrix = parseNvidiaSmiTopo(MATRIX, { source: "topo" });
const topology = matrix.kind === "parsed" ? matrix.topology : undefined;

const provide = (
  order: LaunchExtrasOrder,
  { gpuType = "V100", isMeasured = true }: { gpuType?: string; isMeasured?: boolean } = {},
) =>
  inferenceProviderOver({
    topologyOf: async () => (isMeasured ? topology : undefined),
    planModel: planAnew,
  }).provide(order, shapeOf(gpuType), AbortSignal.timeout(60_000));

describe("the plan of a served model", () => {
  it.each([
    [0b11, 2],
    [0b100, 1],
  ])("is for the GPUs of the lease: mask %i", async (mask, gpus) => {
    const launchExtras = await provide(orderOf("m.onnx", mask));
    expect(launchExtras?.env).toEqual({ ORBWEAVER_SERVING_PLAN: "{files}/serving-plan.json" });
    const [file] = launchExtras?.files ?? [];
    const read = parseServingPlan(file?.text ?? "", { file: file?.name ?? "" });
    expect(read).toMatchObject({ kind: "parsed", plan: { gpus, model: { name: "m" } } });
    expect(launchExtras?.message).toMatch(/a request expected$/);
  });

  it.each([
    [0b0011, [["GPU0", "GPU1"]], []],
    [0b0110, [["GPU1"], ["GPU2"]], [{ kind: "nvlink", pairs: [] }]],
    [0b1110, [["GPU1"], ["GPU2", "GPU3"]], [{ kind: "nvlink", pairs: ["GPU1-GPU2"] }]],
  ])("is made over their buses and NVLinks, too: mask %i", async (mask, behind, nvlinks) => {
    const onGpus = (await provide(orderOf("m.onnx", mask)))?.onGpus;
    expect(onGpus?.host).toBe("a/b");
    expect(onGpus?.buses.map(({ gpus }) => gpus)).toEqual(behind);
    expect(onGpus?.ways.filter(({ kind }) => kind === "nvlink")).toMatchObject(nvlinks);
    expect(onGpus?.lowerBoundMs).toBeLessThanOrEqual(onGpus?.simulatedMs ?? 0);
    const operations = onGpus?.gpus.reduce((sum, gpu) => sum + gpu.operations, 0);
    expect(operations).toBeGreaterThan(0);
  });

  it("says what it assumes of a host without a matrix", async () => {
    const found = await provide(orderOf("m.onnx", 0b11), { isMeasured: false });
    expect(found?.message).toMatch(/assumed, .*: a PCIe bus for each GPU, no NVLink$/);
    expect(found?.onGpus).toMatchObject({
      ways: [],
      buses: [{ gpus: ["GPU0"] }, { gpus: ["GPU1"] }],
    });
  });

  it("says why there is none over GPUs of unknown speed", async () => {
    const found = await provide(orderOf("m.onnx", 0b11), { gpuType: "X9" });
    expect(found?.message).toMatch(/no plan over the GPUs: the speed of GPU type X9 is not known/);
    expect(found).not.toHaveProperty("onGpus");
  });

  it("is made even if the fleet does not say what the host is", async () => {
    const ports = {
      topologyOf: () => Promise.reject(new Error("no answer")),
      planModel: planAnew,
    };
    const signal = AbortSignal.timeout(60_000);
    const order = orderOf("m.onnx", 0b11);
    const found = await inferenceProviderOver(ports).provide(order, shapeOf("V100"), signal);
    expect(found?.files).toHaveLength(1);
    expect(found?.message).toMatch(/no plan over the GPUs: .*: no answer$/);
  });

  it("is that of the GPUs where these run it: every operation on the GPU that the shown plan says", async () => {
    const found = await inferenceProviderOver({
      topologyOf: async () => topology,
      planModel: planAnew,
    }).provide(
      orderOf("m.onnx", 0b0110),
      { ...shapeOf("V100"), clusters: [{ ...CLUSTER, isSimulated: false }] },
      AbortSignal.timeout(60_000),
    );
    const read = parseServingPlan(found?.files[0]?.text ?? "", { file: "plan" });
    if (read.kind === "refused") throw new Error(read.message);
    const { plan } = read;
    expect(plan).toMatchObject({ devices: "cuda", gpus: 2 });
    const used = new Set(plan.parts.map(({ gpu }) => gpu));
    const busy = found?.onGpus?.gpus.flatMap(({ operations }, gpu) => (operations > 0 ? gpu : []));
    expect([...used].sort()).toEqual(busy);
    const operators = plan.parts.flatMap((part) => part.operators).sort((a, b) => a - b);
    expect(operators).toEqual(operators.map((_, at) => at));
    expect(found?.message).toMatch(/by CUDA/);
  });

  it("is left to the host where the model is not to be had", async () => {
    await expect(provide(orderOf("gone.onnx", 1))).rejects.toThrow(
      /gone\.onnx is not on the machine that plans; the host plans when it starts/,
    );
  });

  it("is not made of what is no model", async () => {
    await expect(provide(orderOf("broken.onnx", 1))).rejects.toThrow(/broken is no ONNX model/);
  });
});
