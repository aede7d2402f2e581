/** @file The document of a plan: every rank once, groups that part the ranks, and Megatron's numbers. */
import { expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { planDocument } from "../../../planning/parallelism/plan-document.ts";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import { solverFor } from "../../../solvers/index.ts";
import { host, preset, siteOf } from "./sites.ts";

const site = siteOf(host("a", 4), host("b", 4));
const model = preset("gpt2-4.2b");
const answer = await planTraining({
  model,
  site,
  batch: 16,
  random: randomFrom(1),
  solver: solverFor,
});
if (answer.kind === "blocked") throw new Error(answer.message);
const document = planDocument(answer.plan, site, model.shape);
const { dataParallel, pipelineParallel, tensorParallel, groups, ranks } = document;

test("every GPU is one rank, in the order of hosts, with a place of its own", () => {
  expect(ranks.map(({ rank }) => rank)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect([...document.hosts].sort()).toEqual(["a", "b"]);
  expect(ranks.map((rank) => rank.host)).toEqual(
    document.hosts.flatMap((own) => [own, own, own, own]),
  );
  const places = ranks.map((rank) => `${rank.stage} ${rank.replica} ${rank.tensorRank}`);
  expect(new Set(places).size).toBe(8);
  expect(dataParallel * pipelineParallel * tensorParallel).toBe(8);
});

test.each([
  { name: "tensor", sets: groups.tensor, size: tensorParallel, of: ["stage", "replica"] },
  { name: "data", sets: groups.data, size: dataParallel, of: ["stage", "tensorRank"] },
  {
    name: "pipeline",
    sets: groups.pipeline,
    size: pipelineParallel,
    of: ["replica", "tensorRank"],
  },
] as const)("$name groups part the ranks by what their members share", ({ sets, size, of }) => {
  expect([...sets.flat()].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  for (const set of sets) {
    expect(set).toHaveLength(size);
    for (const key of of) expect(new Set(set.map((rank) => ranks[rank]?.[key])).size).toBe(1);
  }
});

test("Megatron-LM's rank 0 is on the first host, and where nobody follows the plan's order the site's stays", () => {
  expect(ranks[0]?.host).toBe(ranks.find(({ megatronRank }) => megatronRank === 0)?.host);
  const asLeased = planDocument(answer.plan, site, model.shape, { isLed: false });
  expect(asLeased.hosts).toEqual(["a", "b"]);
  expect(asLeased.ranks.map((rank) => rank.host)).toEqual([..."aaaabbbb"]);
});

test("Megatron numbers tensor first, then data, then pipeline", () => {
  const wanted = [...ranks]
    .sort((a, b) => a.stage - b.stage || a.replica - b.replica || a.tensorRank - b.tensorRank)
    .map(({ rank }) => rank);
  const found = [...ranks].sort((a, b) => a.megatronRank - b.megatronRank).map(({ rank }) => rank);
  expect(found).toEqual(wanted);
  expect(document.arguments.megatron).toContain(
    `--pipeline-model-parallel-size ${pipelineParallel}`,
  );
});

test("stages cover the layers in order", () => {
  let next = 0;
  for (const { firstLayer, layers } of document.stages) {
    expect(firstLayer).toBe(next);
    next += layers;
  }
  expect(next).toBe(model.layers.length);
});
