/**
 * @file Other arrangements of a split, by its bound: in two levels (arrange.ts), with clusters in another order, with units that change places, and with the layers that what its stages send
 * asks for. Cost: two levels once, and the predictions of units that change places.
 */

import type { MilpProblem, MilpSolver } from "../../lib/milp.ts";
import type { Random } from "../../lib/random.ts";
import { twoLevels, type Grid } from "./arrange.ts";
import { boundsOnce } from "./bounds-once.ts";
import {
  evaluated,
  isBetter,
  timed,
  type Candidate,
  type CandidateRequest,
  type Search,
} from "./candidates.ts";
import { clusterOrders } from "./cluster-orders.ts";
import { contextBytes } from "./context-ring.ts";
import { exchangeBytes } from "./expert-exchange.ts";
import { plainOrders } from "./played-choice.ts";
import { unitsOf, type Unit } from "./site.ts";
import {
  boundsOf,
  expertDegree,
  overRuns,
  range,
  runCount,
  samplesOf,
  sharedExperts,
  type LayerSums,
  type Split,
} from "./split.ts";
import { isHeldEverywhere, levelledBounds, shiftedBounds, stageBounds } from "./stage-bounds.ts";
import { whileSwapsHelp } from "./unit-swaps.ts";

/** Of a request that may give stage bounds to try. */
export interface GivenSearch extends Search {
  readonly request: CandidateRequest & { readonly bounds?: readonly number[] };
}

const SWAP_ATTEMPTS = 1_500;
/** Of the layers of a split's stages, by what they send. */
const LEVELLINGS = 3;
/** Cells looked at over all tries of one finalist: a prediction costs as much as there are cells. */
export const SWAP_CELLS = 24_000;
/** The same on few GPUs, where hosts in other orders are looked at beside. */
export const FEW_SWAP_CELLS = 4_000;

interface Arranging {
  readonly random: Random;
  readonly solver: ((problem: MilpProblem) => MilpSolver) | undefined;
  /** Looked at while units change places. */
  readonly swapCells: number;
}

interface Arranged {
  readonly found: readonly Candidate[];
  readonly programmes: readonly ("optimal" | "feasible")[];
}

/** On cells by two levels, and on clusters in another order, with units swapped. */
export async function arrangedAgain(
  search: GivenSearch,
  finalist: Candidate,
  { random, solver, swapCells }: Arranging,
): Promise<Arranged> {
  const { split } = finalist;
  const { site } = search.request;
  const all = unitsOf(site, split.width);
  const units = all?.length === split.cells.length ? all : split.cells;
  const arranged = await twoLevels(gridOf(split, search.sums), {
    site,
    units,
    random: random.stream(
      `${split.width}/${split.stages}/${split.replicas}${split.experts === undefined ? "" : `/${split.experts}`}`,
    ),
    ...(solver !== undefined && { solver }),
  });
  const starts = [reordered(search, finalist, units), ...withGivenBounds(search, finalist)];
  if (arranged !== undefined) {
    const arrangement = "low cut, two levels";
    const again = evaluated(search, { ...split, cells: arranged.cells }, { arrangement });
    if (again !== undefined) starts.push(again);
  }
  return {
    found: starts.map((start) => swapped(search, start, swapCells)),
    programmes: arranged?.programmes ?? [],
  };
}

/** With the bounds that the request gives, where they are for as many stages and fit. */
export function withGivenBounds(
  search: GivenSearch,
  { split, arrangement }: Candidate,
): readonly Candidate[] {
  const { bounds, site } = search.request;
  if (bounds?.length !== split.bounds.length || split.runs !== undefined) return [];
  const given = { ...split, bounds };
  return isHeldEverywhere(given, site, search.sums) ? [timed(search, given, arrangement)] : [];
}

/** The best with clusters in another order, plainly laid out, or what it is. */
function reordered(search: Search, finalist: Candidate, units: readonly Unit[]): Candidate {
  const { split, arrangement } = finalist;
  let best = finalist;
  for (const cells of plainOrders(search, split, clusterOrders(search.request.site, units))) {
    const found = evaluated(search, { ...split, cells }, { arrangement });
    if (found === undefined) continue;
    const next = levelled(search, found);
    if (isBetter(next, best)) best = { ...next, arrangement: "clusters in another order" };
  }
  return best;
}

