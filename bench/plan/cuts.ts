/**
 * @file Cuts of drawn graphs and of models' graphs: how heavy beside the best known, in how much processor time, and what rivals reach.
 *
 * Every cut is verified (all nodes placed, no part above its capacity, the weight counted anew) before it counts. The best known cut is the lightest
 * of `data/plan/cut-references.json` (ours over long runs, METIS, KaHIP) and of this run, so a ratio is never below 1.
 */

import { readdirSync, readFileSync } from "node:fs";
import { randomFrom } from "../../lib/random.ts";
import { hostProgramme } from "../../planning/parallelism/arrange.ts";
import { cutGraph, CUT_EFFORT, type CutEffort } from "../../planning/parallelism/cut.ts";
import {
  capacitiesOf,
  checkCut,
  cutWeight,
  type Cut,
  type CutGraph,
} from "../../planning/parallelism/cut-graph.ts";
import { packableCapacities, type Packable } from "../rivals/parallelism/least-slack.ts";
import { highsSolver } from "../../solvers/index.ts";
import { atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { badInput, dataPath, textOf } from "./files.ts";
import { geneticCut } from "./genetic-cut.ts";
import { drawnGraph, GRAPH_KINDS, readCutGraph } from "./graphs.ts";

export const SLACK = 0.03;
/** GPUs of the eight servers of SpiderFlow §5.1. */
const UNEVEN = [2, 2, 2, 2, 2, 4, 1, 1];

export interface CutSetting {
  readonly seed: number;
  readonly seeds: number;
  readonly parts: readonly string[];
  readonly rivals: number;
  readonly rivalMs: number;
  readonly say: (line: string) => void;
}

export interface CutFound {
  readonly id: string;
  readonly weight: number;
  readonly reference: number;
  readonly ratio: number;
  readonly cpuS: number;
  /** Where no packing was found within 3 %: what was used, and what is proven impossible. */
  readonly slack: number;
  readonly impossibleAt: number | undefined;
}

interface Size {
  readonly nodes: number;
  readonly edges: number;
  readonly want: { readonly mean: number; readonly worst: number; readonly cpuS: number };
  readonly paper: { readonly ratio: number; readonly seconds: number };
}

const SIZES: readonly Size[] = [
  {
    ...{ nodes: 128, edges: 512 },
    want: { mean: 1.02, worst: 1.06, cpuS: 0.3 },
    paper: { ratio: 1.05, seconds: 3.37 },
  },
  {
    ...{ nodes: 512, edges: 2048 },
    want: { mean: 1.03, worst: 1.06, cpuS: 2 },
    paper: { ratio: 1.08, seconds: 12.15 },
  },
];

export function sharesOf(text: string): readonly number[] {
  if (text === "uneven") return UNEVEN;
  const count = Number(text);
  if (!Number.isInteger(count) || count < 2 || count > 4096)
    throw badInput(`--parts: ${text} is neither a whole number from 2 to 4096 nor "uneven".`);
  return Array.from({ length: count }, () => 1);
}

export interface Cuts {
  readonly bars: readonly Bar[];
  readonly tables: readonly BenchTable[];
  readonly found: readonly CutFound[];
}

export async function measureCuts(setting: CutSetting): Promise<Cuts> {
  const references = readReferences();
  warmUp();
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const all: CutFound[] = [];
  for (const size of SIZES) {
    const name = `${size.nodes}/${size.edges}`;
    const found: CutFound[] = [];
    const rows: string[][] = [];
    for (const kind of GRAPH_KINDS) {
      for (let at = 0; at < setting.seeds; at += 1) {
        const seed = setting.seed + at;
        const graph = drawnGraph(kind, size, seed);
        for (const parts of setting.parts) {
          const id = `${kind}-${size.nodes}-${size.edges}-${seed}/${parts}`;
          const one = cutOnce(graph, { id, parts, references });
          if (one !== undefined) found.push(one);
          else setting.say(`${id}: no cut that holds`);
          if (at < setting.rivals && parts === "4" && one !== undefined)
            rows.push(...(await rivalRows(graph, one, setting)));
        }
      }
      setting.say(
        `cuts of ${kind} graphs of ${name}: ${found.length} so far, mean ${mean(found.map(({ ratio }) => ratio)).toFixed(4)}`,
      );
    }
    const wanted = 2 * setting.seeds * setting.parts.length;
    bars.push(...ratioBars(`cut-${size.nodes}`, found, { ...size, wanted }));
    all.push(...found);
    if (rows.length > 0)
      tables.push({
        title: `Cuts of ${name} into 4 parts, beside rivals (paper: ILP 1.00 in 182.4 s, genetic 1.18 in 145.7 s at 128/512; genetic 1.23 in 812.6 s at 512/2048)`,
        columns: ["GRAPH AND METHOD", "CUT", "RATIO", "S"],
        rows,
      });
    tables.push(partsTable(name, found, setting.parts));
  }
  return { bars, tables, found: all };
}

function ratioBars(
  id: string,
  found: readonly CutFound[],
  { want, paper, wanted }: Pick<Size, "want" | "paper"> & { readonly wanted: number },
): readonly Bar[] {
  const note = `${found.length} of ${wanted} cuts, each verified`;
  if (found.length < wanted) {
    const figure = { id: `${id}-mean`, unit: "×", target: atMost(want.mean), paper: paper.ratio };
    return [unmeasured(figure, `${note}; the others found none that holds`)];
  }
  const ratios = found.map(({ ratio }) => ratio);
  return [
    barOf({
      id: `${id}-mean`,
      unit: "×",
      target: atMost(want.mean),
      got: mean(ratios),
      paper: paper.ratio,
      note,
    }),
    barOf({ id: `${id}-worst`, unit: "×", target: atMost(want.worst), got: Math.max(...ratios) }),
    barOf({
      id: `${id}-cpu`,
      unit: "s",
      target: atMost(want.cpuS),
      got: Math.max(...found.map(({ cpuS }) => cpuS)),
      paper: paper.seconds,
      note: "processor time of the slowest cut",
    }),
  ];
}

function partsTable(
  name: string,
  found: readonly CutFound[],
  parts: readonly string[],
): BenchTable {
  return {
    title: `Cuts of ${name} by parts`,
    columns: ["PARTS", "MEAN RATIO", "WORST", "AS BEST KNOWN", "MEAN S"],
    rows: parts.map((each) => {
      const own = found.filter(({ id }) => id.endsWith(`/${each}`));
      const ratios = own.map(({ ratio }) => ratio);
      return [
        each,
        mean(ratios).toFixed(4),
        Math.max(...ratios).toFixed(4),
        `${ratios.filter((ratio) => ratio < 1 + 1e-9).length} of ${own.length}`,
        mean(own.map(({ cpuS }) => cpuS)).toFixed(3),
      ];
    }),
  };
}

interface Once {
  readonly id: string;
  readonly parts: string;
  readonly references: ReadonlyMap<string, number>;
}

function cutOnce(graph: CutGraph, { id, parts, references }: Once): CutFound | undefined {
  const { capacities, slack, impossibleAt } = packable(graph, parts);
  const started = process.cpuUsage();
  const answer = cutGraph(graph, { capacities, random: randomFrom(1, "cut") });
  const { user, system } = process.cpuUsage(started);
  if (answer.kind === "blocked" || checkCut(graph, answer.pick, capacities) !== undefined)
    return undefined;
  const { weight } = answer.pick;
  const reference = Math.min(references.get(id) ?? Infinity, weight);
  // Two cuts of nothing are equally good.
  const ratio = reference > 0 ? weight / reference : weight > 0 ? Infinity : 1;
  return { id, weight, reference, ratio, cpuS: (user + system) / 1e6, slack, impossibleAt };
}

const packable = (graph: CutGraph, parts: string): Packable =>
  packableCapacities(graph, sharesOf(parts), { slack: SLACK, random: randomFrom(1, "slack") });

/** Parts that had to be larger than asked, with what is proven. */
function slackTable(found: readonly CutFound[]): readonly BenchTable[] {
  const raised = found.filter(({ slack }) => slack > SLACK);
  if (raised.length === 0) return [];
  const percent = (value: number): string => `${Math.round(100 * value)} %`;
  return [
    {
      title:
        "No packing within 3 %: all parts grow to the least whole percent at which one is found",
      columns: ["GRAPH AND PARTS", "USED", "PROVEN IMPOSSIBLE UP TO"],
      rows: raised.map(({ id, slack, impossibleAt }) => [
        id,
        percent(slack),
        impossibleAt === undefined ? "not proven" : percent(impossibleAt),
      ]),
    },
  ];
}

/** The first calls run uncompiled. They are left out, because the bars are about the method, not about a fresh process. */
function warmUp(): void {
  const graph = drawnGraph("uniform", { nodes: 128, edges: 512 }, 999);
  for (let round = 0; round < 2; round += 1)
    cutOnce(graph, { id: "", parts: "4", references: new Map() });
}

async function rivalRows(
  graph: CutGraph,
  ours: CutFound,
  { rivalMs, seed }: CutSetting,
): Promise<readonly string[][]> {
  const shares = sharesOf("4");
  const capacities = capacitiesOf(graph, shares, SLACK);
  const row = (method: string, weight: number | undefined, seconds: number): string[] => [
    `${ours.id.replace(/\/4$/, "")} ${method}`,
    weight === undefined ? "none" : weight.toFixed(0),
    weight === undefined ? "-" : (weight / ours.reference).toFixed(3),
    seconds.toFixed(2),
  ];
  const genetic = geneticCut(graph, capacities, { seed, limitMs: rivalMs });
  const isSound = genetic !== undefined && checkCut(graph, genetic, capacities) === undefined;
  const problem = hostProgramme(graph, capacities);
  const startedMs = performance.now();
  const answer = await highsSolver.solve(problem, { timeLimitMs: rivalMs });
  const ilpS = (performance.now() - startedMs) / 1000;
  const ilp = "values" in answer ? ilpCut(graph, answer.values, shares.length) : undefined;
  const isIlpSound = ilp !== undefined && checkCut(graph, ilp, capacities) === undefined;
  return [
    row("ours", ours.weight, ours.cpuS),
    row("genetic (DT-FM)", isSound ? genetic.weight : undefined, rivalMs / 1000),
    row(`ILP (HiGHS, ${answer.status})`, isIlpSound ? ilp.weight : undefined, ilpS),
  ];
}

function ilpCut(graph: CutGraph, values: readonly number[], partCount: number): Cut {
  const parts = Int32Array.from({ length: graph.nodeCount }, (_, node) => {
    const own = values.slice(node * partCount, (node + 1) * partCount);
    return Math.max(0, own.indexOf(1));
  });
  return { parts, weight: cutWeight(graph, parts) };
}

export function readReferences(): ReadonlyMap<string, number> {
  const text = readFileSync(dataPath("plan/cut-references.json"), "utf8");
  const read: { readonly cuts: Readonly<Record<string, readonly [number, string]>> } =
    JSON.parse(text);
  return new Map(Object.entries(read.cuts).map(([id, [weight]]) => [id, weight]));
}

/** The graphs of models that come with Orbweaver. */
export function measureModelCuts({ parts, say }: CutSetting): Cuts {
  const references = readReferences();
  const found: CutFound[] = [];
  const blocked: string[] = [];
  for (const folder of ["msr", "pipedream"]) {
    for (const file of readdirSync(dataPath(`model-graphs/${folder}`)).sort()) {
      const graph = graphAt(dataPath(`model-graphs/${folder}/${file}`), file);
      for (const each of parts) {
        const id = `${folder}/${file}/${each}`;
        const one = cutOnce(graph, { id, parts: each, references });
        if (one === undefined) blocked.push(id);
        else found.push(one);
      }
      say(`${folder}/${file}: ${graph.nodeCount} nodes`);
    }
  }
  const ratios = found.map(({ ratio }) => ratio);
  const raised = found.filter(({ slack }) => slack > SLACK).length;
  const note =
    `${found.length} cuts verified, ${raised} of them with more slack than 3 %, where nothing packs` +
    (blocked.length === 0 ? "" : `; none for ${blocked.join(", ")}`);
  return {
    bars: [
      barOf({ id: "cut-models-mean", unit: "×", target: atMost(1.02), got: mean(ratios), note }),
      barOf({ id: "cut-models-worst", unit: "×", target: atMost(1.06), got: Math.max(...ratios) }),
      barOf({
        id: "cut-models-cpu",
        unit: "s",
        target: REPORTED,
        got: Math.max(...found.map(({ cpuS }) => cpuS)),
      }),
    ],
    tables: [partsTable("models", found, parts), ...slackTable(found)],
    found,
  };
}

/** A graph of the user's own: beside six times the work, which is the best known one there. */
export function measureOwnGraph(path: string, { parts, say }: CutSetting): Cuts {
  const graph = graphAt(path, path);
  const bars: Bar[] = [];
  const found: CutFound[] = [];
  for (const each of parts) {
    const { capacities, slack } = packable(graph, each);
    const long: CutEffort = {
      ...CUT_EFFORT,
      steps: 6 * CUT_EFFORT.steps,
      mostSteps: 6 * CUT_EFFORT.mostSteps,
    };
    const reference = cutGraph(graph, { capacities, random: randomFrom(2, "cut"), effort: long });
    if (reference.kind === "blocked") {
      bars.push(
        unmeasured({ id: `cut-${each}`, unit: "×", target: atMost(1.06) }, reference.message),
      );
      continue;
    }
    const id = `own/${each}`;
    const one = cutOnce(graph, {
      id,
      parts: each,
      references: new Map([[id, reference.pick.weight]]),
    });
    if (one === undefined) continue;
    found.push(one);
    say(`${each} parts: ${one.weight}`);
    bars.push(
      barOf({
        id: `cut-${each}`,
        unit: "×",
        target: atMost(1.06),
        got: one.ratio,
        note: `weight ${one.weight}, best known ${one.reference}, slack ${Math.round(100 * slack)} %`,
      }),
      barOf({ id: `cut-${each}-weight`, unit: "weight", target: REPORTED, got: one.weight }),
      barOf({ id: `cut-${each}-cpu`, unit: "s", target: REPORTED, got: one.cpuS }),
    );
  }
  const title = `${path} (${graph.nodeCount} nodes)`;
  return { bars, tables: [partsTable(title, found, parts), ...slackTable(found)], found };
}

function graphAt(path: string, file: string): CutGraph {
  const read = readCutGraph(textOf(path), file);
  if (read.kind === "parsed") return read.graph;
  throw badInput(
    read.problems
      .map(({ line, message, remedy }) => `${file}:${line}: ${message}; ${remedy}`)
      .join("\n"),
  );
}
