/**
 * @file `bench queue --only bursts`: inference that is a load, in bursts, on a fleet that training saturates; ours beside its rivals.
 *
 * *Wait*: from arrival to the first grant, or to the end of the simulation where there was none; p99 and longest over the jobs of all seeds
 * together. *Kept free*: mean part of the fleet that no job held, whatever kept it free, from the end of the warm-up to the last arrival.
 * Checkpoint and restart cost `GRACE_MS` each; a decision is charged the simulator's 5 ms, so that figures do not depend on the machine.
 */

import { schedulerWith } from "../../simulator/scheduler.ts";
import { paperFleet } from "../../simulator/paper-fleet.ts";
import { atLeast, atMost, barOf, unmeasured, type Bar, type Figure } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { figureText } from "../report.ts";
import { mean, quantile } from "../statistics.ts";
import { BURST_ENTRANTS, OURS, type BurstEntrant } from "./burst-rivals.ts";
import { BURST_CASES, BURST_SEEDS, burstWorkload, type BurstCase } from "./burst-workload.ts";
import { runOne } from "./run-one.ts";

const GRACE_MS = 2_000;
const DECISION_MS = 5;
const MINUTE_MS = 60_000;
/** Jobs that wait at the last arrival are given this long. */
const DRAIN_MS = 60_000;
const MOST_WAIT_MS = 11.3;
const LATENESS_MS = 1_000;
const RIVAL_FACTOR = 10;

interface Played {
  readonly waitsMs: readonly number[];
  /** Shares of the fleet. */
  readonly free: number;
  readonly lost: number;
  readonly evictions: number;
}

interface Figures {
  readonly p99Ms: number;
  readonly longestMs: number;
  readonly late: number;
  readonly free: number;
  readonly lost: number;
  readonly evictions: number;
}

export interface Bursts {
  readonly bars: readonly Bar[];
  readonly tables: readonly BenchTable[];
  readonly details: unknown;
}

export async function measureBursts(request: BenchRequest): Promise<Bursts> {
  const shares = request.chosen("shares");
  const rivals = request.chosen("rivals");
  const seeds = BURST_SEEDS.slice(0, request.size("burst-seeds"));
  const warmUpMs = request.size("burst-warm-up") * MINUTE_MS;
  const lastMs = warmUpMs + request.size("burst-minutes") * MINUTE_MS;
  const entrants = [
    OURS,
    ...Object.values(BURST_ENTRANTS).filter(({ name }) => rivals.includes(name)),
  ];
  const found: { readonly its: BurstCase; readonly of: ReadonlyMap<string, Figures> }[] = [];
  for (const its of BURST_CASES) {
    if (!shares.includes(shareText(its))) continue;
    const of = new Map<string, Figures>();
    for (const entrant of entrants) {
      const played: Played[] = [];
      for (const seed of seeds) {
        played.push(await playBurst({ its, entrant, seed, warmUpMs, lastMs }, request));
        request.say(`bursts at ${shareText(its)} %: ${entrant.name}, seed ${String(seed)}`);
      }
      of.set(entrant.name, figuresOf(played));
    }
    found.push({ its, of });
  }
  return {
    bars: found.flatMap(({ its, of }) => barsOf(its, of)),
    tables: found.map(({ its, of }) => tableOf(its, of)),
    details: found.map(({ its, of }) => ({ ...its, seeds, policies: Object.fromEntries(of) })),
  };
}

