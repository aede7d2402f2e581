/**
 * @file How a bandwidth model is trained and published: on a solver worker, in activities that can be repeated with the same result.
 *
 * A training that fails leaves the serving version in place. A version that passes its gate is published at once.
 */

import {
  ActivityFailure,
  ApplicationFailure,
  proxyActivities,
  TimeoutFailure,
  type ActivityOptions,
} from "@temporalio/workflow";
import type { ModelActivities } from "../../protocol/model-contract.ts";
import {
  SOLVER_TASK_QUEUE,
  type KeptSample,
  type ServingVersion,
  type TrainingNote,
} from "../../protocol/messages.ts";
import { learnable, withServing } from "./model-memory.ts";
import { enter, EVENTS_PER_ACTIVITY, type ModelRun } from "./model-run.ts";

/** A solver worker that is there takes an order at once. */
const PICKUP_TIMEOUT = "60s";
const NO_SOLVER =
  "no solver worker took it within 60 s; start one with `orbweaver worker --role solver`";
export const ON_A_SOLVER = {
  taskQueue: SOLVER_TASK_QUEUE,
  scheduleToStartTimeout: PICKUP_TIMEOUT,
  retry: {
    initialInterval: "500ms",
    maximumInterval: "10s",
    maximumAttempts: 5,
    nonRetryableErrorTypes: ["BAD_INPUT", "NOT_FOUND", "NOT_ALLOWED"],
  },
} satisfies ActivityOptions;
const { publishModel } = proxyActivities<Pick<ModelActivities, "publishModel">>({
  summary: "a model that passed its gate, published",
  ...ON_A_SOLVER,
  startToCloseTimeout: "60s",
});
/** Its heartbeats distinguish a solver worker that died from one that works. */
const { trainModel } = proxyActivities<Pick<ModelActivities, "trainModel">>({
  summary: "a model, trained and judged",
  ...ON_A_SOLVER,
  startToCloseTimeout: "15m",
  heartbeatTimeout: "15s",
});
export async function train(
  run: ModelRun,
  cause: TrainingNote["cause"],
  isFromNothing: boolean,
): Promise<TrainingNote> {
  const { serving, fresh } = run.memory;
  const samples = learnable(run.memory).map(ordered);
  run.memory = { ...run.memory, trainings: run.memory.trainings + 1, fresh: 0 };
  run.events += EVENTS_PER_ACTIVITY;
  enter(run, "training");
  const end = await trainAndPublish(run, samples, isFromNothing ? undefined : serving?.version);
  const note: TrainingNote = { atMs: Date.now(), cause, ...end };
  // A training that did not come to an end is repeated with the samples that there are by then.
  if (note.kind === "failed") run.memory = { ...run.memory, fresh: run.memory.fresh + fresh };
  run.memory = { ...run.memory, lastTraining: note };
  return note;
}

/** `from`: the version whose weights the training begins with. */
async function trainAndPublish(
  run: ModelRun,
  samples: readonly ReturnType<typeof ordered>[],
  from: string | undefined,
): Promise<Omit<TrainingNote, "atMs" | "cause">> {
  const { fleet, cluster, firstExecutionRunId } = run;
  const { serving, trainings } = run.memory;
  try {
    const report = await trainModel({
      fleet,
      cluster,
      order: `${firstExecutionRunId}#${trainings}`,
      samples,
      ...(serving !== undefined && { serving: serving.version }),
      ...(from !== undefined && { from }),
      seed: trainings,
    });
    if (report.kind === "too-few") return report;
    const { version, gate } = report;
    if (!gate.holds) return { kind: "refused", version, reason: gate.reason };
    await publish(run, version);
    return { kind: "serves", version, reason: gate.reason };
  } catch (error) {
    return { kind: "failed", reason: asRefusal(error).message };
  }
}

/** Publishes the version, or the one that served before; from here on the fleet is to be told of it. */
export async function publish(run: ModelRun, version: string | undefined): Promise<ServingVersion> {
  const { fleet, cluster, firstExecutionRunId } = run;
  enter(run, "publishing");
  run.events += EVENTS_PER_ACTIVITY;
  if (version === undefined) run.memory = { ...run.memory, trainings: run.memory.trainings + 1 };
  const serving = await publishModel({
    fleet,
    cluster,
    order: `${firstExecutionRunId}!${run.memory.trainings}!${version ?? "former"}`,
    ...(version !== undefined && { version }),
  });
  run.memory = withServing(run.memory, serving);
  run.isOpen = true;
  run.isReportDue = true;
  run.tellAtMs = 0;
  run.evaluateByMs = 0;
  return serving;
}

export const ordered = ({ gpus, gbs, messages, isStale }: KeptSample) => ({
  gpus,
  gbs,
  ...(messages !== undefined && { messages }),
  ...(isStale === true && { isStale }),
});

/** What a person can act on; the cause of an activity's failure, where it has one. */
export function asRefusal(error: unknown): ApplicationFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) return cause;
  if (cause instanceof TimeoutFailure && cause.timeoutType === "SCHEDULE_TO_START")
    return ApplicationFailure.nonRetryable(NO_SOLVER, "NOT_ALLOWED");
  return ApplicationFailure.nonRetryable(
    cause instanceof Error ? cause.message : String(cause),
    "NOT_ALLOWED",
  );
}
