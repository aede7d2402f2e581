/** @file Plays worlds, counts what they did, and tells those that broke a law. Processor time, so that other work on the machine changes little. */

import { shrink } from "../../world/story/shrink.ts";
import { diagram, tellStory } from "../../world/story/tell.ts";
import { drawSettings } from "../../world/draw-settings.ts";
import type { Settings } from "../../world/settings.ts";
import { play, type Outcome } from "../../world/world.ts";
import { branchesMetBy, sumOf, type BranchCounts } from "./coverage.ts";
import { atLeast, barOf, exactly } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";

interface Played {
  readonly settings: Settings;
  readonly outcome: Outcome;
  readonly cpuMs: number;
}

/** Failing seeds that are cut and told. */
const MOST_TOLD = 3;

export async function runWorlds(request: BenchRequest): Promise<BenchAnswer> {
  const { seed, say, interrupted } = request;
  const count = request.size("seeds");
  if (request.flag("explain")) explain(drawSettings(seed), say);
  const played: Played[] = [];
  const playAll = async (): Promise<void> => {
    for (let at = seed; at < seed + count; at += 1) {
      interrupted.throwIfAborted();
      const settings = drawSettings(at);
      const before = process.cpuUsage();
      const outcome = play(settings);
      const { user, system } = process.cpuUsage(before);
      played.push({ settings, outcome, cpuMs: (user + system) / 1_000 });
      if (outcome.violation !== undefined)
        say(`seed ${at} breaks "${outcome.violation.law}": ${outcome.violation.message}`);
      // Ctrl-C is heard between two seeds.
      await Promise.resolve();
    }
  };
  const coverage = request.flag("coverage") ? await branchesMetBy(playAll) : undefined;
  if (coverage === undefined) await playAll();
  const broken = played.filter(({ outcome }) => outcome.violation !== undefined);
  for (const { settings } of broken.slice(0, MOST_TOLD)) {
    const { settings: least, plays } = shrink(settings, play);
    say(
      `seed ${settings.seed}: ${least.faults.length} faults, ${least.orders.length} orders and ${least.jobs.length} jobs are enough (${plays} plays)`,
    );
    explain(least, say);
  }
  const answer = answerOf(played, broken.length);
  return coverage === undefined ? answer : withCoverage(answer, coverage);
}

/** Counting branches makes plays slow, so their speed says nothing. */
function withCoverage({ bars, details }: BenchAnswer, coverage: BranchCounts): BenchAnswer {
  const { branches, met } = sumOf(coverage.values());
  const missed = [...coverage].map(([file, of]) => [file, of.branches - of.met] as const);
  return {
    bars: [
      ...bars.filter(({ id }) => !id.startsWith("world/speed") && id !== "world/seeds"),
      barOf({
        id: "world/branches of machines and ledger",
        unit: "%",
        target: atLeast(95),
        got: branches === 0 ? undefined : (100 * met) / branches,
        note: `${met} of ${branches}`,
      }),
    ],
    details: {
      ...details,
      missedBranches: Object.fromEntries(
        missed.filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a),
      ),
    },
  };
}

function explain(settings: Settings, say: BenchRequest["say"]): void {
  const outcome = play(settings, { isTold: true });
  say(tellStory(outcome));
  say(diagram(outcome));
}

function answerOf(played: readonly Played[], broken: number): BenchAnswer {
  const diced = played.filter(({ settings }) => !settings.isDeciding);
  const decided = played.filter(({ settings }) => settings.isDeciding);
  const mean = (of: (outcome: Outcome) => number): number =>
    played.reduce((sum, { outcome }) => sum + of(outcome), 0) / played.length;
  return {
    bars: [
      barOf({ id: "world/violations", unit: "seeds", target: exactly(0), got: broken }),
      barOf({
        id: "world/speed, random planner",
        unit: "events/s",
        target: atLeast(20_000),
        got: speedOf(diced),
        note: "of processor time",
      }),
      // No seed among them is a multiple of ten: then there is nothing to say.
      ...(decided.length === 0
        ? []
        : [
            barOf({
              id: "world/speed, the product's decide",
              unit: "events/s",
              target: atLeast(3_000),
              got: speedOf(decided),
              note: "seeds that are multiples of ten",
            }),
          ]),
      barOf({
        id: "world/seeds",
        unit: "seeds/s",
        // Three hundred in a minute.
        target: atLeast(5),
        got: perSecond(played, () => 1),
        note: "of processor time",
      }),
      barOf({
        id: "world/events a seed",
        unit: "events",
        target: atLeast(2_000),
        got: mean(({ events }) => events),
      }),
      barOf({
        id: "world/jobs a seed",
        unit: "jobs",
        target: atLeast(20),
        got: mean(({ jobs }) => jobs),
      }),
      barOf({
        id: "world/faults a seed",
        unit: "faults",
        target: atLeast(10),
        got: mean(({ faults }) => faults),
      }),
    ],
    details: {
      leases: mean(({ leases }) => leases),
      replays: mean(({ replays }) => replays),
      broken: played.flatMap(({ settings, outcome }) =>
        outcome.violation === undefined ? [] : [{ seed: settings.seed, ...outcome.violation }],
      ),
    },
  };
}

function speedOf(played: readonly Played[]): number | undefined {
  const speed = perSecond(played, ({ outcome }) => outcome.events);
  return speed === undefined ? undefined : Math.round(speed);
}

/** Of processor time. */
function perSecond(played: readonly Played[], of: (each: Played) => number): number | undefined {
  const cpuMs = played.reduce((sum, each) => sum + each.cpuMs, 0);
  const total = played.reduce((sum, each) => sum + of(each), 0);
  return cpuMs === 0 ? undefined : total / (cpuMs / 1_000);
}
