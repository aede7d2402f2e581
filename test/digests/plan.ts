/**
 * @file Plans of training: cuts of graphs, plans of models on small sites, and the buddy allocator's GPUs.
 *
 * Of a cut: the part of each node, the weight, the capacities. Of a plan: degrees, bounds, which GPU runs what, the predicted step and its parts,
 * and the same of the plans that it was preferred to.
 */

import { readdirSync, readFileSync } from "node:fs";
import { sharesOf, SLACK } from "../../bench/plan/cuts.ts";
import { dataPath } from "../../bench/plan/files.ts";
import { drawnGraph, GRAPH_KINDS, readCutGraph } from "../../bench/plan/graphs.ts";
import { modelPreset } from "../../domain/model/model-presets.ts";
import { randomFrom } from "../../lib/random.ts";
import { buddyAllocator } from "../../bench/plan/buddy-allocator.ts";
import { cutGraph } from "../../planning/parallelism/cut.ts";
import type { CutGraph } from "../../planning/parallelism/cut-graph.ts";
import { packableCapacities } from "../../bench/rivals/parallelism/least-slack.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { planTraining } from "../../planning/parallelism/plan.ts";
import { USUAL_WAYS, type PlanHost, type PlanSite } from "../../planning/parallelism/site.ts";
import type { Split } from "../../planning/parallelism/split.ts";
import type { StepParts } from "../../planning/parallelism/step-time.ts";
import { digestOf, type DigestCase, type Values } from "./digest.ts";

const PARTS = ["4", "8", "uneven"];
const BUDDY_EVENTS = 5_000;

export const planCases: readonly DigestCase[] = [
  drawnCase({ nodes: 64, edges: 192 }, ["4"], { seeds: [1], isQuick: true }),
  drawnCase({ nodes: 128, edges: 512 }, PARTS, { seeds: [1, 2] }),
  drawnCase({ nodes: 512, edges: 2048 }, ["4", "uneven"], { seeds: [1] }),
  modelGraphCase("pipedream"),
  trainingCase("gpt2-350m", { hosts: [4, 4], batch: 16, isQuick: true }),
  trainingCase("gpt2-1.3b", { hosts: [8, 8], batch: 32 }),
  trainingCase("llama-7b", { hosts: [8, 8, 4, 4], batch: 64 }),
  trainingCase("opt-13b", { hosts: [8, 8, 8, 8], batch: 64 }),
  buddyCase(),
];

function drawnCase(
  size: { readonly nodes: number; readonly edges: number },
  parts: readonly string[],
  { seeds, isQuick = false }: { readonly seeds: readonly number[]; readonly isQuick?: boolean },
): DigestCase {
  return {
    name: `cuts of drawn graphs of ${String(size.nodes)} nodes and ${String(size.edges)} edges, seeds ${seeds.join()}, parts ${parts.join()}`,
    isQuick,
    run: () =>
      digestOf((values) => {
        for (const kind of GRAPH_KINDS)
          for (const seed of seeds)
            for (const each of parts) writeCut(values, drawnGraph(kind, size, seed), each);
      }),
  };
}

function modelGraphCase(folder: string): DigestCase {
  return {
    name: `cuts of the model graphs of ${folder} into 4 parts`,
    isQuick: false,
    run: () =>
      digestOf((values) => {
        for (const file of readdirSync(dataPath(`model-graphs/${folder}`)).sort())
          writeCut(values, graphIn(dataPath(`model-graphs/${folder}/${file}`)), "4");
      }),
  };
}

function graphIn(file: string): CutGraph {
  const read = readCutGraph(readFileSync(file, "utf8"), file);
  if (read.kind === "parsed") return read.graph;
  throw new Error(read.problems.map(({ message }) => `${file}: ${message}`).join("\n"));
}

