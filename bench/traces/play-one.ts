/** @file Plays one case of `bench traces` under one policy, and gives its figures. */

import { schedulerWith } from "../../simulator/scheduler.ts";
import type { Workload } from "../../simulator/workload.ts";
import type { BenchRequest } from "../bench.ts";
import { runOne } from "../queue/run-one.ts";
import { fleetFor, type TraceCase } from "./definition.ts";
import type { TraceEntrant } from "./entrants.ts";
import { figuresOf, type Figures } from "./figures.ts";
import { watching } from "./watch.ts";

/** Before a plan takes effect; as the simulator's default, and not measured, so that figures do not depend on the machine. */
const DECISION_MS = 5;
const SECOND_MS = 1_000;

export async function playOne(
  {
    its,
    workload,
    entrant,
    seed,
  }: {
    readonly its: TraceCase;
    readonly workload: Workload;
    readonly entrant: TraceEntrant;
    readonly seed: number;
  },
  ear: Pick<BenchRequest, "say" | "interrupted">,
): Promise<Figures> {
  const fleet = fleetFor(its, workload);
  const untilMs = workload.jobs.at(-1)?.submittedAtMs ?? 0;
  const watch = watching(schedulerWith(entrant.policies), { fleet, untilMs });
  const restartMs = Number(its.restart) * SECOND_MS;
  const result = await runOne(
    {
      fleet,
      workload: entrant.isOracle === true ? knowingAll(workload) : workload,
      policy: entrant.name,
      openScheduler: watch.openScheduler,
      seed,
      costs: {
        decisionMs: DECISION_MS,
        cycleIntervalMs: DECISION_MS,
        checkpointMs: restartMs,
        restartMs,
      },
      keepsJobs: true,
    },
    ear,
  );
  return figuresOf(result, watch.watched());
}

/** An oracle reads the run time where others read the user's limit. */
const knowingAll = (workload: Workload): Workload => ({
  ...workload,
  jobs: workload.jobs.map((job) => ({ ...job, estimateMs: job.durationMs })),
});
