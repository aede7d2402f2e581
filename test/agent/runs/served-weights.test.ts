/** @file Which launches find a folder for weights, and how much one model may take there. */

import { describe, expect, it } from "vitest";
import { servedWeights } from "../../../agent/runs/served-weights.ts";
import { fakeAgent } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";
import { HOST, orderOf } from "../fixture.ts";

const SERVE = ["orbweaver", "serve"];

function weightsOf(
  over: {
    readonly command?: readonly string[];
    readonly memoryBytes?: number;
    readonly budgetBytes?: number;
  } = {},
) {
  const areas: unknown[][] = [];
  const trims: number[] = [];
  const pool = {
    budgetBytes: over.budgetBytes ?? 1_000,
    area: (...of: unknown[]) => {
      areas.push(of);
      return "/pool/area";
    },
    trim: (nowMs: number) => trims.push(nowMs),
    use: () => ({ models: 0, bytes: 0, budgetBytes: 0 }),
  };
  const { host } = fakeAgent(new FakeMachine(), { id: HOST });
  const order = orderOf("", { model: "/m.onnx", run: { command: over.command ?? SERVE } });
  const handed: string[] = [];
  const { memoryBytes } = over;
  const found = servedWeights(
    { ...host, weights: pool, ...(memoryBytes !== undefined && { resources: { memoryBytes } }) },
    order,
    { uid: 1_000, handed },
  );
  return { found, handed, areas, trims, order, host };
}

describe("weights of a launch", () => {
  it("lie in a folder of its tenant and user, which that user gets", () => {
    const { found, handed, areas, trims, order } = weightsOf();
    expect(found).toEqual({ dir: "/pool/area", mostBytes: 1_000 });
    expect(handed).toEqual(["/pool/area"]);
    expect(areas).toEqual([[order.holder.tenant, 1_000]]);
    expect(trims).toHaveLength(1);
  });

  it("take a quarter of its limit of memory at most", () => {
    const { found, host } = weightsOf({ memoryBytes: 800 });
    expect(found?.mostBytes).toBeLessThanOrEqual(200);
    expect(found?.mostBytes).toBe(Math.floor(200 / host.gpuCount));
  });

  it("are offered to nothing but models that are served, and nowhere without a budget", () => {
    expect(weightsOf({ command: ["python", "train.py"] }).found).toBeUndefined();
    const none = weightsOf({ budgetBytes: 0 });
    expect(none.found).toBeUndefined();
    expect(none.handed).toEqual([]);
  });
});
