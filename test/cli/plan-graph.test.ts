/** @file `orbweaver plan --graph`: operators in stages, and the file that says where each one runs. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { run } from "./run.ts";

const GRAPH = "graph.txt";
const cwd = mkdtempSync(join(tmpdir(), "orbweaver-plan-graph-"));
const nodes = Array.from(
  { length: 12 },
  (_, at) =>
    `node${at} -- Linear -- forward_compute_time=3.0, backward_compute_time=6.0, activation_size=1000.0, parameter_size=4e8`,
);
const edges = nodes.slice(1).map((_, at) => `\tnode${at} -- node${at + 1}`);
writeFileSync(join(cwd, GRAPH), `${[...nodes, ...edges].join("\n")}\n`);
const words = (more: readonly string[]): readonly string[] => [
  ...["plan", "--batch", "16", "--gpus", "x/a:4:V100-32,x/b:4:V100-32"],
  ...more,
];

it("writes the stage and the GPUs of each operator, those that the plan says", async () => {
  const { code, stdout } = await run(
    words(["--graph", GRAPH, "--assignment", "stages.json", "--json"]),
    { cwd },
  );
  expect(code).toBe(0);
  const plan: {
    readonly pipelineParallel: number;
    readonly ranks: readonly { readonly host: string; readonly stage: number }[];
  } = JSON.parse(stdout);
  const written: {
    readonly pipelineParallel: number;
    readonly operators: readonly { readonly stage: number; readonly gpus: readonly string[] }[];
  } = JSON.parse(readFileSync(join(cwd, "stages.json"), "utf8"));
  expect(written.pipelineParallel).toBe(plan.pipelineParallel);
  expect(written.operators).toHaveLength(12);
  for (const { stage, gpus } of written.operators)
    expect(gpus.map((gpu) => gpu.replace(/:\d+$/, "")).sort()).toEqual(
      plan.ranks.flatMap((rank) => (rank.stage === stage ? [rank.host] : [])).sort(),
    );
});

it.each([
  { more: ["--model", "gpt2-350m", "--assignment", "a.json"], want: /no graph of profiled op/ },
  { more: ["--graph", "gpt2-350m"], want: /no graph of profiled operators/ },
  { more: ["--graph", GRAPH, "--assignment", "none/a.json"], want: /cannot be written \(ENOENT\)/ },
  { more: ["--graph", GRAPH, "--model", "gpt2-350m"], want: /cannot be used with option/ },
])("refuses $more", async ({ more, want }) => {
  const { code, stderr } = await run(words(more), { cwd });
  expect([code, want.test(stderr)]).toEqual([2, true]);
});
