/**
 * @file What is told of a found plan: its times, what each GPU and bus does, and the paths between the GPUs.
 *
 * The times are those of the executor, without noise. For the next request every copied parameter lies where the cold run left it: on
 * the GPUs to which it was forwarded, else where it landed. Cost: two executions of the plan and two of the one-GPU plans.
 */

import type { InferenceFacts, WayFacts } from "../../domain/model/inference-facts.ts";
import type { InferenceHost } from "../../domain/model/inference-host.ts";
import type { InferencePlan, Resident } from "../../domain/model/inference-plan.ts";
import { bounds } from "./bounds.ts";
import { planOf, type Decisions } from "./decisions.ts";
import { execute } from "./executor.ts";
import { planningProblem, type PlanningProblem } from "./problem.ts";
import { fastestGpu, overlappedPlan, seriesMs } from "./rivals.ts";

export interface FoundPlan {
  readonly decisions: Decisions;
  readonly plan: InferencePlan;
  readonly expectedMs: number;
}

export function planFacts(
  problem: PlanningProblem,
  { decisions, plan, expectedMs }: FoundPlan,
): InferenceFacts {
  const { graph, host } = problem;
  const executed = execute(problem, plan);
  const series = seriesMs(problem, fastestGpu(problem));
  const bytes = (parameter: number): number => graph.parameters[parameter]?.bytes ?? 0;
  const stays = residentAfter(plan);
  const gpus = host.gpus.map(({ name }, gpu) => {
    const queue = plan.gpuQueues[gpu] ?? [];
    const own = executed.spans.filter(({ lane }) => lane.kind === "gpu" && lane.index === gpu);
    const kept = stays.filter((each) => each.gpu === gpu);
    return {
      name,
      operations: queue.reduce((sum, { operations }) => sum + operations.length, 0),
      direct: queue.filter(({ isDirect }) => isDirect).length,
      busyMs: own.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0),
      peakGiB: (executed.peakBytes[gpu] ?? 0) / 2 ** 30,
      residentGiB: kept.reduce((sum, { parameter }) => sum + bytes(parameter), 0) / 2 ** 30,
    };
  });
  const buses = host.buses.map(({ name, busGBs }, bus) => {
    const copies = plan.busQueues[bus] ?? [];
    const gb = copies.reduce((sum, { parameter }) => sum + bytes(parameter), 0) / 1e9;
    const behind = host.gpus.filter((gpu) => gpu.bus === bus).map((gpu) => gpu.name);
    return { name, busGBs, gpus: behind, copies: copies.length, gb };
  });
  return {
    model: graph.name,
    host: host.name,
    expectedMs,
    simulatedMs: executed.latencyMs,
    againMs: againMs(problem, decisions, stays),
    oneGpuMs: { series, overlapped: execute(problem, overlappedPlan(problem)).latencyMs },
    lowerBoundMs: bounds(problem).lowerMs,
    // A model without parameters whose kernels take no time is as fast anywhere.
    speedUp: executed.latencyMs > 0 ? series / executed.latencyMs : 1,
    gpus,
    buses,
    ways: waysOf(host),
  };
}

function residentAfter({ busQueues, resident }: InferencePlan): readonly Resident[] {
  const landed = busQueues.flat().flatMap(({ parameter, gpu, forwards }) => {
    const on = forwards.length === 0 ? [gpu] : forwards;
    return on.map((each) => ({ parameter, gpu: each }));
  });
  return [...resident, ...landed];
}

function againMs(
  { graph, host, graphIndex }: PlanningProblem,
  decisions: Decisions,
  resident: readonly Resident[],
): number {
  const warm = planningProblem(graph, host, { order: [...graphIndex], resident });
  return execute(warm, planOf(warm, decisions)).latencyMs;
}

function waysOf({ gpus, peers }: InferenceHost): readonly WayFacts[] {
  const found = new Map<string, { kind: WayFacts["kind"]; peerGBs: number; pairs: string[] }>();
  for (const [a, one] of gpus.entries()) {
    for (const [b, other] of gpus.entries()) {
      const way = peers[a]?.[b];
      if (b <= a || way === undefined || way.kind === "self" || way.kind === "staged") continue;
      const key = `${way.kind} ${way.peerGBs}`;
      const same = found.get(key) ?? { kind: way.kind, peerGBs: way.peerGBs, pairs: [] };
      same.pairs.push(`${one.name}-${other.name}`);
      found.set(key, same);
    }
  }
  const all = (gpus.length * (gpus.length - 1)) / 2;
  return [...found.values()]
    .map((way) => (way.pairs.length === all ? { ...way, pairs: [] } : way))
    .sort((a, b) => b.peerGBs - a.peerGBs || (a.kind < b.kind ? -1 : 1));
}
