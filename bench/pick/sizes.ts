/**
 * @file Picks at a size of messages of which few sets were measured, from a model of another size: for each pair of sizes, both ways.
 *
 * The model learns from the sets of the paper's number at the first size and from `FEW` at the second, inside hosts and over them, all told; the
 * product's own training makes the transfer, and the picks are judged by what was measured at the second size. Beside it stand what the
 * model of the first size alone picks, and one that has only the few sets (with tables inside hosts at the second size, which ours lacks).
 * And what a job gets that says nothing: picks for the messages that were learned from `JOBS` jobs before it, whose sizes scatter and of whose time
 * a part goes to other messages, as a ratio to picks for the default ones.
 */

import type { BandwidthSample } from "../../domain/bandwidth/bandwidth-port.ts";
import { messagesText, type MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import { openMessages, type KeptMessages } from "../../domain/bandwidth/sent-messages.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { openSyncPredictor, trainSurrogate } from "../../models/bandwidth/surrogate.ts";
import { otherMessageSets } from "../../models/measuring/other-message-sets.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import { atLeast, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { PAPER_SAMPLES } from "./compare.ts";
import type { LinksByType } from "./links.ts";
import { bestGbs, figuresOf, judge, searching, type Field, type Figures } from "./protocol.ts";
import { topo } from "./rivals.ts";
import { scenariosOf, type ScenarioSizes } from "./scenarios.ts";
import { setsFor, splitOf } from "./training-sets.ts";
import { countsKey, type Truth } from "./truth.ts";

/** Sets of the second size. */
const FEW = 25;
const WANTED_GBE = 99;
/** Whose messages were learned. */
const JOBS = 5;

export interface SizedTruth {
  readonly messages: MessageProfile;
  readonly truth: Truth;
}

interface SizesPlan {
  readonly truths: readonly SizedTruth[];
  readonly seeds: readonly number[];
  readonly sizes: ScenarioSizes;
  readonly links: LinksByType;
  readonly say: (line: string) => void;
}

interface Way {
  readonly name: string;
  readonly figures: Figures;
}

export async function measureSizes(
  plan: SizesPlan,
): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const bars: Bar[] = [];
  const rows: string[][] = [];
  for (const from of plan.truths)
    for (const to of plan.truths) {
      if (from === to) continue;
      const name = `${messagesText(from.messages)} to ${messagesText(to.messages)}`;
      const ways = new Map<string, Figures[]>();
      for (const seed of plan.seeds) {
        plan.say(`pick: from ${name}, seed ${String(seed)}`);
        for (const { name: way, figures } of await transferOn(from, to, { ...plan, seed }))
          ways.set(way, [...(ways.get(way) ?? []), figures]);
      }
      for (const [way, figures] of ways) rows.push(rowOf(name, way, figures));
      bars.push(...barsOf(name, ways.get(OURS) ?? []));
      bars.push(gainOf(name, { learned: ways.get(LEARNED) ?? [], alone: ways.get(ALONE) ?? [] }));
    }
  const columns = ["sizes", "learned from", "GBE, %", "1st percentile", "worst, %"];
  return { bars, table: { title: "picks at another size of messages", columns, rows } };
}

const OURS = `first size, and ${String(FEW)} sets`;
const ALONE = "first size alone";
const LEARNED = `the same, for messages learned from ${String(JOBS)} jobs`;

