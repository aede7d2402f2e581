/** @file `orbweaver plan --host`: models by name, as tables of layer times and as ONNX, one or several, on host files that come along. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { onnxBytes, type Dimension } from "../../models/onnx/onnx-file.ts";
import { transformerSample } from "../../models/onnx/onnx-samples.ts";
import { run } from "./run.ts";

/** y = a + b, whose shapes are given. */
const sumOf = ([a, b]: readonly [readonly Dimension[], readonly Dimension[]]): Uint8Array =>
  onnxBytes({
    name: "open",
    nodes: [{ op: "Add", inputs: ["a", "b"], outputs: ["y"], attributes: new Map() }],
    constants: [],
    inputs: [
      { name: "a", type: "float32", shape: a },
      { name: "b", type: "float32", shape: b },
    ],
    outputs: [{ name: "y", type: "float32", shape: b }],
  });

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
  expect(name).toBe("transformer (batch 1, sequence 1) and transformer (batch 1, sequence 1)");
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

const ROW = "forward_compute_time=2.0, backward_compute_time=1.0, activation_size=6000.0";
const PROFILE = [
  `n1 -- Conv2d -- ${ROW}, parameter_size=40000000.0`,
  `n2 -- Conv2d -- ${ROW}, parameter_size=90000000.0`,
  `n3 -- Linear -- ${ROW}, parameter_size=90000000.0`,
  "\tn1 -- n2",
].join("\n");

/** Models that nobody publishes, each with what the answer names. */
const REFUSED = [
  ["loop.txt", `${PROFILE}\n\tn2 -- n1\n`, "n1 → n2 → n1"],
  ["short.txt", PROFILE.replaceAll("activation_size=6000.0, ", ""), "n3"],
  ["list.json", "[1, 2", "not JSON"],
  ["none.json", '{"nodes": [], "edges": []}', "nodes"],
  ["back.json", '{"nodes": [{"id": 1, "isBackwardNode": true}], "edges": []}', "forward"],
  ["packed.json.gz", "{}", "not gzipped"],
  ["huge.json", '{"nodes": [{"id": 1, "size": 1e13}], "edges": []}', "host memory|memory of v100"],
] as const;

it.each(REFUSED)(
  "refuses %s with one error that names what is wrong",
  async (file, text, named) => {
    const cwd = mkdtempSync(join(tmpdir(), "orbweaver-plan-host-"));
    writeFileSync(join(cwd, file), text);
    const words = ["plan", "--model", file, "--host", hostFile("v100")];
    const { code, stderr } = await run(words, { cwd });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error BAD_INPUT/);
    expect(stderr).toMatch(new RegExp(named));
  },
);

it.each(["GPT2-large@1x32,", "GPT2-huge@1x32", "GPT2-large@0x32"])(
  "says how presets are written when it is asked for %s",
  async (model) => {
    const words = ["plan", "--model", model, "--host", hostFile("v100")];
    const { code, stderr } = await run(words, { cwd: folder() });
    expect(code).toBe(2);
    expect(stderr).toMatch(/model,model|@<batch>x<tokens>/);
  },
);

it("names the open dimensions of an ONNX file that does not run with ones", async () => {
  const cwd = folder();
  const model = sumOf([
    ["p", "q"],
    [3, 4],
  ]);
  writeFileSync(join(cwd, "open.onnx"), model);
  const words = ["plan", "--model", "open.onnx", "--host", hostFile("v100")];
  const refused = await run([...words, "--bind", "q=5"], { cwd });
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain("--bind p=8");
  const planned = await run([...words, "--bind", "q=4"], { cwd });
  expect(planned.stdout).toContain("open (p 1, q 4) on v100");
});

const MATRIX = [
  "|      | GPU0 | GPU1 |",
  "|------|------|------|",
  "| GPU0 | X    | NV2  |",
  "| GPU1 | NV2  | X    |",
].join("\n");

it("reads a matrix of nvidia-smi, also as a table of Markdown, and plans what is disconnected or takes no time", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-plan-host-"));
  writeFileSync(join(cwd, "topo.md"), MATRIX);
  writeFileSync(join(cwd, "apart.txt"), PROFILE);
  writeFileSync(join(cwd, "still.json"), '{"nodes": [{"id": 1}, {"id": 2}], "edges": []}');
  const planned = async (model: string): Promise<{ simulatedMs: number; speedUp: number }> => {
    const { stdout } = await run(["plan", "--model", model, "--host", "topo.md", "--json"], {
      cwd,
    });
    // What the command printed.
    return JSON.parse(stdout) as { simulatedMs: number; speedUp: number };
  };
  // 220 MB over two buses of 12.2 GB/s side by side, kernels of 2 ms behind them.
  const apart = await planned("apart.txt");
  expect(apart.simulatedMs).toBeGreaterThan(110 / 12.2);
  expect(apart.speedUp).toBeGreaterThan(1.5);
  expect(await planned("still.json")).toMatchObject({ simulatedMs: 0, speedUp: 1 });
});