function writeCut(values: Values, graph: CutGraph, parts: string): void {
  const { capacities, slack } = packableCapacities(graph, sharesOf(parts), {
    slack: SLACK,
    random: randomFrom(1, "slack"),
  });
  values.figures(capacities);
  values.figure(slack);
  const answer = cutGraph(graph, { capacities, random: randomFrom(1, "cut") });
  const cut = answer.kind === "blocked" ? undefined : answer.pick;
  values.counts(cut?.parts);
  values.figure(cut?.weight);
}

interface TrainingWish {
  /** GPUs of each; every two hosts are a cluster. */
  readonly hosts: readonly number[];
  readonly batch: number;
  readonly isQuick?: boolean;
}

function trainingCase(
  name: string,
  { hosts: sizes, batch, isQuick = false }: TrainingWish,
): DigestCase {
  return {
    name: `plan of ${name}, batch ${String(batch)}, hosts of ${sizes.join(", ")} GPUs`,
    isQuick,
    run: async () => {
      const preset = modelPreset(name);
      if (preset === undefined) throw new Error(`there is no preset ${name}`);
      const model = presetModel(...preset);
      const hosts = sizes.map((gpuCount, at): PlanHost => ({
        id: `h${String(at)}`,
        cluster: `c${String(Math.floor(at / 2))}`,
        gpuType: "A100",
        gpuCount,
        memoryGiB: 80,
        teraflops: 312,
        inside: USUAL_WAYS.nvlink,
        nvlinkGpus: gpuCount,
      }));
      const site: PlanSite = {
        hosts,
        fabric: () => USUAL_WAYS.fabric,
        between: () => USUAL_WAYS.wan,
      };
      const answer = await planTraining({ model, site, batch, random: randomFrom(1) });
      return digestOf((values) => {
        values.claim(answer.kind === "planned");
        if (answer.kind === "blocked") return;
        const { split, parts, stepMs, samplesPerSecond, stages, others } = answer.plan;
        writeSplit(values, split, { parts, stepMs });
        values.figure(samplesPerSecond);
        values.list(stages, (stage) => {
          values.counts(stage.runs.flat());
          values.figure(stage.parameters);
          values.figure(stage.memoryGiB);
          values.figure(stage.cardGiB);
        });
        values.list(others, (other) => {
          writeSplit(values, other.split, other);
        });
      });
    },
  };
}

function writeSplit(
  values: Values,
  split: Split,
  { parts, stepMs }: { readonly parts: StepParts; readonly stepMs: number },
): void {
  values.counts([split.replicas, split.stages, split.width, split.microBatch, split.microBatches]);
  values.claim(split.isRecomputing);
  values.claim(split.isSharded);
  values.counts(split.bounds);
  values.list(split.cells, ({ host, firstRank, width }) => {
    values.counts([host, firstRank, width]);
  });
  values.figure(stepMs);
  const { computeMs, bubbleMs, tensorMs, sendMs, reduceMs, updateMs } = parts;
  values.figures([computeMs, bubbleMs, tensorMs, sendMs, reduceMs, updateMs]);
}

function buddyCase(): DigestCase {
  return {
    name: `buddy allocator, ${String(BUDDY_EVENTS)} arrivals and departures on 16 hosts of 8 GPUs`,
    isQuick: true,
    run: () =>
      digestOf((values) => {
        const random = randomFrom(1, "buddy");
        const buddy = buddyAllocator([0, 1, 2, 3].map(() => [8, 8, 8, 8]));
        const held: (readonly number[])[] = [];
        for (let event = 0; event < BUDDY_EVENTS; event += 1) {
          if (random.unit() < 0.6) {
            const gpus = buddy.take(1 + random.below(16));
            values.counts(gpus);
            if (gpus !== undefined) held.push(gpus);
          } else if (held.length > 0) {
            const [left = []] = held.splice(random.below(held.length), 1);
            buddy.give(left);
          }
          values.counts(buddy.freeBlocks());
        }
      }),
  };
}
