/**
 * @file The race with Slurm: a trial of each of its settings, then rounds in which both and the product do the same work in turns.
 *
 * A race that a contestant cannot do here, or that goes wrong, is null with the reason; the others go on.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import { openQuietFleet } from "../live/world.ts";
import { quantile } from "../statistics.ts";
import { ourContestant, RACE_FLEET } from "./ours.ts";
import { RACES, WANTS, type Contestant, type RaceName } from "./races.ts";
import { DEFAULTS, installSlurm, startSlurm, TUNED, type SlurmCluster } from "./slurm.ts";
import { slurmContestant } from "./slurm-races.ts";
import { openThrowawayRoot, type ThrowawayRoot } from "./throwaway-root.ts";

/** What a folder of state promises, beside a history. */
const PROMISE =
  "Slurm saves its state every few seconds and may forget what came since; each of our steps is in a history before it counts";

/** Milliseconds, or the reason why there are none. */
type Got = { readonly ms: number } | { readonly why: string };

export async function runRace(request: BenchRequest): Promise<BenchAnswer> {
  const dir = await mkdtemp(join(tmpdir(), "orbweaver-race-"));
  let root: ThrowawayRoot | undefined;
  try {
    let slurm: string;
    try {
      if (process.getuid?.() !== 0) throw new Error("a throw-away root needs root");
      root = await openThrowawayRoot(dir);
      request.say("installing Slurm in a throw-away root");
      slurm = await installSlurm(root);
    } catch (error) {
      return { bars: absentBars(error instanceof Error ? error.message : String(error)) };
    }
    return await raceWith({ request, root, shared: join(dir, "shared"), slurm });
  } finally {
    await root?.close();
    await rm(dir, { recursive: true, force: true });
  }
}

interface Place {
  readonly request: BenchRequest;
  readonly root: ThrowawayRoot;
  readonly shared: string;
  /** Its name and version. */
  readonly slurm: string;
}

async function raceWith(place: Place): Promise<BenchAnswer> {
  const { request, root, shared, slurm } = place;
  const start = (settings: typeof DEFAULTS): Promise<SlurmCluster> =>
    startSlurm(root, shared, settings);
  request.say("starting a server, workers and an agent");
  const world = await openQuietFleet({ request }, RACE_FLEET);
  try {
    const defaults = await start(DEFAULTS);
    const tuned = await Promise.all(TUNED.map(start));
    const ours = ourContestant(world);
    const trials = new Map<Contestant, ReadonlyMap<RaceName, Got>>();
    for (const cluster of tuned) {
      const contestant = slurmContestant(cluster);
      trials.set(contestant, await oneRound(request, contestant));
    }
    const bestOf = (race: RaceName): Contestant => {
      const [first, ...rest] = [...trials.keys()];
      if (first === undefined) throw new Error("no settings of Slurm are listed");
      const msOf = (contestant: Contestant): number => {
        const got = trials.get(contestant)?.get(race);
        return got !== undefined && "ms" in got ? got.ms : Infinity;
      };
      return rest.reduce((best, each) => (msOf(each) < msOf(best) ? each : best), first);
    };
    const usual = slurmContestant(defaults);
    // The first jobs pay for caches and compilers.
    await oneRound(request, ours);
    const rounds = new Map<string, Got[]>();
    for (let round = 1; round <= request.size("rounds"); round += 1) {
      request.say(`round ${String(round)} of ${String(request.size("rounds"))}`);
      for (const race of RACES)
        for (const [as, contestant] of [
          ["defaults", usual],
          ["best", bestOf(race)],
          ["ours", ours],
        ] as const) {
          // prettier-ignore
          const key = `${race} ${as}`;
          rounds.set(key, [...(rounds.get(key) ?? []), await one(request, contestant, race)]);
        }
    }
    await Promise.all([defaults, ...tuned].map((cluster) => cluster.stop()));
    const bars = RACES.flatMap((race) => {
      const of = (as: string): Got => medianOf(rounds.get(`${race} ${as}`) ?? []);
      return barsOf(race, {
        defaults: of("defaults"),
        best: of("best"),
        ours: of("ours"),
        note: `${slurm}; best: ${bestOf(race).name}`,
      });
    });
    bars.push(...(await raceQueues(place, ours)));
    return {
      bars,
      tables: [trialTable(trials)],
      details: { rival: request.text("rival"), version: slurm, promise: PROMISE },
    };
  } finally {
    await world.stop();
  }
}

