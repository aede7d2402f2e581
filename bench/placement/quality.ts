/**
 * @file How far each method is from the lexicographic optimum: up to twelve clusters by looking at every set, beyond that by integer programs.
 *
 * A state is made by playing arrivals, decided by one of four methods in turn, until the ledger holds what was drawn, 30 to 95 %. Half of the questions are arrivals as
 * they come, half ask for anything from one GPU to all that is free, so that most gangs must be split. No method sees the optimum.
 */

import { randomFrom, shuffled, type Random } from "../../lib/random.ts";
import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import {
  compareScores,
  scoreChoice,
  type ChoiceScore,
  type ClusterChoice,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterDemand,
} from "../../scheduling/placement/cluster-policy.ts";
import { clustersExhaustive } from "../rivals/placement/clusters-exhaustive.ts";
import { ilpClusters } from "../rivals/placement/ilp-clusters.ts";
import { opportunistic } from "../rivals/placement/clusters.ts";
import { spinSearch } from "../../scheduling/placement/spin-search.ts";
import { solverFor } from "../../solvers/index.ts";
import { atLeast, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { entrantsFor } from "./entrants.ts";
import { arrivalsOf, faultOf, makeRoom, OCCUPANCY, openBook, start } from "./play.ts";
import { drawnTopology, partOf, type Topology } from "./topology.ts";

const MOST_CLUSTERS = 12;
/** Gangs that come before a question. */
const HISTORY = 40;

interface QualityFound {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
  readonly details: Readonly<Record<string, unknown>>;
}

interface Tally {
  readonly name: string;
  equal: number;
  /** Found nothing where an answer exists. */
  none: number;
  more: number;
  mostMore: number;
  narrower: number;
  /** Of the optimum's width, summed. */
  widths: number;
  stranding: number;
  mostStranded: number;
}

export function measureQuality(sources: readonly Topology[], request: BenchRequest): QualityFound {
  const scenes = request.size("scenes");
  const random = randomFrom(request.seed, "quality");
  const tallies = new Map<string, Tally>();
  let [judged, split, worseThanSpin, beyondBound] = [0, 0, 0, 0];
  for (let scene = 0; scene < scenes; scene += 1) {
    if (scene % 200 === 0) {
      request.interrupted.throwIfAborted();
      request.say(`placement: state ${String(scene)} of ${String(scenes)}, every set looked at`);
    }
    const question = questionOf(sceneTopology(sources, scene, random), random);
    if (question === undefined) continue;
    const { target, room } = question;
    const best = clustersExhaustive(target, room).choice;
    if (best === undefined) continue;
    judged += 1;
    const want = scoreChoice(best, room);
    if (want.clusters > 1) split += 1;
    let ours: ChoiceScore | undefined;
    let spun: ChoiceScore | undefined;
    for (const { name, policy } of entrantsFor(room.free.length)) {
      const { choice } = policy(target, room);
      const got = scored(name, choice, question);
      note(tallyOf(tallies, name), got, want);
      if (name === "ours") ours = got;
      if (name === "SpinSearch") spun = got;
    }
    if (spun !== undefined && (ours === undefined || compareScores(ours, spun) > 0))
      worseThanSpin += 1;
    if (spun !== undefined && spun.clusters > (11 / 9) * want.clusters + 1) beyondBound += 1;
  }
  const own = tallyOf(tallies, "ours");
  const missed = judged - own.equal;
  return {
    bars: [
      barOf({
        id: "equal to the optimum, up to 12 clusters",
        unit: "%",
        target: atLeast(99),
        got: (100 * own.equal) / judged,
        note: `${String(judged)} states, ${String(split)} with gangs over several clusters; ${String(missed)} misses: ${depthText(own)}`,
      }),
      barOf({
        id: "worse than SpinSearch",
        unit: "states",
        target: exactly(0),
        got: worseThanSpin,
      }),
      barOf({
        id: "SpinSearch beyond 11/9 OPT + 1 clusters",
        unit: "states",
        target: REPORTED,
        got: beyondBound,
        paper: 0,
      }),
    ],
    table: {
      title: `Up to 12 clusters, ${String(judged)} states: share equal to the optimum; of the others: no answer, more clusters (worst), lower bottleneck (mean share of the optimum's), more stranded (worst)`,
      columns: ["METHOD", "EQUAL", "NONE", "CLUSTERS", "BOTTLENECK", "STRANDED"],
      rows: [...tallies.values()].map((tally) => tallyRow(tally, judged)),
    },
    details: { judged, split, tallies: [...tallies.values()] },
  };
}

/** On a large fleet: never worse than SpinSearch, and what integer programs say. */
export async function measureScale(
  topology: Topology,
  request: BenchRequest,
): Promise<readonly Bar[]> {
  const random = randomFrom(request.seed, "scale");
  const opinions = request.size("second-opinions");
  const states = Math.max(opinions, Math.floor(request.size("scenes") / 10));
  let [asked, worse, equal, answered] = [0, 0, 0, 0];
  for (let state = 0; state < states; state += 1) {
    request.interrupted.throwIfAborted();
    const question = questionOf(topology, random);
    if (question === undefined) continue;
    const { target, room } = question;
    asked += 1;
    const ours = scored("ours", bestClusters(target, room).choice, question);
    const spun = scored("SpinSearch", spinSearch(target, room).choice, question);
    if (spun !== undefined && (ours === undefined || compareScores(ours, spun) > 0)) worse += 1;
    if (state >= opinions || ours === undefined) continue;
    request.say(`placement: second opinion ${String(state + 1)} of ${String(opinions)}`);
    const limits = { timeLimitMs: 60_000 };
    const { choice } = await ilpClusters(target, room, { solverFor, limits });
    if (choice === undefined) continue;
    answered += 1;
    if (compareScores(ours, scoreChoice(choice, room)) <= 0) equal += 1;
  }
  const clusters = String(topology.gpus.length);
  return [
    barOf({
      id: `worse than SpinSearch, ${clusters} clusters`,
      unit: "states",
      target: exactly(0),
      got: asked === 0 ? undefined : worse,
      note: `${String(asked)} states`,
    }),
    barOf({
      id: `as good as integer programs, ${clusters} clusters`,
      unit: "%",
      target: opinions === 0 ? REPORTED : atLeast(100),
      got: opinions === 0 ? 0 : answered === 0 ? undefined : (100 * equal) / answered,
      note: `${String(answered)} of ${String(opinions)} answered`,
    }),
  ];
}

/** Given ones in turn, up to twelve clusters of each; drawn ones where none was given. */
function sceneTopology(sources: readonly Topology[], scene: number, random: Random): Topology {
  const source = sources[scene % Math.max(1, sources.length)];
  const count = 2 + random.below(MOST_CLUSTERS - 1);
  if (source !== undefined) {
    const all = source.gpus.map((_, at) => at);
    return partOf(source, shuffled(all, random).slice(0, count));
  }
  const isWhole = random.unit() < 0.5;
  const gpus = Array.from({ length: count }, () =>
    isWhole ? 8 * (1 + random.below(8)) : 1 + random.below(16),
  );
  return drawnTopology(
    { name: "drawn", gpus, linked: 0.6 * random.unit(), widestGbps: 25 },
    random,
  );
}

interface Question {
  readonly target: ClusterDemand;
  readonly room: ClusterRoom;
}

const HISTORIANS: readonly ClusterPolicy[] = [
  bestClusters,
  spinSearch,
  opportunistic,
  (target, room) => scattered(target, room),
];

/** All that every cluster has, in the order of their numbers: leaves odd remainders. */
function scattered(target: ClusterDemand, { free }: ClusterRoom): ReturnType<ClusterPolicy> {
  const gpus: number[] = [];
  const clusters: number[] = [];
  let open = target.gpus;
  for (let cluster = 0; cluster < free.length && open > 0; cluster += 1) {
    const own = Math.min(open, Math.ceil((free[cluster] ?? 0) / 2));
    if (own === 0) continue;
    clusters.push(cluster);
    gpus.push(own);
    open -= own;
  }
  return open > 0 ? { work: free.length } : { choice: { clusters, gpus }, work: free.length };
}

/** A state of the ledger and a request; undefined when no GPU is free. */
function questionOf(topology: Topology, random: Random): Question | undefined {
  const book = openBook(topology);
  const total = topology.gpus.reduce((sum, own) => sum + own, 0);
  const share = OCCUPANCY.least + (OCCUPANCY.most - OCCUPANCY.least) * random.unit();
  for (const arrival of arrivalsOf(topology, HISTORY, random)) {
    makeRoom(book, arrival, random);
    const historian = HISTORIANS[random.below(HISTORIANS.length)] ?? bestClusters;
    const { choice } = historian(arrival.demand, book.room);
    if (choice !== undefined && faultOf(choice, arrival.demand, book.room) === undefined)
      start(book, choice);
  }
  // The last word on how much is held: gangs end, or single GPUs are taken, until it is the drawn share.
  const goal = Math.floor(share * total);
  makeRoom(book, { demand: { gpus: 0, maxClusters: 1 }, most: goal }, random);
  while (book.held < goal) {
    const open = topology.gpus.flatMap((_, at) => ((book.room.free[at] ?? 0) > 0 ? [at] : []));
    const cluster = open[random.below(open.length)];
    if (cluster === undefined) break;
    start(book, { clusters: [cluster], gpus: [1] });
  }
  const free = total - book.held;
  if (free < 1) return undefined;
  const [natural] = arrivalsOf(topology, 1, random);
  const isNatural = random.unit() < 0.5 && natural !== undefined;
  const gpus = isNatural ? Math.min(free, natural.demand.gpus) : 1 + random.below(free);
  const home = random.below(topology.gpus.length);
  return { target: { gpus, maxClusters: topology.gpus.length, home }, room: book.room };
}

function scored(
  name: string,
  choice: ClusterChoice | undefined,
  { target, room }: Question,
): ChoiceScore | undefined {
  if (choice === undefined) return undefined;
  const fault = faultOf(choice, target, room);
  if (fault !== undefined) throw new Error(`${name} answered ${fault}`);
  return scoreChoice(choice, room);
}

function tallyOf(tallies: Map<string, Tally>, name: string): Tally {
  const known = tallies.get(name) ?? {
    name,
    equal: 0,
    none: 0,
    more: 0,
    mostMore: 0,
    narrower: 0,
    widths: 0,
    stranding: 0,
    mostStranded: 0,
  };
  tallies.set(name, known);
  return known;
}

/** A miss counts under the first key that differs. */
function note(tally: Tally, got: ChoiceScore | undefined, want: ChoiceScore): void {
  if (got === undefined) tally.none += 1;
  else if (got.clusters !== want.clusters) {
    tally.more += 1;
    tally.mostMore = Math.max(tally.mostMore, got.clusters - want.clusters);
  } else if (got.bottleneckGbps !== want.bottleneckGbps) {
    tally.narrower += 1;
    tally.widths += got.bottleneckGbps / want.bottleneckGbps;
  } else if (got.strandedGpus !== want.strandedGpus) {
    tally.stranding += 1;
    tally.mostStranded = Math.max(tally.mostStranded, got.strandedGpus - want.strandedGpus);
  } else tally.equal += 1;
}

const depthText = ({ none, more, mostMore, narrower, widths, stranding, mostStranded }: Tally) =>
  `${String(none)} without an answer, ${String(more)} with up to ${String(mostMore)} clusters more, ` +
  `${String(narrower)} at ${narrower === 0 ? "-" : (widths / narrower).toFixed(2)} of the bottleneck, ${String(stranding)} with up to ${String(mostStranded)} GPUs more stranded`;

function tallyRow(tally: Tally, judged: number): readonly string[] {
  const share = (count: number): string => `${((100 * count) / judged).toFixed(1)} %`;
  const { name, equal, none, more, mostMore, narrower, widths, stranding, mostStranded } = tally;
  return [
    name,
    share(equal),
    share(none),
    `${share(more)} (+${String(mostMore)})`,
    `${share(narrower)} (${narrower === 0 ? "-" : (widths / narrower).toFixed(2)})`,
    `${share(stranding)} (+${String(mostStranded)})`,
  ];
}
