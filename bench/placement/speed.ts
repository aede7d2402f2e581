/**
 * @file The time of decisions on an evolving ledger, and the quality of the ledger that they lead to.
 *
 * Each method first plays all arrivals with every answer verified; then plays them again by the clock: processor time of the process over
 * the whole play, so the ledger's upkeep (gangs that end, links that are shared) is in the figure. The median of five. Slow methods decide fewer times; their figures
 * are scaled and marked. The integer programs decide on states of our own ledger.
 */

import { randomFrom } from "../../lib/random.ts";
import { solverFor } from "../../solvers/index.ts";
import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import { bottleneckOf } from "../../scheduling/placement/link-graph.ts";
import { ilpClusters } from "../rivals/placement/ilp-clusters.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { quantile } from "../statistics.ts";
import { entrantsFor, type Entrant } from "./entrants.ts";
import { arrivalsOf, faultOf, makeRoom, openBook, start, type Arrival } from "./play.ts";
import type { Topology } from "./topology.ts";

export interface SpeedSettings {
  readonly topology: Topology;
  /** Seconds for ten thousand decisions; absent: reported. */
  readonly bars?: Readonly<Record<string, number>>;
  readonly paper?: Readonly<Record<string, number>>;
}

export interface Timed {
  readonly name: string;
  /** For ten thousand decisions. */
  readonly cpuSeconds: number;
  readonly wallSeconds: number;
  readonly decisions: number;
}

export interface SpeedFound {
  readonly topology: string;
  readonly timed: readonly Timed[];
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
}

const DECISIONS = 10_000;
const ROUNDS = 5;

export async function measureSpeed(
  { topology, bars = {}, paper = {} }: SpeedSettings,
  request: BenchRequest,
): Promise<SpeedFound> {
  const { seed } = request;
  const { name } = topology;
  const arrivals = arrivalsOf(topology, request.size("decisions"), randomFrom(seed, "arrivals"));
  const timed: Timed[] = [];
  const rows: (readonly string[])[] = [];
  for (const entrant of entrantsFor(topology.gpus.length)) {
    request.interrupted.throwIfAborted();
    request.say(`placement: ${entrant.name} on ${name}`);
    const own = entrant.isSlow === true ? arrivals.slice(0, request.size("genetic")) : arrivals;
    const made = playChecked(topology, own, { entrant, seed });
    const rounds = Array.from({ length: entrant.isSlow === true ? 1 : ROUNDS }, () =>
      playTimed(topology, own, { entrant, seed }),
    );
    const scale = DECISIONS / own.length / 1_000;
    const of: Timed = {
      name: entrant.name,
      cpuSeconds:
        quantile(
          rounds.map(({ cpuMs }) => cpuMs),
          0.5,
        ) * scale,
      wallSeconds:
        quantile(
          rounds.map(({ wallMs }) => wallMs),
          0.5,
        ) * scale,
      decisions: own.length,
    };
    timed.push(of);
    rows.push(rowOf(of, made));
  }
  const ilp = await timeIlp(topology, arrivals, request);
  timed.push(ilp.timed);
  rows.push(rowOf(ilp.timed, undefined));
  return {
    topology: name,
    timed,
    bars: [
      ...timed.map((each) => {
        const limit = bars[each.name];
        const known = paper[each.name];
        const scaled =
          each.decisions === DECISIONS ? "" : `; ${String(each.decisions)} decisions, scaled`;
        return barOf({
          id: `${name}: ${each.name}`,
          unit: "s CPU / 10,000",
          target: limit === undefined ? REPORTED : atMost(limit),
          got: each.cpuSeconds,
          ...(known !== undefined && { paper: known }),
          note: `wall ${each.wallSeconds.toFixed(3)} s${scaled}${each.name === "ILP" ? ilp.note : ""}`,
        });
      }),
    ],
    table: {
      title: `${name}: 10,000 decisions on an evolving ledger, 30 to 95 % of ${String(topology.gpus.reduce((sum, own) => sum + own, 0))} GPUs held; CLUSTERS and GB/S are means of the gangs that lie over several`,
      columns: ["METHOD", "CPU S", "WALL S", "GRANTED", "SPLIT", "CLUSTERS", "GB/S"],
      rows,
    },
  };
}

