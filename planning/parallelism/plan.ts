/**
 * @file Plans the training of a model on given GPUs: data × pipeline × tensor parallel degrees, micro-batch, stages, and the GPU of each stage.
 *
 * The plain splits of candidates.ts come first. The best few are improved by swapping units while the predicted step gets shorter; on many GPUs, or unlike ones, they are arranged again in two
 * levels before. Then steps are played on the links: on many GPUs those of the best few; on few those of all further plain splits whose floors are below the best (further-splits.ts), and layers
 * of the best few move. The shortest step wins; ties go to fewer stages, then fewer replicas.
 * Source: SpiderFlow §4.2 (min T_comp + α T_dp + β T_pp); the degrees of tensor parallelism and the memory limit are ours.
 * Cost: that of the candidates and of the played steps; on many GPUs `SWAP_ATTEMPTS` predictions for each of `FINALISTS`.
 */

import type { FrameworkChoice } from "../../domain/model/framework-names.ts";
import type { MilpProblem, MilpSolver } from "../../lib/milp.ts";
import type { Random } from "../../lib/random.ts";
import {
  arrangedAgain,
  FEW_SWAP_CELLS,
  levelled,
  swapped,
  SWAP_CELLS,
  withGivenBounds,
  type GivenSearch,
} from "./arranged-again.ts";
import {
  byTime,
  degreesKey,
  degreesOf,
  isBetter,
  plainCandidates,
  type Candidate,
  type CandidateRequest,
} from "./candidates.ts";
import { onFirstHosts } from "./first-hosts.ts";
import { frameworkOn } from "./framework.ts";
import { hasFewGpus, playedFurther } from "./further-splits.ts";
import { withKickedLayers } from "./kicked-layers.ts";
import { memoryGiB, type MemoryParts } from "./memory-parts.ts";
import { shortfall } from "./plan-shortfall.ts";
import { played, playedDescents, playedShifts, playedSwaps } from "./played-choice.ts";
import { playersByEstimates, playersByFloors } from "./player.ts";
import { sampled } from "./sampled-choice.ts";
import { instancesProblem } from "./site.ts";
import { boundsOf, layerSums, range, type LayerSums, type Split } from "./split.ts";
import { stageMemory } from "./stage-memory.ts";
import type { StepParts } from "./step-time.ts";

export interface PlanRequest extends CandidateRequest {
  /** Megatron-Core where nobody says. */
  readonly framework?: FrameworkChoice;
  readonly random: Random;
  readonly solver?: (problem: MilpProblem) => MilpSolver;
  /** Stage bounds to try beside those that are found, for plans of as many stages. */
  readonly bounds?: readonly number[];
}

export interface StagePlan {
  /** Its layers; several runs where it is interleaved. */
  readonly runs: readonly (readonly [from: number, to: number])[];
  readonly parameters: number;
  readonly memory: MemoryParts;
  readonly memoryGiB: number;
  /** Of the smallest card that it is on. */
  readonly cardGiB: number;
}

export interface TrainingPlan {
  readonly model: string;
  readonly framework: FrameworkChoice;
  /** Parameters of the model's largest matrix. */
  readonly largestMatrix: number;
  readonly batch: number;
  readonly split: Split;
  readonly stepMs: number;
  readonly parts: StepParts;
  readonly samplesPerSecond: number;
  readonly stages: readonly StagePlan[];
  readonly arrangement: string;
  /** The best plan of each other choice of degrees, shortest first. */
  readonly others: readonly {
    readonly split: Split;
    readonly stepMs: number;
    readonly parts: StepParts;
  }[];
}

export type PlanAnswer =
  | { readonly kind: "planned"; readonly plan: TrainingPlan; readonly stats: PlanStats }
  | { readonly kind: "blocked"; readonly message: string };

export interface PlanStats {
  /** Predictions made. */
  readonly tried: number;
  /** Splits that no memory mode made fit. */
  readonly tooLarge: number;
  readonly programmes: readonly ("optimal" | "feasible")[];
}

const FINALISTS = 5;
/** On few GPUs, choices of degrees whose units change places and whose layers move in the end; on many the best one. */
const LAST_FEW = 3;
/** Of played steps: moments × units. */
const KICKED_WORK = 4e6;
/** Of few GPUs, of the splits that were arranged again, so many whose units change places as on many GPUs. */
const LONG_SWAPPED = 3;

