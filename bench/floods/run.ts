/** @file The floods of `bench floods`, one after the other, each on a server and a fleet of its own. */

import { atMost, barOf, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import { FLOOD_PARTS, type FloodPart } from "../floods.ts";
import { BENCH_FLEET } from "../live/fleet.ts";
import { openQuietFleet } from "../live/world.ts";
import { quantile } from "../statistics.ts";
import { attack, type Attack, type AttackTimes } from "./attack.ts";
import { timedJobs } from "./bystander.ts";

const MOST_DURING_MS = 10_000;
const MOST_AFTER = 5;
/** The first jobs pay for caches and compilers. */
const WARM_UP = 4;

export async function runFloods(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = new Set(request.chosen("only"));
  const measured: (readonly [FloodPart, AttackTimes])[] = [];
  for (const part of FLOOD_PARTS.filter((each) => chosen.has(each))) {
    request.say(`${part}: starting a server, workers and an agent`);
    measured.push([part, await measure(part, request)]);
  }
  return {
    bars: measured.flatMap(([part, times]) => barsOf(part, times)),
    tables: [tableOf(measured)],
    details: Object.fromEntries(measured),
  };
}

async function measure(part: FloodPart, request: BenchRequest): Promise<AttackTimes> {
  const world = await openQuietFleet({ request }, BENCH_FLEET);
  try {
    const label = `${world.fleet}-${part}`;
    await timedJobs(world, { count: WARM_UP, label: `${label}-warm` });
    const rounds = request.size("rounds");
    const idleMs = await timedJobs(world, { count: rounds, label: `${label}-idle` });
    world.check();
    request.say(`${part}: the flood`);
    const { address } = world;
    return await attack(world, attackOf(part, request), {
      address,
      label,
      idleMs,
      jobsAfter: rounds,
    });
  } finally {
    await world.stop();
  }
}

function attackOf(part: FloodPart, request: BenchRequest): Attack {
  const inFlight = request.size("in-flight");
  return part === "more-junk"
    ? { flood: "junk", count: 2 * request.size("junk"), inFlight }
    : { flood: part, count: request.size(part), inFlight };
}

function barsOf(
  part: FloodPart,
  { idleMs, duringMs, afterMs, taken }: AttackTimes,
): readonly Bar[] {
  const idle = quantile(idleMs, 0.5);
  return [
    barOf({
      id: `${part}-during-max`,
      unit: "ms",
      target: atMost(MOST_DURING_MS),
      got: quantile(duringMs, 1),
      note: `${String(duringMs.length)} jobs; the server took ${String(taken)} of the flood`,
    }),
    barOf({
      id: `${part}-after-ratio`,
      unit: "×",
      target: atMost(MOST_AFTER),
      got: quantile(afterMs, 0.5) / idle,
      note: `medians of ${String(afterMs.length)} jobs after and ${String(idleMs.length)} before`,
    }),
  ];
}

const tableOf = (measured: readonly (readonly [FloodPart, AttackTimes])[]): BenchTable => ({
  title: "Another tenant's job of one GPU, from submit call to end, in ms",
  columns: [
    "flood",
    "taken",
    "lasted",
    "idle p50",
    "during p50",
    "during max",
    "after p50",
    "after max",
  ],
  rows: measured.map(([part, { taken, floodMs, idleMs, duringMs, afterMs }]) => [
    part,
    String(taken),
    ...[
      floodMs,
      quantile(idleMs, 0.5),
      quantile(duringMs, 0.5),
      quantile(duringMs, 1),
      quantile(afterMs, 0.5),
      quantile(afterMs, 1),
    ].map((ms) => (Number.isFinite(ms) ? ms.toFixed(0) : "never")),
  ]),
});
