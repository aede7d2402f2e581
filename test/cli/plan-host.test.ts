/** @file `orbweaver plan --host`: models by name, as tables of layer times and as ONNX, one or several, on host files that come along. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { transformerSample } from "../../models/onnx-samples.ts";
import { run } from "./run.ts";

const hostFile = (name: string): string =>
  new URL(`../../data/hosts/${name}.yaml`, import.meta.url).pathname;

const TABLE = "layer_name,input,kv_cache,tp_size,latency(ns)\nlm_head,128,0,1,5000000000\n";

function folder(): string {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-plan-host-"));
  writeFileSync(join(cwd, "small.onnx"), transformerSample({ blocks: 1, width: 64 }));
  writeFileSync(join(cwd, "layers.csv"), TABLE);
  writeFileSync(join(cwd, "broken.csv"), `${TABLE}lm_head,128,0,1,soon\n`);
  return cwd;
}

it("plans an ONNX file on the V100 server, and twice together in less than twice the time", async () => {
  const cwd = folder();
  const latencyOf = async (model: string): Promise<readonly [string, number]> => {
    const words = ["plan", "--model", model, "--host", hostFile("v100"), "--json"];
    const { code, stdout } = await run(words, { cwd });
    expect(code).toBe(0);
    // What the command printed is the document that this test is about.
    const plan = JSON.parse(stdout) as { model: string; simulatedMs: number };
    return [plan.model, plan.simulatedMs];
  };
  const [, alone] = await latencyOf("small.onnx");
  const [name, both] = await latencyOf("small.onnx,small.onnx");
  expect(name).toBe("transformer and transformer");
  expect(both).toBeLessThan(2 * alone);
});

it("takes the times of a table for the GPUs that it was measured on", async () => {
  const words = ["plan", "--model", "layers.csv", "--profiled-on", "A6000", "--json"];
  const { stdout } = await run([...words, "--host", hostFile("a6000")], { cwd: folder() });
  // As above.
  const plan = JSON.parse(stdout) as { model: string; simulatedMs: number };
  expect(plan.model).toBe("Llama-3.1-8B (1, 128)");
  // One layer alone takes five seconds there.
  expect(plan.simulatedMs).toBeGreaterThan(5000);
});

it("names the row of a table that cannot be read", async () => {
  const words = ["plan", "--model", "broken.csv", "--profiled-on", "A6000"];
  const { code, stderr } = await run([...words, "--host", hostFile("a6000")], { cwd: folder() });
  expect(code).not.toBe(0);
  expect(stderr).toContain("broken.csv:3");
  expect(stderr).toContain("soon");
});