async function transferOn(
  from: SizedTruth,
  to: SizedTruth,
  { seed, sizes, links }: Pick<SizesPlan, "sizes" | "links"> & { readonly seed: number },
): Promise<readonly Way[]> {
  const { domain } = from.truth;
  const random = randomFrom(seed, to.truth.name);
  const scenarios = scenariosOf(domain, sizes, random.stream("scenarios"));
  const field: Field = { truth: to.truth, scenarios, best: bestGbs(to.truth, scenarios) };
  const { train } = splitOf(from.truth, { samples: PAPER_SAMPLES, seed, training: "mixed" });
  const few = fewSets(to.truth, seed);
  const samples = [
    ...train.map((sample) => ({ ...sample, messages: from.messages })),
    ...few.map((sample) => ({ ...sample, messages: to.messages })),
  ];
  const model = openSyncPredictor(await trainSurrogate({ domain, samples, seed }), domain);
  const alone = setsFor(to.truth, {
    samples: FEW,
    training: "mixed",
    random: random.stream("alone"),
  });
  const small = await trainSurrogate({ domain: to.truth.domain, samples: alone, seed });
  const learned = learnedFrom(to.messages, random.stream("jobs"));
  const judged = (predictor: typeof model): Figures =>
    figuresOf(judge(field, searching(searchPick, predictor, topo(domain, links))));
  return [
    { name: OURS, figures: judged(model.at?.(to.messages) ?? model) },
    { name: LEARNED, figures: judged(model.at?.(learned) ?? model) },
    { name: ALONE, figures: judged(model) },
    {
      name: `${String(FEW)} sets alone`,
      figures: judged(openSyncPredictor(small, to.truth.domain)),
    },
  ];
}

/** From what jobs of one name reported: most of their time in messages about so large, the rest in some of any size. */
function learnedFrom(messages: MessageProfile, random: Random): MessageProfile {
  const sender = { tenant: "team", class: "training", name: "job", gpus: 16 } as const;
  const jobs = Array.from({ length: JOBS }, (_, at): KeptMessages => {
    const share = 0.6 + 0.4 * random.unit();
    const bytes = messages.bytes * 2 ** (0.8 * (random.unit() - 0.5));
    const other = { collective: messages.collective, bytes: 2 ** (20 + 11 * random.unit()) };
    const sent = [
      { ...messages, bytes, share },
      { ...other, share: 1 - share },
    ];
    return { ...sender, run: String(at), sent, atMs: at };
  });
  return openMessages(jobs)(sender) ?? messages;
}

export function fewSets(truth: Truth, seed: number): readonly BandwidthSample[] {
  const random = randomFrom(seed, `${truth.name}/few`);
  const asMeasured = new Map(truth.samples.map(({ shares }) => [countsKey(shares), shares]));
  const sets = otherMessageSets(truth.domain, {
    count: FEW,
    random,
    measured: [],
    nameOf: countsKey,
  });
  return sets.flatMap((set) => {
    const shares = set.length > 1 ? (asMeasured.get(countsKey(set)) ?? set) : set;
    const gbs = truth.gbs(shares);
    return gbs === undefined ? [] : [{ shares, gbs }];
  });
}

function rowOf(name: string, way: string, figures: readonly Figures[]): string[] {
  const worst = Math.min(...figures.map(({ worstPercent }) => worstPercent));
  return [
    name,
    way,
    mean(figures.map(({ gbePercent }) => gbePercent)).toFixed(2),
    mean(figures.map(({ lowPercent }) => lowPercent)).toFixed(1),
    worst.toFixed(1),
  ];
}

const gbeOf = (figures: readonly Figures[]): number =>
  mean(figures.map(({ gbePercent }) => gbePercent));

const gainOf = (name: string, of: Readonly<Record<"learned" | "alone", readonly Figures[]>>): Bar =>
  barOf({
    id: `picks for learned messages ÷ for the default, ${name}`,
    unit: "×",
    target: REPORTED,
    got: gbeOf(of.learned) / gbeOf(of.alone),
    note: `${gbeOf(of.learned).toFixed(2)} and ${gbeOf(of.alone).toFixed(2)} % of the best at the job's size`,
  });

function barsOf(name: string, figures: readonly Figures[]): readonly Bar[] {
  const gbe = gbeOf(figures);
  const worst = Math.min(...figures.map(({ worstPercent }) => worstPercent));
  return [
    barOf({
      id: `GBE ${name}, ${String(FEW)} sets`,
      unit: "%",
      target: atLeast(WANTED_GBE),
      got: gbe,
      note: `by seed ${figures.map(({ gbePercent }) => gbePercent.toFixed(2)).join(", ")}`,
    }),
    barOf({ id: `worst ${name}, ${String(FEW)} sets`, unit: "%", target: REPORTED, got: worst }),
  ];
}