interface Played {
  readonly granted: number;
  readonly split: number;
  readonly clusters: number;
  readonly gbs: number;
}

interface Player {
  readonly entrant: Entrant;
  readonly seed: number;
}

function playChecked(
  topology: Topology,
  arrivals: readonly Arrival[],
  { entrant, seed }: Player,
): Played {
  const book = openBook(topology);
  const ends = randomFrom(seed, "ends");
  let [granted, split, clusters, gbs] = [0, 0, 0, 0];
  for (const arrival of arrivals) {
    makeRoom(book, arrival, ends);
    const { choice } = entrant.policy(arrival.demand, book.room);
    if (choice === undefined) continue;
    const fault = faultOf(choice, arrival.demand, book.room);
    if (fault !== undefined) throw new Error(`${entrant.name} answered ${fault}`);
    granted += 1;
    if (choice.clusters.length > 1) {
      split += 1;
      clusters += choice.clusters.length;
      gbs += bottleneckOf(book.room.links, choice.clusters) / 8;
    }
    start(book, choice);
  }
  return {
    granted: granted / arrivals.length,
    split,
    clusters: clusters / split,
    gbs: gbs / split,
  };
}

function playTimed(topology: Topology, arrivals: readonly Arrival[], { entrant, seed }: Player) {
  const { policy } = entrant;
  const book = openBook(topology);
  const ends = randomFrom(seed, "ends");
  const cpu = process.cpuUsage();
  const wall = performance.now();
  for (const arrival of arrivals) {
    makeRoom(book, arrival, ends);
    const { choice } = policy(arrival.demand, book.room);
    if (choice !== undefined) start(book, choice);
  }
  const { user, system } = process.cpuUsage(cpu);
  return { cpuMs: (user + system) / 1_000, wallMs: performance.now() - wall };
}

const ILP_LIMIT_MS = 20_000;

async function timeIlp(
  topology: Topology,
  arrivals: readonly Arrival[],
  request: BenchRequest,
): Promise<{ readonly timed: Timed; readonly note: string }> {
  const book = openBook(topology);
  const ends = randomFrom(request.seed, "ends");
  const wanted = request.size("ilp");
  const every = Math.max(1, Math.floor(arrivals.length / wanted));
  let [cpuMs, wallMs, decisions, unanswered] = [0, 0, 0, 0];
  request.say(`placement: ILP on ${topology.name}`);
  for (const [at, arrival] of arrivals.entries()) {
    makeRoom(book, arrival, ends);
    if (at % every === every - 1 && decisions < wanted) {
      request.interrupted.throwIfAborted();
      const cpu = process.cpuUsage();
      const wall = performance.now();
      const limits = { timeLimitMs: ILP_LIMIT_MS };
      const { choice } = await ilpClusters(arrival.demand, book.room, { solverFor, limits });
      const { user, system } = process.cpuUsage(cpu);
      cpuMs += (user + system) / 1_000;
      wallMs += performance.now() - wall;
      decisions += 1;
      if (choice === undefined) unanswered += 1;
    }
    const { choice } = bestClusters(arrival.demand, book.room);
    if (choice !== undefined) start(book, choice);
  }
  const scale = DECISIONS / Math.max(1, decisions) / 1_000;
  return {
    timed: { name: "ILP", cpuSeconds: cpuMs * scale, wallSeconds: wallMs * scale, decisions },
    note: `; ${String(unanswered)} without an answer in 3 × ${String(ILP_LIMIT_MS / 1_000)} s`,
  };
}

const rowOf = (
  { name, cpuSeconds, wallSeconds }: Timed,
  made: Played | undefined,
): readonly string[] => [
  name,
  cpuSeconds.toFixed(3),
  wallSeconds.toFixed(3),
  ...(made === undefined
    ? ["-", "-", "-", "-"]
    : [
        `${(100 * made.granted).toFixed(1)} %`,
        String(made.split),
        made.split === 0 ? "-" : made.clusters.toFixed(2),
        made.split === 0 ? "-" : made.gbs.toFixed(3),
      ]),
];