export async function planTraining(request: PlanRequest): Promise<PlanAnswer> {
  const { model, site, batch, random, solver } = request;
  const instances = instancesProblem(site.hosts);
  if (instances !== undefined) return { kind: "blocked", message: instances };
  const sums = layerSums(model, frameworkOn(site, request.framework));
  const search: GivenSearch = { request, sums, tried: 0 };
  let tooLarge = 0;
  const byDegrees = new Map<string, Candidate>();
  /** The same degrees with sequences shared out otherwise. */
  const further: Candidate[] = [];
  const keep = (candidate: Candidate): void => {
    const key = degreesKey(candidate.split);
    const held = byDegrees.get(key);
    if (held === undefined || isBetter(candidate, held)) byDegrees.set(key, candidate);
  };
  for (const { units, degrees } of degreesOf(request, sums))
    for (const each of degrees) {
      const [found, ...less] = plainCandidates(search, each, units);
      if (found === undefined) tooLarge += 1;
      else keep(levelled(search, found));
      further.push(...less);
    }
  const programmes: ("optimal" | "feasible")[] = [];
  const sorted = [...byDegrees.values()].sort(byTime);
  const isFew = hasFewGpus(site);
  const again = isFew && !hasUnlikeHosts(site) ? 0 : FINALISTS;
  const arranged: Candidate[] = [];
  for (const finalist of sorted.slice(0, again)) {
    const swapCells = isFew ? FEW_SWAP_CELLS : SWAP_CELLS;
    const found = await arrangedAgain(search, finalist, { random, solver, swapCells });
    programmes.push(...found.programmes);
    arranged.push(...found.found);
    for (const candidate of found.found) keep(candidate);
  }
  if (isFew)
    for (const candidate of [...arranged].sort(byTime).slice(0, LONG_SWAPPED))
      keep(swapped(search, candidate));
  const shortest = (): Candidate[] => [...byDegrees.values()].sort(byTime);
  let players = playersByFloors(search);
  if (isFew) {
    const known = [
      ...byDegrees.values(),
      ...further,
      ...sorted.slice(again, FINALISTS).map((each) => swapped(search, each, FEW_SWAP_CELLS)),
    ];
    const starts = playedFurther(
      [...known, ...known.flatMap((each) => withGivenBounds(search, each))],
      search,
      players,
    );
    for (const candidate of [...starts, ...playedDescents(starts, search, players)])
      keep(candidate);
  }
  // Steps too long to be played so often are played as those of many GPUs.
  const isPlayed = isFew && shortest()[0]?.isPlayed === true;
  if (!isPlayed) {
    players = playersByEstimates(search);
    for (const candidate of played(shortest(), search))
      byDegrees.set(degreesKey(candidate.split), candidate);
    for (const candidate of sampled([...byDegrees.values(), ...further], search)) keep(candidate);
  }
  for (const candidate of shortest().slice(0, isPlayed ? LAST_FEW : 1))
    keep(playedShifts(playedSwaps(candidate, search, players), search, players));
  const [first, ...others] = shortest();
  const best =
    first && isPlayed
      ? withKickedLayers(first, search, {
          player: players(KICKED_WORK),
          random: random.stream("layers"),
        })
      : first;
  if (best === undefined)
    return { kind: "blocked", message: shortfall({ model, site, batch, sums }) };
  return {
    kind: "planned",
    plan: planOf(best, { request, sums, others }),
    stats: { tried: search.tried, tooLarge, programmes },
  };
}

/** Whether two hosts have other GPUs, or their clusters fabrics of other rates. */
function hasUnlikeHosts({ hosts, fabric }: PlanRequest["site"]): boolean {
  const kinds = new Set(
    hosts.map(({ cluster, teraflops, memoryGiB, inside }) =>
      [teraflops, memoryGiB, inside.gbs, fabric(cluster).gbs].join(),
    ),
  );
  return kinds.size > 1;
}

interface Told {
  readonly request: PlanRequest;
  readonly sums: LayerSums;
  readonly others: readonly Candidate[];
}

function planOf(
  { split: found, time, arrangement }: Candidate,
  { request, sums, others }: Told,
): TrainingPlan {
  const { model, site, batch } = request;
  const split = onFirstHosts(found, site);
  const stages = Array.from({ length: split.stages }, (_, stage): StagePlan => {
    const runs = Array.from({ length: split.runs ?? 1 }, (__, own) =>
      boundsOf(split, own * split.stages + stage),
    );
    const memory = stageMemory(split, stage, sums);
    const cells = split.cells.slice(stage * split.replicas, (stage + 1) * split.replicas);
    return {
      runs,
      parameters: runs.reduce((sum, [from, to]) => sum + range(sums.parameters, from, to), 0),
      memory,
      memoryGiB: memoryGiB(memory),
      cardGiB: Math.min(...cells.map(({ host }) => site.hosts[host]?.memoryGiB ?? 0)),
    };
  });
  return {
    model: model.name,
    framework: request.framework ?? "megatron",
    largestMatrix: sums.largestMatrix,
    batch,
    split,
    stepMs: time.totalMs,
    parts: time.parts,
    samplesPerSecond: (1000 * batch) / time.totalMs,
    stages,
    arrangement,
    others: others.map((other) => ({
      split: other.split,
      stepMs: other.time.totalMs,
      parts: other.time.parts,
    })),
  };
}