/** On fresh clusters, whose tables of jobs have room, one after the other. */
async function raceQueues(
  { request, root, shared, slurm }: Place,
  ours: Contestant,
): Promise<readonly Bar[]> {
  const [jobs, lists] = [request.size("queued"), request.size("lists")];
  const fills: string[] = [];
  const listed = async (contestant: Contestant): Promise<Got> =>
    caught(async () => {
      request.say(`queue: ${contestant.name}`);
      const { fillMs, listMs } = await contestant.queue(jobs, lists);
      fills.push(`${contestant.name} filled it in ${(fillMs / 1_000).toFixed(1)} s`);
      return listMs;
    });
  const onFresh = async (settings: typeof DEFAULTS): Promise<Got> => {
    const cluster = await startSlurm(root, shared, settings);
    try {
      return await listed(slurmContestant(cluster));
    } finally {
      await cluster.stop();
    }
  };
  const defaults = await onFresh(DEFAULTS);
  let best: Got = { why: "no settings of Slurm are listed" };
  for (const settings of TUNED) {
    const got = await onFresh(settings);
    if ("ms" in got && !("ms" in best && best.ms <= got.ms)) best = got;
    else if (!("ms" in best)) best = got;
  }
  const mine = await listed(ours);
  return barsOf("queue", { defaults, best, ours: mine, note: `${slurm}; ${fills.join(", ")}` });
}

async function oneRound(
  request: BenchRequest,
  contestant: Contestant,
): Promise<ReadonlyMap<RaceName, Got>> {
  const got = new Map<RaceName, Got>();
  for (const race of RACES) got.set(race, await one(request, contestant, race));
  return got;
}

async function one(request: BenchRequest, contestant: Contestant, race: RaceName): Promise<Got> {
  const got = await caught(() => {
    request.interrupted.throwIfAborted();
    switch (race) {
      case "array":
        return contestant.array(request.size("tasks"));
      case "gangs":
        return contestant.gangs(request.size("gangs"));
      case "jobs":
        return contestant.jobs(request.size("jobs"));
      case "start":
        return contestant.start();
      case "preempt":
        return contestant.preempt();
    }
  });
  request.say(`${contestant.name}, ${race}: ${"ms" in got ? `${got.ms.toFixed(0)} ms` : got.why}`);
  return got;
}

async function caught(measure: () => Promise<number>): Promise<Got> {
  try {
    return { ms: await measure() };
  } catch (error) {
    return { why: error instanceof Error ? error.message : String(error) };
  }
}

function medianOf(got: readonly Got[]): Got {
  const failed = got.find((each) => "why" in each);
  if (failed !== undefined) return failed;
  return {
    ms: quantile(
      got.flatMap((each) => ("ms" in each ? [each.ms] : [])),
      0.5,
    ),
  };
}

interface Times {
  readonly defaults: Got;
  readonly best: Got;
  readonly ours: Got;
  readonly note: string;
}

function barsOf(race: RaceName | "queue", times: Times): readonly Bar[] {
  const { ours, note } = times;
  const wants = WANTS[race];
  return [
    barOfGot({ id: `${race}-ms`, unit: "ms", target: REPORTED }, ours, note),
    ...(["defaults", "best"] as const).flatMap((as) => {
      const rival = times[as];
      const ratio: Got =
        "why" in ours
          ? ours
          : "why" in rival
            ? rival
            : { ms: wants.as === "speed" ? rival.ms / ours.ms : ours.ms / rival.ms };
      return [
        barOfGot({ id: `${race}-slurm-${as}-ms`, unit: "ms", target: REPORTED }, rival),
        barOfGot({ id: `${race}-${wants.as}-${as}`, unit: "×", target: wants[as] }, ratio),
      ];
    }),
  ];
}

function barOfGot(figure: Omit<Parameters<typeof barOf>[0], "got">, got: Got, note?: string): Bar {
  return "why" in got
    ? unmeasured(figure, got.why)
    : barOf({ ...figure, got: got.ms, ...(note !== undefined && { note }) });
}

const absentBars = (why: string): readonly Bar[] =>
  [...RACES, "queue" as const].flatMap((race) =>
    barsOf(race, { defaults: { why }, best: { why }, ours: { why }, note: why }),
  );

function trialTable(trials: ReadonlyMap<Contestant, ReadonlyMap<RaceName, Got>>): BenchTable {
  return {
    title: "trials of Slurm's settings, ms",
    columns: ["settings", ...RACES],
    rows: [...trials].map(([{ name }, got]) => [
      name,
      ...RACES.map((race) => {
        const each = got.get(race);
        return each !== undefined && "ms" in each ? each.ms.toFixed(0) : "–";
      }),
    ]),
  };
}
