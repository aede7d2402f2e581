/**
 * @file Plans of inference: what the search and each rival decide, and the latency that the estimate and the executor give it.
 *
 * Of decisions: the order of operations, the GPU of each, the landing of each parameter. Of a plan: its queues in order.
 */

import { cellName, paperCells, type Cell } from "../../bench/inference/cells.ts";
import { searchedMs } from "../../bench/inference/optimum.ts";
import { randomCase } from "../../bench/inference/random-cases.ts";
import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import { randomFrom } from "../../lib/random.ts";
import { bounds } from "../../planning/inference/bounds.ts";
import { allOn, planOf, type Decisions } from "../../planning/inference/decisions.ts";
import { efficientMipDecisions } from "../../bench/rivals/inference/efficient-mip.ts";
import { execute } from "../../planning/inference/executor.ts";
import type { PlanningProblem } from "../../planning/inference/problem.ts";
import {
  copiesThenKernelsMs,
  deepPlanDecisions,
  fastestGpu,
  overlappedPlan,
} from "../../planning/inference/rivals.ts";
import { searchPlan } from "../../planning/inference/search.ts";
import { digestOf, type DigestCase, type Values } from "./digest.ts";

const ESTIMATES = 300;
const HOSTS = ["v100", "v100-hetero", "a6000"] as const;

export const inferenceCases: readonly DigestCase[] = [
  randomModels({ cases: 12, estimates: 500, isQuick: true }),
  randomModels({ cases: 40, estimates: 4_000 }),
  milpModels(20),
  ...HOSTS.map(paperModels),
];

function randomModels(settings: {
  readonly cases: number;
  readonly estimates: number;
  readonly isQuick?: boolean;
}): DigestCase {
  const { cases, estimates, isQuick = false } = settings;
  return {
    name: `${String(cases)} random models of 8 to 20 nodes on two GPUs, ${String(estimates)} estimates`,
    isQuick,
    run: () =>
      digestOf((values) => {
        for (let seed = 1; seed <= cases; seed += 1)
          writeProblem(values, randomCase(seed), estimates);
      }),
  };
}

function milpModels(cases: number): DigestCase {
  return {
    name: `${String(cases)} random models of 8 to 20 nodes under the constants of the integer programme`,
    isQuick: false,
    run: () =>
      digestOf((values) => {
        for (let seed = 1; seed <= cases; seed += 1) values.figure(searchedMs(seed));
      }),
  };
}

function paperModels(host: string): DigestCase {
  return {
    name: `the paper's models on ${host}, all shapes, ${String(ESTIMATES)} estimates`,
    isQuick: false,
    run: () =>
      digestOf((values) => {
        const cells: readonly Cell[] = paperCells([host]);
        values.list(cells, (cell) => {
          values.id(cellName(cell));
          writeProblem(values, cell.problem, ESTIMATES);
        });
      }),
  };
}

function writeProblem(values: Values, problem: PlanningProblem, estimates: number): void {
  const { lowerMs, criticalPathMs } = bounds(problem);
  values.figures([lowerMs, criticalPathMs]);
  const found = searchPlan(problem, { seed: 1, estimates });
  values.claim(found.kind === "planned");
  if (found.kind === "planned") {
    writeDecisions(values, found.decisions);
    writePlan(values, problem, found.plan);
    values.figure(found.expectedMs);
    values.figure(found.stats.memoryShare);
  } else values.counts([found.needBytes, found.haveBytes]);
  const deepPlan = deepPlanDecisions(problem);
  const efficientMip = efficientMipDecisions(problem);
  const alone = allOn(problem, fastestGpu(problem));
  writePlan(values, problem, overlappedPlan(problem));
  for (const decisions of [deepPlan, efficientMip, alone]) {
    writeDecisions(values, decisions);
    values.figure(decisions && execute(problem, planOf(problem, decisions)).latencyMs);
    values.figure(
      decisions && copiesThenKernelsMs(problem, decisions, { random: randomFrom(1, "noise") }),
    );
  }
}

function writeDecisions(values: Values, decisions: Decisions | undefined): void {
  values.counts(decisions?.order);
  values.counts(decisions?.gpu);
  values.counts(decisions?.landing);
}

function writePlan(values: Values, problem: PlanningProblem, plan: InferencePlan): void {
  values.list(plan.gpuQueues, (queue) => {
    values.list(queue, ({ operations, isDirect }) => {
      values.counts(operations);
      values.claim(isDirect);
    });
  });
  values.list(plan.busQueues, (queue) => {
    values.list(queue, ({ parameter, gpu, forwards }) => {
      values.counts([parameter, gpu]);
      values.counts(forwards);
    });
  });
  values.list(plan.resident, ({ parameter, gpu }) => {
    values.counts([parameter, gpu]);
  });
  const { latencyMs, peakBytes } = execute(problem, plan);
  values.figure(latencyMs);
  values.figures(peakBytes);
  values.figure(execute(problem, plan, { random: randomFrom(1, "kernels") }).latencyMs);
}
