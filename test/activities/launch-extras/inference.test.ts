/** @file The plan that a served job is given: for its GPUs, as a file that its host reads; what is said when there is none. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { inferenceProvider } from "../../../activities/launch-extras/inference.ts";
import type { LaunchExtrasOrder } from "../../../protocol/launch-extras-contract.ts";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { jobId, parseHostId } from "../../../domain/values/ids.ts";
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
const SHAPE: FleetShape = { clusters: [], links: [], tenants: [] };
const provide = (order: LaunchExtrasOrder) =>
  inferenceProvider.provide(order, SHAPE, AbortSignal.timeout(60_000));

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
    expect(launchExtras?.message).toMatch(/a request expected/);
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
