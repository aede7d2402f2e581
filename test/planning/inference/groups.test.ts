/** @file Operations that must run on one GPU: kept by every start, the search and the executor, at the cost that exhaustive search finds. */

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { knownDevice } from "../../../domain/model/inference-device.ts";
import { checkOperatorGraph, type OperatorGraph } from "../../../domain/model/operator-graph.ts";
import { parseMsrGraph } from "../../../domain/model/parse-msr-graph.ts";
import { allOn, keptTogether, planOf } from "../../../planning/inference/decisions.ts";
import { efficientMipDecisions } from "../../../bench/rivals/inference/efficient-mip.ts";
import { estimator } from "../../../planning/inference/estimate.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { listSchedule } from "../../../planning/inference/list-schedule.ts";
import { planningProblem, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { profiledGraph } from "../../../planning/inference/profiled-graph.ts";
import { searchPlan } from "../../../planning/inference/search.ts";
import { drawnProblem, tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

/** The same problem with operations joined where the two numbers say so. */
function grouped(problem: PlanningProblem, groupOf: (operation: number) => string | undefined) {
  const operations = problem.graph.operations.map((operation, at) => {
    const group = groupOf(at);
    return group === undefined ? operation : { ...operation, group };
  });
  return tinyProblem({ ...problem.graph, operations }, problem.host);
}

function gpusOfGroups(
  graph: OperatorGraph,
  queues: readonly (readonly { operations: readonly number[] }[])[],
) {
  const gpus = new Map<string, Set<number>>();
  for (const [gpu, queue] of queues.entries())
    for (const index of queue.flatMap(({ operations }) => operations)) {
      const group = graph.operations[index]?.group;
      if (group !== undefined) gpus.set(group, (gpus.get(group) ?? new Set()).add(gpu));
    }
  return gpus;
}

it("leaves every group on one GPU, whatever the model", () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const problem = grouped(drawnProblem(seed), (at) =>
      at % 3 === seed % 3 ? undefined : `g${at % 2}`,
    );
    const found = searchPlan(problem, { estimates: 400 });
    const queues = found.kind === "planned" ? found.plan.gpuQueues : [];
    const gpus = gpusOfGroups(problem.graph, queues);
    expect([seed, gpus.size, [...gpus.values()].every(({ size }) => size === 1)]).toEqual([
      seed,
      2,
      true,
    ]);
    const listed = listSchedule(problem);
    expect(keptTogether(problem, listed).gpu).toEqual(listed.gpu);
  }
});

it("finds what exhaustive search over allowed placements finds", () => {
  // Two branches that would run side by side, were their ends not one group with their start.
  const graph = tinyGraph(
    [
      { kernelMs: 1, parameters: [0] },
      { kernelMs: 4, inputs: [0], parameters: [1], outputMB: 1 },
      { kernelMs: 4, inputs: [0], parameters: [2], outputMB: 1 },
      { kernelMs: 2, inputs: [1], outputMB: 1 },
      { kernelMs: 1, inputs: [2, 3] },
    ],
    [10, 20, 20],
  );
  const free = tinyProblem(graph, tinyHost({ buses: [0, 1] }));
  const bound = grouped(free, (at) => (at === 1 || at === 2 ? "twins" : undefined));
  const { latencyMs } = estimator(bound);
  let best = Infinity;
  for (let places = 0; places < 2 ** 5; places += 1) {
    const decisions = allOn(bound, 0);
    decisions.gpu.set(Array.from({ length: 5 }, (_, at) => (places >> at) & 1));
    if (decisions.gpu[1] !== decisions.gpu[2]) continue;
    for (let landings = 0; landings < 27; landings += 1) {
      decisions.landing.set([0, 1, 2].map((at) => (Math.floor(landings / 3 ** at) % 3) - 2));
      for (const [at, landing] of decisions.landing.entries())
        if (landing === -1) decisions.landing[at] = 1;
      best = Math.min(best, latencyMs(decisions));
    }
  }
  const expected = (problem: PlanningProblem): number => {
    const found = searchPlan(problem);
    return found.kind === "planned" ? found.expectedMs : Infinity;
  };
  expect(expected(bound)).toBeLessThanOrEqual(best + 1e-9);
  expect(expected(free)).toBeLessThan(expected(bound));
});

it("does not execute a plan that parts a group", () => {
  const graph = tinyGraph([{ kernelMs: 1 }, { kernelMs: 1 }]);
  const problem = grouped(tinyProblem(graph, tinyHost({ buses: [0, 1] })), () => "both");
  const parted = allOn(problem, 0);
  parted.gpu[1] = 1;
  expect(() => execute(problem, planOf(problem, parted))).toThrow("parts the group of o0 and o1");
  const kept = keptTogether(problem, parted);
  expect(execute(problem, planOf(problem, kept)).latencyMs).toBe(2);
});

it("keeps the colour classes of an MSR graph together, which a rival parts", () => {
  const file = "operators_bert_l-3_inference.json.gz";
  const url = new URL(`../../../data/model-graphs/msr/${file}`, import.meta.url);
  const parsed = parseMsrGraph(gunzipSync(readFileSync(url)).toString("utf8"), file);
  const device = knownDevice("V100");
  if (parsed.kind === "refused" || device === undefined) throw new Error("the graph is not read");
  const graph = profiledGraph(parsed.graph, device);
  const host = tinyHost({ buses: [0, 0, 1, 1] });
  const checked = checkOperatorGraph(graph, file);
  if (checked.kind === "refused") throw new Error("the graph is refused");
  const gpus = host.gpus.map((gpu) => ({ ...gpu, device }));
  const problem = planningProblem(graph, { ...host, gpus }, { order: checked.order });
  const found = searchPlan(problem, { estimates: 2000 });
  const queues = found.kind === "planned" ? found.plan.gpuQueues : [];
  const groups = [...gpusOfGroups(graph, queues).values()];
  expect(groups.length).toBe(117);
  expect(groups.filter(({ size }) => size > 1)).toEqual([]);
  expect(queues.filter((queue) => queue.length > 0).length).toBeGreaterThan(1);
  const rival = efficientMipDecisions(problem);
  expect(keptTogether(problem, rival).gpu).not.toEqual(rival.gpu);
});
