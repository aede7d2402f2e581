/**
 * @file The bandwidth model of one cluster: gathers the measurements of jobs and probes, trains on them, and publishes versions that pass their gate.
 *
 * Measurements come in by signal and are folded into a bounded memory (model-memory.ts). A solver worker has the serving version predict the
 * new ones; its errors show outliers and drift. When enough is new, when something drifts, or on command, the model is trained, gated and
 * published, and the fleet is told. Each step is an activity that can be repeated with the same result, so a crash anywhere leaves the
 * serving version in place, and the next attempt goes on. A version is published before the fleet is told of it, and the fleet's ledger names
 * the version that decisions use. A rollback by hand holds training until `train` is ordered.
 * Beside it, it keeps the steps that runs of planned jobs measured (step-memory.ts), for whoever plans in the cluster, and what jobs were seen to
 * send (sent-memory.ts), for decisions on jobs that do not say it.
 * Without a solver worker only the model waits: measurements are kept, and the serving version goes on serving.
 * History: 4 events a batch of measurements, 6 an activity; continues as new at 400 by its own count.
 */

import {
  allHandlersFinished,
  condition,
  continueAsNew,
  proxyActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { JobActivities } from "../../protocol/control-contract.ts";
import type { ModelActivities } from "../../protocol/model-contract.ts";
import { clusterId } from "../../domain/values/ids.ts";
import {
  bandwidthModelQuery,
  BANDWIDTH_MODEL_RULES,
  fleetWorkflowId,
  keptSamplesQuery,
  keptMessagesQuery,
  keptStepsQuery,
  measuredSignal,
  reportAgainSignal,
  rollbackModelUpdate,
  trainModelUpdate,
  type BandwidthModelInput,
  type ServingVersion,
  type TrainingNote,
} from "../../protocol/messages.ts";
import { PROVEN_LEARNER_RULES } from "../../protocol/word-proof.ts";
import {
  answerAboutDisbelieved,
  askFleetForProof,
  isHearing,
  keepHearing,
  onProvenUpdate,
} from "../runtime/proven-words.ts";
import { onJunk, onSignal } from "../runtime/signal-intake.ts";
import {
  nextTrainingMs,
  NO_MEMORY,
  noteDrift,
  noteEvaluated,
  takeIn,
  trainingCause,
  notEvaluated,
  withServing,
} from "./model-memory.ts";
import { EVENTS_PER_ACTIVITY, enter, viewOf, type ModelRun } from "./model-run.ts";
import { asRefusal, ON_A_SOLVER, ordered, publish, train } from "./model-training.ts";

const CONTINUE_AT_EVENTS = 400;
const EVENTS_PER_BATCH = 4;
/** New samples are evaluated together: once there are so many, or after so long. */
const EVALUATED_TOGETHER = 8;
const EVALUATE_AFTER_MS = 10_000;
const MAX_EVALUATED = 128;
/** Pause after a failure: no solver worker, a version that cannot be used, no fleet. */
const PAUSE_MS = 60_000;

const { servingModel, evaluationSamples } = proxyActivities<
  Pick<ModelActivities, "servingModel" | "evaluationSamples">
>({
  summary: "the model that serves, and its samples",
  ...ON_A_SOLVER,
  startToCloseTimeout: "60s",
});
const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  summary: "which model serves, for the fleet",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

export async function bandwidthModel(input: BandwidthModelInput): Promise<never> {
  const { fleet, cluster, memory = NO_MEMORY, rules = 1 } = input;
  const run: ModelRun = {
    fleet,
    cluster,
    firstExecutionRunId: workflowInfo().firstExecutionRunId,
    orders: [],
    memory,
    busy: undefined,
    events: 0,
    isReportDue: true,
    tellAtMs: 0,
    openAtMs: 0,
    evaluateAtMs: 0,
    evaluateByMs: memory.samples.length > 0 ? 0 : Infinity,
    isOpen: input.memory !== undefined,
  };
  const asked = rules < PROVEN_LEARNER_RULES ? undefined : askFleetForProof(fleetWorkflowId(fleet));
  handle(run);
  if (asked !== undefined) {
    await asked;
    keepHearing((events) => (run.events += events));
  }
  for (;;) {
    enter(run, undefined);
    await untilWork(run);
    if (mustContinue(run)) break;
    await work(run);
  }
  await condition(allHandlersFinished);
  return continueAsNew<typeof bandwidthModel>({
    fleet,
    cluster,
    rules: BANDWIDTH_MODEL_RULES,
    memory: run.memory,
  });
}

function handle(run: ModelRun): void {
  setHandler(bandwidthModelQuery, () => viewOf(run));
  setHandler(keptSamplesQuery, () => run.memory.samples);
  setHandler(keptStepsQuery, () => run.memory.steps ?? []);
  setHandler(keptMessagesQuery, () => run.memory.sent ?? []);
  onJunk(() => (run.events += EVENTS_PER_BATCH));
  onSignal(measuredSignal, (words) => {
    run.events += EVENTS_PER_BATCH;
    run.memory = takeIn(run.memory, words, run.cluster);
    run.evaluateByMs = Math.min(run.evaluateByMs, Date.now() + EVALUATE_AFTER_MS);
  });
  onSignal(reportAgainSignal, () => {
    run.events += EVENTS_PER_BATCH;
    run.isReportDue = true;
  });
  answerAboutDisbelieved();
  onProvenUpdate(
    trainModelUpdate,
    (wanted) =>
      new Promise<TrainingNote>((done) => {
        const isFromNothing = (wanted as typeof wanted | undefined)?.isFromNothing === true; // a client may say nothing
        run.orders.push({ kind: "train", isFromNothing, done });
      }),
  );
  onProvenUpdate(
    rollbackModelUpdate,
    (wanted) =>
      new Promise<ServingVersion>((done, failed) => {
        const version = (wanted as typeof wanted | undefined)?.version; // likewise
        run.orders.push({ kind: "rollback", version, done, failed });
      }),
  );
}

/** When each kind of work is due; infinite when there is none of it. */
function duesMs({
  memory,
  isOpen,
  openAtMs,
  isReportDue,
  tellAtMs,
  evaluateAtMs,
  evaluateByMs,
}: ModelRun) {
  const news = memory.serving === undefined ? 0 : notEvaluated(memory).length;
  const evaluatedByMs = news >= EVALUATED_TOGETHER ? 0 : evaluateByMs;
  return {
    open: isOpen ? Infinity : openAtMs,
    tell: isReportDue && memory.serving !== undefined ? tellAtMs : Infinity,
    evaluate: news > 0 ? Math.max(evaluateAtMs, evaluatedByMs) : Infinity,
    train: trainingCause(memory, Infinity) === undefined ? Infinity : nextTrainingMs(memory),
  };
}

async function untilWork(run: ModelRun): Promise<void> {
  const dueMs = (): number => Math.min(...Object.values(duesMs(run)));
  const isWork = (): boolean => run.orders.length > 0 || mustContinue(run) || dueMs() <= Date.now();
  const dueAtMs = dueMs();
  if (dueAtMs === Infinity) await condition(isWork);
  else {
    run.events += 2;
    await condition(isWork, Math.max(1, dueAtMs - Date.now()));
  }
}

/** One piece of the work that is due, the most urgent first. */
async function work(run: ModelRun): Promise<void> {
  const atMs = Date.now();
  const dues = duesMs(run);
  if (dues.open <= atMs) return open(run);
  if (dues.tell <= atMs) return tell(run);
  if (dues.evaluate <= atMs) return evaluate(run);
  if (run.orders.length > 0) return obey(run);
  const cause = trainingCause(run.memory, atMs);
  if (cause !== undefined) await train(run, cause, run.memory.serving === undefined);
}

async function open(run: ModelRun): Promise<void> {
  const { fleet, cluster } = run;
  run.events += EVENTS_PER_ACTIVITY;
  try {
    const serving = await servingModel({ fleet, cluster });
    if (serving !== null) run.memory = withServing(run.memory, serving);
    run.isOpen = true;
  } catch {
    run.openAtMs = Date.now() + PAUSE_MS;
  }
}

async function tell(run: ModelRun): Promise<void> {
  const { fleet, cluster, memory } = run;
  const { serving } = memory;
  if (serving === undefined) return;
  run.events += EVENTS_PER_ACTIVITY;
  run.isReportDue = false;
  const notified = await tellFleet(fleetWorkflowId(fleet), {
    kind: "model",
    cluster: clusterId(cluster),
    ...serving,
  });
  if (notified.kind !== "no-fleet") return;
  run.isReportDue = true;
  run.tellAtMs = Date.now() + PAUSE_MS;
}

async function evaluate(run: ModelRun): Promise<void> {
  const { fleet, cluster } = run;
  const { serving } = run.memory;
  const asked = notEvaluated(run.memory).slice(0, MAX_EVALUATED);
  if (serving === undefined || asked.length === 0) return;
  run.events += EVENTS_PER_ACTIVITY;
  enter(run, "evaluating");
  run.evaluateByMs = Infinity;
  const report = await evaluationSamples({
    fleet,
    cluster,
    version: serving.version,
    samples: asked.map(ordered),
  }).catch(() => undefined);
  if (report?.kind !== "evaluated") {
    run.evaluateAtMs = Date.now() + PAUSE_MS;
    run.evaluateByMs = 0;
    return;
  }
  run.memory = noteDrift(noteEvaluated(run.memory, asked, report.predictedGbs), Date.now());
  if (notEvaluated(run.memory).length > 0)
    run.evaluateByMs = Math.min(run.evaluateByMs, Date.now() + EVALUATE_AFTER_MS);
}

async function obey(run: ModelRun): Promise<void> {
  const order = run.orders.shift();
  if (order?.kind === "train") {
    const isFromNothing = order.isFromNothing || run.memory.serving === undefined;
    run.memory = { ...run.memory, isHeld: false };
    order.done(await train(run, "command", isFromNothing));
  } else if (order !== undefined) {
    try {
      const serving = await publish(run, order.version);
      run.memory = { ...run.memory, isHeld: true };
      order.done(serving);
    } catch (error) {
      order.failed(asRefusal(error));
    }
  }
}

/** An order that is under way is finished first, since a client waits for it. */
const mustContinue = ({ events, orders }: ModelRun): boolean =>
  events >= CONTINUE_AT_EVENTS && orders.length === 0 && !isHearing();
