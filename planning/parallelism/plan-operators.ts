/**
 * @file Plans the training of a model whose operators may be cut into stages in any order in which data goes forward.
 *
 * A model of a profiled graph is planned with its operators in the order of the file first. For the best of its plans with several stages, the
 * operators are cut into as many (pipeline-cut.ts), for the speeds, links and memory of these stages; the plan is made again with the operators in
 * that order and those stages tried. The shortest step wins; ties go to the file's order. Other models are planned as they are.
 * Cost: one cut and one plan of fixed degrees for each of `RECUT` plans.
 */

import { frameworkOn, PARAMETER_BYTES, type Framework } from "./framework.ts";
import { rowModel, type PlanModel, type ProfiledOperators } from "./models.ts";
import { sendersOf, sendRates, sendTime } from "./pipeline-sends.ts";
import { pipelineCut } from "./pipeline-cut.ts";
import type { PipelineTask, StageRoom } from "./pipeline-stages.ts";
import { planTraining, type PlanAnswer, type PlanRequest } from "./plan.ts";
import type { Split } from "./split.ts";
import { orderBy } from "./linear-cut.ts";

const RECUT = 3;
const GIB = 2 ** 30;

export interface PlannedModel {
  readonly answer: PlanAnswer;
  /** The layers that the plan speaks of. */
  readonly model: PlanModel;
}

/** `mayGoOn`: whether there is time to cut for another plan. */
export async function planModel(
  request: PlanRequest,
  mayGoOn: () => boolean = () => true,
): Promise<PlannedModel> {
  const { model } = request;
  const answer = await planTraining(request);
  let best: PlannedModel = { answer, model };
  if (answer.kind === "blocked" || model.profiled === undefined) return best;
  let stepMs = answer.plan.stepMs;
  const splits = [answer.plan, ...answer.plan.others].map(({ split }) => split);
  for (const split of splits.filter(({ stages }) => stages > 1).slice(0, RECUT)) {
    if (!mayGoOn()) break;
    const cut = recut(model.profiled, split, request);
    if (cut === undefined) continue;
    const { replicas, stages, width } = split;
    const again = await planTraining({ ...request, ...cut, fixed: { replicas, stages, width } });
    if (again.kind === "blocked" || again.plan.stepMs >= stepMs) continue;
    stepMs = again.plan.stepMs;
    const others = [answer.plan, ...answer.plan.others].filter(
      (other) => other.split.stages !== stages || other.split.replicas !== replicas,
    );
    best = { answer: { ...again, plan: { ...again.plan, others } }, model: cut.model };
  }
  return best;
}

/** The model with its operators in the order of the stages of a cut, and these stages; undefined where none fits. */
function recut(
  profiled: ProfiledOperators,
  split: Split,
  request: PlanRequest,
): { readonly model: PlanModel; readonly bounds: readonly number[] } | undefined {
  const answer = pipelineCut({
    task: taskOf(profiled, split, request),
    random: request.random.stream(`operators-${split.stages}/${split.replicas}`),
  });
  if (answer.kind === "blocked") return undefined;
  const { stageOf } = answer.pick;
  const order = orderBy(profiled.operators, (operator) => stageOf[operator] ?? 0);
  const borders = order.flatMap((operator, place) =>
    place > 0 && stageOf[operator] !== stageOf[order[place - 1] ?? -1] ? [place] : [],
  );
  const model = rowModel(profiled, order, borders);
  const bounds = [0];
  let place = 0;
  for (const [layer, { operators = [] }] of model.layers.entries()) {
    place += operators.length;
    if (place === (borders[bounds.length - 1] ?? order.length)) bounds.push(layer + 1);
  }
  return { model, bounds };
}

/** The stages of a split as rooms for operators: their slowest host, their smallest card, the slowest link behind them. */
function taskOf(
  { operators, profiledTeraflops }: ProfiledOperators,
  split: Split,
  { site, framework }: Pick<PlanRequest, "site" | "framework">,
): PipelineTask {
  const { stages, replicas, microBatch, microBatches, width, isRecomputing } = split;
  const kept = frameworkOn(site, framework);
  const rateOf = sendRates(split, site, sendersOf(split, site));
  const passes = isRecomputing ? 4 / 3 : 1;
  const rooms = Array.from({ length: stages }, (_, stage): StageRoom => {
    const cells = Array.from({ length: replicas }, (__, replica) => stage * replicas + replica);
    const hosts = cells.flatMap((cell) => site.hosts[split.cells[cell]?.host ?? -1] ?? []);
    const teraflops = Math.min(...hosts.map((host) => host.teraflops));
    const card = Math.min(...hosts.map(({ memoryGiB }) => memoryGiB));
    const perByte = (cell: number): number => {
      const rate = rateOf(cell, cell + replicas);
      return (sendTime(rate, PROBE_BYTES) - sendTime(rate, 0)) / PROBE_BYTES;
    };
    return {
      speed: (teraflops * width) / (profiledTeraflops * microBatch * passes),
      memoryBytes: isRecomputing ? Infinity : (card - kept.reserveGiB) * GIB,
      inFlight: (Math.min(microBatches, stages - stage) * microBatch) / width,
      msPerByte: stage === stages - 1 ? 0 : microBatch * Math.max(...cells.map(perByte)),
    };
  });
  return { graph: operators, stages: rooms, heldPerParameterByte: heldPerByte(split, kept) };
}

const PROBE_BYTES = 1e9;

/** Of a 32-bit parameter as it was profiled: weights, gradients and the optimiser's 12 bytes. */
const heldPerByte = ({ isSharded, replicas }: Split, { gradientBytes }: Framework): number =>
  (PARAMETER_BYTES + gradientBytes + 12 / (isSharded ? replicas : 1)) / 4;