async function playBurst(
  {
    its,
    entrant,
    seed,
    warmUpMs,
    lastMs,
  }: {
    readonly its: BurstCase;
    readonly entrant: BurstEntrant;
    readonly seed: number;
    readonly warmUpMs: number;
    readonly lastMs: number;
  },
  ear: Pick<BenchRequest, "say" | "interrupted">,
): Promise<Played> {
  const drawn = burstWorkload(its, seed, lastMs);
  const workload = entrant.workload?.(drawn, its) ?? drawn;
  const result = await runOne(
    {
      fleet: paperFleet({ tenants: workload.tenants }),
      workload,
      policy: entrant.name,
      openScheduler: schedulerWith(entrant.policies(its)),
      seed,
      costs: {
        decisionMs: DECISION_MS,
        cycleIntervalMs: DECISION_MS,
        checkpointMs: GRACE_MS,
        restartMs: GRACE_MS,
      },
      window: { fromShare: warmUpMs / lastMs, toShare: 1 },
      drainMs: DRAIN_MS,
      keepsJobs: true,
    },
    ear,
  );
  const waitsMs = (result.jobRows ?? []).flatMap((row) => {
    const isCounted = row.class === "inference" && row.submittedAtMs >= warmUpMs;
    return isCounted ? [(row.firstGrantAtMs ?? result.endedAtMs) - row.submittedAtMs] : [];
  });
  const { inService, preemptionLoss } = result.gpuSeconds;
  return {
    waitsMs,
    free: 1 - result.occupancy,
    lost: preemptionLoss / inService,
    evictions: result.preemption.evictions,
  };
}

function figuresOf(played: readonly Played[]): Figures {
  const waits = played.flatMap(({ waitsMs }) => waitsMs);
  return {
    p99Ms: quantile(waits, 0.99),
    longestMs: quantile(waits, 1),
    late: waits.filter((wait) => wait > MOST_WAIT_MS).length / waits.length,
    free: mean(played.map(({ free }) => free)),
    lost: mean(played.map(({ lost }) => lost)),
    evictions: mean(played.map(({ evictions }) => evictions)),
  };
}

function barsOf(its: BurstCase, of: ReadonlyMap<string, Figures>): readonly Bar[] {
  const ours = of.get(OURS.name);
  const rivals = [...of].filter(([name]) => name !== OURS.name);
  const id = `bursts-${shareText(its)}`;
  const rivalBar: Omit<Figure, "got"> = {
    id: `${id}-best-rival`,
    unit: "×",
    target: atLeast(RIVAL_FACTOR),
  };
  const best = rivals.reduce<readonly [string, Figures] | undefined>(
    (least, each) => (least === undefined || each[1].p99Ms < least[1].p99Ms ? each : least),
    undefined,
  );
  return [
    barOf({ id: `${id}-p99`, unit: "ms", target: atMost(MOST_WAIT_MS), got: ours?.p99Ms }),
    barOf({
      id: `${id}-kept-free`,
      unit: "%",
      target: atMost(100 * its.kept),
      got: ours && 100 * ours.free,
    }),
    barOf({
      id: `${id}-longest`,
      unit: "ms",
      target: atMost(GRACE_MS + LATENESS_MS),
      got: ours?.longestMs,
    }),
    best === undefined || ours === undefined
      ? unmeasured(rivalBar, "no rival was played")
      : barOf({
          ...rivalBar,
          got: best[1].p99Ms / ours.p99Ms,
          note: `${best[0]}: p99 ${figureText(best[1].p99Ms)} ms with ${figureText(100 * best[1].free)} % kept free`,
        }),
  ];
}

const tableOf = (its: BurstCase, of: ReadonlyMap<string, Figures>): BenchTable => ({
  title: `Inference in bursts on ${shareText(its)} % of the fleet. late: waited above ${String(MOST_WAIT_MS)} ms; free: kept free, mean; lost: to preemption, of all GPU time`,
  columns: ["policy", "p99 ms", "longest ms", "late %", "free %", "lost %", "evictions"],
  rows: [...of].map(([name, figures]) => [
    name,
    figureText(figures.p99Ms),
    figureText(figures.longestMs),
    figureText(100 * figures.late),
    figureText(100 * figures.free),
    figureText(100 * figures.lost),
    figureText(figures.evictions),
  ]),
});

const shareText = ({ inference }: BurstCase): string => String(Math.round(100 * inference));
