/**
 * @file Chooses the GPUs with the highest predicted collective bandwidth, within a budget of predictions.
 *
 * 1. The answers that the caller names, the compact one of Topo (compact.ts) and those of EHA (balanced.ts): the pick is never predicted to
 *    be worse than any of them.
 *    Where hosts are known to differ in strength also sets on strong hosts of few racks (racked.ts).
 * 2. The best set of every host that holds the whole gang.
 * 3. Where there are few ways to split the gang over the hosts: all of them, the most promising first (exact-counts.ts). The answer is
 *    exact over per-host counts if the budget lasts.
 * 4. Else shapes, seated on the hosts by two rules (shapes.ts), for half of the remaining budget; then steps to the best change of the
 *    best candidate (moves.ts), until none is better or the budget is spent.
 * Where the predictor is clamped, a candidate with a host slower than the best answer is skipped unpredicted.
 * Ties: search.ts. Cost: the budget, and O(hosts · log hosts) beside it. Source: BandPilot §4.3, with our own search.
 */

import type { Candidate } from "./bandwidth-port.ts";
import { balancedCandidates } from "./balanced.ts";
import { compactPick } from "./compact.ts";
import { enterWays, countWays } from "./exact-counts.ts";
import { allOptions, type HostOptions } from "./host-options.ts";
import { movesFrom } from "./moves.ts";
import { rackedCandidates } from "./racked.ts";
import { openContest, type Contest, type PickBudget, type PickSearch } from "./search.ts";
import { openSeats, shapesOf, type Seats } from "./shapes.ts";

/** 35 candidates of four hosts: on the paper's clusters as good as all ways. About 5 ms of one core. */
const PICK_BUDGET: PickBudget = Object.freeze({ work: 140 });
/** The same for clusters of more than `FEW_HOSTS`, where a candidate has more shares. About 30 ms. */
const LARGE_PICK_BUDGET: PickBudget = Object.freeze({ work: 600 });
const FEW_HOSTS = 8;
/** Of the whole budget, what EHA's candidates may take: its first ones. */
export const EHA_SHARE = 0.2;
/** Ways that are worth listing; there are 489 of 16 GPUs on four free hosts of 8. */
const MOST_WAYS = 5_000;
/** Of what is left after that. */
const SHAPES_SHARE = 0.5;
/** Shares of the shapes that are looked at without a prediction being spent on any. */
const MOST_SEATED = 12_000;
/** The same where strengths are known: sets rack by rack come before all shapes, and those beyond these have changed no pick of the bench. */
const MOST_SEATED_RACKED = 3_000;
/** Candidates between two looks at what the best so far rules out. */
const STEP = 32;
const MOST_STEPS = 100;

export const usualBudget = (hosts: number): PickBudget =>
  hosts > FEW_HOSTS ? LARGE_PICK_BUDGET : PICK_BUDGET;

export const searchPick: PickSearch = (question, given) => {
  const { predictor, freeMasks, gpus, isSameHost = false, also = [] } = question;
  const budget = given ?? usualBudget(predictor.domain.hosts.length);
  const hosts = allOptions(predictor.domain, freeMasks);
  const contest = openContest(question);
  contest.enter(also);
  contest.enter(onOneHost(hosts, gpus));
  if (isSameHost) return contest.result(true);
  const compact = compactPick(hosts, gpus);
  if (compact !== undefined) contest.enter([compact]);
  contest.enter(rackedCandidates(question, hosts));
  contest.enter(balancedCandidates(question, budget.work * EHA_SHARE));
  if (countWays(hosts, gpus) <= MOST_WAYS)
    return contest.result(enterWays(contest, hosts, { ...question, until: budget.work }));
  const seats = openSeats(hosts);
  const mostSeated = predictor.strengthOf === undefined ? MOST_SEATED : MOST_SEATED_RACKED;
  enterShapes(contest, { hosts, seats, gpus, mostSeated, until: halfway(contest, budget) });
  climb(contest, { hosts, seats, until: budget.work });
  return contest.result(false);
};

const onOneHost = (hosts: readonly HostOptions[], gpus: number): readonly Candidate[] =>
  hosts.flatMap(({ host, masks }) => {
    const mask = masks[gpus];
    return mask === undefined ? [] : [[{ host, mask }]];
  });

const halfway = (contest: Contest, { work }: PickBudget): number =>
  contest.work() + Math.max(0, work - contest.work()) * SHAPES_SHARE;

interface Field {
  readonly hosts: readonly HostOptions[];
  readonly seats: Seats;
  /** Work at which to stop. */
  readonly until: number;
}

interface ShapesField extends Field {
  readonly gpus: number;
  readonly mostSeated: number;
}

function enterShapes(contest: Contest, field: ShapesField): void {
  const { hosts, seats, gpus, mostSeated, until } = field;
  let seated = 0;
  let batch: Candidate[] = [];
  let ahead = contest.work();
  const least = contest.workFor(compactPick(hosts, gpus) ?? []);
  for (const shape of shapesOf(hosts, gpus)) {
    seated += shape.length;
    if (seated > mostSeated || ahead + least > until) break;
    for (const rule of ["fast", "snug"] as const) {
      const way = seats.seat(shape, rule);
      if (way === undefined || contest.isBeaten(way.slowestGbs)) continue;
      const work = contest.workFor(way.pick);
      if (ahead + work > until) continue;
      batch.push(way.pick);
      ahead += work;
    }
    if (batch.length < STEP && ahead + least <= until) continue;
    contest.enter(batch);
    batch = [];
    // What came up before costs nothing.
    ahead = contest.work();
  }
  contest.enter(batch);
}

/** To the best change of the best, as long as there is one that is better. */
function climb(contest: Contest, { hosts, seats, until }: Field): void {
  const ground = { hosts: new Map(hosts.map((host) => [host.host, host])), seats };
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const before = contest.leader();
    if (before === undefined) return;
    const next: Candidate[] = [];
    let ahead = contest.work();
    for (const pick of movesFrom(before.pick, ground)) {
      ahead += contest.workFor(pick);
      if (ahead > until) break;
      next.push(pick);
    }
    contest.enter(next);
    if (contest.leader() === before) return;
  }
}