const SWAPPED = ", units swapped";

/** Units of two cells changed places while that shortens the step. */
export function swapped(search: Search, start: Candidate, cells = SWAP_CELLS): Candidate {
  const { arrangement: former } = start;
  const arrangement = former.endsWith(SWAPPED) ? former : former + SWAPPED;
  let left = Math.min(SWAP_ATTEMPTS, Math.ceil(cells / start.split.cells.length));
  const { site } = search.request;
  const isMixed = new Set(site.hosts.map(({ gpuType }) => gpuType)).size > 1;
  // Cards of one type may differ in their memory.
  const areCardsAlike = new Set(site.hosts.map(({ memoryGiB }) => memoryGiB)).size === 1;
  const boundsFor = boundsOnce(search.request, (open) => stageBounds(open, site, search.sums));
  const exchanged = whileSwapsHelp(start, (next, best) => {
    if (left === 0) return "enough";
    left -= 1;
    // Among equal GPUs the stages stay as they are.
    const tried = isMixed
      ? evaluated(search, next, { arrangement, boundsFor })
      : areCardsAlike || isHeldEverywhere(next, site, search.sums)
        ? timed(search, next, best.arrangement)
        : undefined;
    if (tried === undefined || tried.time.totalMs >= best.time.totalMs - 1e-9) return undefined;
    return { ...tried, arrangement };
  });
  const best = levelled(search, exchanged);
  const shifted = shiftedBounds(best.split, site, search.sums);
  const again = timed(search, shifted, best.arrangement);
  return again.time.totalMs <= best.time.totalMs ? again : best;
}

/** With the layers that what its stages send and exchange asks for, where that is shorter. A stage of the head alone tells its pace only once it has other layers. */
export function levelled(search: Search, found: Candidate): Candidate {
  const { site } = search.request;
  let best = found;
  let { split } = found;
  for (let round = 0; round < LEVELLINGS; round += 1) {
    const next = levelledBounds(split, site, search.sums);
    if (next.bounds.every((bound, at) => bound === split.bounds[at])) break;
    split = next;
    const again = timed(search, split, found.arrangement);
    if (isBetter(again, best)) best = again;
  }
  return best;
}

function gridOf(split: Split, sums: LayerSums): Grid {
  const stages = Array.from({ length: split.stages }, (_, stage) => stage);
  const count = runCount(split);
  return {
    stages: split.stages,
    replicas: split.replicas,
    // After the last run nothing is sent; after an earlier one of the last stage, to the first.
    sendBytes: stages.map((stage) =>
      overRuns(split, stage, (run) => {
        const [, to] = boundsOf(split, run);
        const bytes = 2 * split.microBatches * samplesOf(split) * range(sums.outputs, to - 1, to);
        return run === count - 1 ? 0 : bytes;
      }),
    ),
    reduceBytes: stages.map(
      (stage) =>
        2 * overRuns(split, stage, (run) => range(sums.parameters, ...boundsOf(split, run))) -
        2 * sharedExperts(split, stage, sums),
    ),
    ...(split.contexts !== undefined && {
      contexts: {
        degree: split.contexts,
        ringBytes: stages.map((stage) =>
          overRuns(split, stage, (run) => {
            const { forward, backward } = contextBytes(split, run, sums);
            return split.microBatches * (forward + backward);
          }),
        ),
      },
    }),
    ...(split.experts !== undefined && {
      experts: {
        degree: split.experts,
        reduceBytes: stages.map(
          (stage) => (2 * sharedExperts(split, stage, sums)) / expertDegree(split),
        ),
        exchangeBytes: stages.map((stage) => {
          const bytes = overRuns(split, stage, (run) => {
            const { forward, backward } = exchangeBytes(split, run, sums);
            return forward + backward;
          });
          return split.microBatches * bytes;
        }),
      },
    }),
  };
}
