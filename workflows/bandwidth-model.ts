/**
 * @file The bandwidth model of one cluster: gathers what jobs and probes measure, and sees to it that the best version that there is serves.
 *
 * Words come in by signal, folded into a bounded memory (model-memory.ts). What is new is put to the version that serves, on a solver
 * worker; from how far it is off come outliers and drift. When enough is new, or something drifts, or on command: train → gate → publish
 * → tell the fleet. Each step is an activity that done again ends alike, so a crash anywhere leaves the version that
 * serves, and the next attempt goes on. A version is published before the fleet hears of it, and the fleet's ledger says which one
 * decisions use. A rollback by hand holds training until `train` is asked for.
 * Without a solver worker nothing waits but the model itself: words are kept, the version that serves goes on serving.
 * History: 4 events a batch of words, 6 an activity; continues as new at 400 by its own count.
 */

import {
  ActivityFailure,
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  TimeoutFailure,
  workflowInfo,
  type ActivityOptions,
} from "@temporalio/workflow";
import type { JobActivities } from "../activities/control-contract.ts";
import type { ModelActivities } from "../activities/model-contract.ts";
import { clusterId } from "../domain/ids.ts";
import {
  bandwidthModelQuery,
  BANDWIDTH_MODEL_RULES,
  fleetWorkflowId,
  keptSamplesQuery,
  measuredSignal,
  reportAgainSignal,
  rollbackModelUpdate,
  SOLVER_TASK_QUEUE,
  trainModelUpdate,
  type BandwidthModelInput,
  type BandwidthModelView,
  type KeptSample,
  type ServingVersion,
  type TrainingNote,
} from "./messages.ts";
import {
  learnable,
  nextTrainingMs,
  NO_MEMORY,
  noteDrift,
  noteJudged,
  outliersOf,
  takeIn,
  trainingCause,
  unjudged,
  withServing,
} from "./model-memory.ts";
import { modelSummary } from "./model-summary.ts";

const CONTINUE_AT_EVENTS = 400;
const EVENTS_PER_BATCH = 4;
const EVENTS_PER_ACTIVITY = 6;
/** New words are judged together: so many, or after so long. */
const JUDGED_TOGETHER = 8;
const JUDGE_AFTER_MS = 10_000;
const MAX_JUDGED = 128;
/** Pause after something that did not work: no solver worker, a version that cannot be used, no fleet. */
const PAUSE_MS = 60_000;
/** A solver worker that is there takes an order at once. */
const PICKUP_TIMEOUT = "60s";
const NO_SOLVER =
  "no solver worker took it within 60 s; start one with `orbweaver worker --role solver`";
const MAX_OUTLIERS = 20;

const common = {
  taskQueue: SOLVER_TASK_QUEUE,
  scheduleToStartTimeout: PICKUP_TIMEOUT,
  retry: {
    initialInterval: "500ms",
    maximumInterval: "10s",
    maximumAttempts: 5,
    nonRetryableErrorTypes: ["BAD_INPUT", "NOT_FOUND", "NOT_ALLOWED"],
  },
} satisfies ActivityOptions;
const { servingModel, judgeSamples, publishModel } = proxyActivities<ModelActivities>({
  ...common,
  startToCloseTimeout: "60s",
});
/** Heartbeats tell a solver worker that died from one that works. */
const { trainModel } = proxyActivities<Pick<ModelActivities, "trainModel">>({
  ...common,
  startToCloseTimeout: "15m",
  heartbeatTimeout: "15s",
});
const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

type Order =
  | {
      readonly kind: "train";
      readonly isFromNothing: boolean;
      readonly done: (note: TrainingNote) => void;
    }
  | {
      readonly kind: "rollback";
      readonly version: string | undefined;
      readonly done: (serving: ServingVersion) => void;
      readonly failed: (error: unknown) => void;
    };

export async function bandwidthModel(input: BandwidthModelInput): Promise<never> {
  const { fleet, cluster } = input;
  const { firstExecutionRunId } = workflowInfo();
  let memory = input.memory ?? NO_MEMORY;
  let busy: BandwidthModelView["busy"];
  let events = 0;
  const orders: Order[] = [];
  /** The fleet is to hear which version serves: when it is new, when this run begins, and when the fleet asks. */
  let isWordDue = true;
  /** Nothing of the kind before: it did not work a moment ago. */
  let tellAtMs = 0;
  let openAtMs = 0;
  let judgeAtMs = 0;
  /** What is new has waited long enough to be judged. */
  let judgeByMs = memory.samples.length > 0 ? 0 : Infinity;
  /** Whether what the registry says serves has been read. */
  let isOpen = input.memory !== undefined;

  const view = (): BandwidthModelView => ({
    fleet,
    cluster,
    ...(memory.serving !== undefined && { serving: memory.serving }),
    isHeld: memory.isHeld,
    samples: memory.samples.length,
    fresh: memory.fresh,
    repeated: memory.repeated,
    unfit: memory.unfit,
    outliers: outliersOf(memory).slice(-MAX_OUTLIERS),
    ...(memory.drift !== undefined && { drift: memory.drift }),
    ...(memory.lastTraining !== undefined && { lastTraining: memory.lastTraining }),
    ...(busy !== undefined && { busy }),
  });
  const enter = (next: BandwidthModelView["busy"]): void => {
    busy = next;
    setCurrentDetails(modelSummary(view()));
  };

  setHandler(bandwidthModelQuery, view);
  setHandler(keptSamplesQuery, () => memory.samples);
  setHandler(measuredSignal, (words) => {
    events += EVENTS_PER_BATCH;
    memory = takeIn(memory, words, cluster);
    judgeByMs = Math.min(judgeByMs, Date.now() + JUDGE_AFTER_MS);
  });
  setHandler(reportAgainSignal, () => {
    events += EVENTS_PER_BATCH;
    isWordDue = true;
  });
  setHandler(
    trainModelUpdate,
    (wish) =>
      new Promise<TrainingNote>((done) => {
        const isFromNothing = (wish as typeof wish | undefined)?.isFromNothing === true; // a client may say nothing
        orders.push({ kind: "train", isFromNothing, done });
      }),
  );
  setHandler(
    rollbackModelUpdate,
    (wish) =>
      new Promise<ServingVersion>((done, failed) => {
        const version = (wish as typeof wish | undefined)?.version; // likewise
        orders.push({ kind: "rollback", version, done, failed });
      }),
  );

  for (;;) {
    enter(undefined);
    await untilWork();
    if (mustContinue()) break;
    if (isDue().open) await open();
    else if (isDue().tell) await tell();
    else if (isDue().judge) await judge();
    else if (orders.length > 0) await obey();
    else {
      const cause = trainingCause(memory, Date.now());
      if (cause !== undefined) await train(cause, memory.serving === undefined);
    }
  }
  await condition(allHandlersFinished);
  return continueAsNew<typeof bandwidthModel>({
    fleet,
    cluster,
    rules: BANDWIDTH_MODEL_RULES,
    memory,
  });

  function isDue(): { readonly open: boolean; readonly tell: boolean; readonly judge: boolean } {
    const at = Date.now();
    const { open: openMs, tell: tellMs, judge: judgeMs } = duesMs();
    return { open: openMs <= at, tell: tellMs <= at, judge: judgeMs <= at };
  }

  /** When each is to be done; infinite when there is nothing to do. */
  function duesMs() {
    const news = memory.serving === undefined ? 0 : unjudged(memory).length;
    const judgedByMs = news >= JUDGED_TOGETHER ? 0 : judgeByMs;
    return {
      open: isOpen ? Infinity : openAtMs,
      tell: isWordDue && memory.serving !== undefined ? tellAtMs : Infinity,
      judge: news > 0 ? Math.max(judgeAtMs, judgedByMs) : Infinity,
      train: trainingCause(memory, Infinity) === undefined ? Infinity : nextTrainingMs(memory),
    };
  }

  async function untilWork(): Promise<void> {
    const isWork = (): boolean =>
      orders.length > 0 || mustContinue() || Math.min(...Object.values(duesMs())) <= Date.now();
    const dueAtMs = Math.min(...Object.values(duesMs()));
    if (dueAtMs === Infinity) await condition(isWork);
    else {
      events += 2;
      await condition(isWork, Math.max(1, dueAtMs - Date.now()));
    }
  }

  async function open(): Promise<void> {
    events += EVENTS_PER_ACTIVITY;
    try {
      const serving = await servingModel({ fleet, cluster });
      if (serving !== null) memory = withServing(memory, serving);
      isOpen = true;
    } catch {
      openAtMs = Date.now() + PAUSE_MS;
    }
  }

  async function tell(): Promise<void> {
    const { serving } = memory;
    if (serving === undefined) return;
    events += EVENTS_PER_ACTIVITY;
    isWordDue = false;
    const told = await tellFleet(fleetWorkflowId(fleet), {
      kind: "model",
      cluster: clusterId(cluster),
      ...serving,
    });
    if (told.kind !== "no-fleet") return;
    isWordDue = true;
    tellAtMs = Date.now() + PAUSE_MS;
  }

  async function judge(): Promise<void> {
    const { serving } = memory;
    const asked = unjudged(memory).slice(0, MAX_JUDGED);
    if (serving === undefined || asked.length === 0) return;
    events += EVENTS_PER_ACTIVITY;
    enter("judging");
    judgeByMs = Infinity;
    const report = await judgeSamples({
      fleet,
      cluster,
      version: serving.version,
      samples: asked.map(ordered),
    }).catch(() => undefined);
    if (report?.kind !== "judged") {
      judgeAtMs = Date.now() + PAUSE_MS;
      judgeByMs = 0;
      return;
    }
    memory = noteDrift(noteJudged(memory, asked, report.predictedGbs), Date.now());
    if (unjudged(memory).length > 0) judgeByMs = Math.min(judgeByMs, Date.now() + JUDGE_AFTER_MS);
  }

  async function obey(): Promise<void> {
    const order = orders.shift();
    if (order?.kind === "train") {
      const isFromNothing = order.isFromNothing || memory.serving === undefined;
      memory = { ...memory, isHeld: false };
      order.done(await train("command", isFromNothing));
    } else if (order !== undefined) {
      try {
        const serving = await publish(order.version);
        memory = { ...memory, isHeld: true };
        order.done(serving);
      } catch (error) {
        order.failed(asRefusal(error));
      }
    }
  }

  async function train(
    cause: TrainingNote["cause"],
    isFromNothing: boolean,
  ): Promise<TrainingNote> {
    const { serving, fresh } = memory;
    const samples = learnable(memory).map(ordered);
    memory = { ...memory, trainings: memory.trainings + 1, fresh: 0 };
    events += EVENTS_PER_ACTIVITY;
    enter("training");
    const end = await trained();
    const note: TrainingNote = { atMs: Date.now(), cause, ...end };
    // What did not come to an end is tried again with what there is by then.
    if (note.kind === "failed") memory = { ...memory, fresh: memory.fresh + fresh };
    memory = { ...memory, lastTraining: note };
    return note;

    async function trained(): Promise<Omit<TrainingNote, "atMs" | "cause">> {
      try {
        const report = await trainModel({
          fleet,
          cluster,
          order: `${firstExecutionRunId}#${memory.trainings}`,
          samples,
          ...(serving !== undefined && { serving: serving.version }),
          ...(serving !== undefined && !isFromNothing && { from: serving.version }),
          seed: memory.trainings,
        });
        if (report.kind === "too-few") return report;
        const { version, gate } = report;
        if (!gate.holds) return { kind: "refused", version, reason: gate.reason };
        await publish(version);
        return { kind: "serves", version, reason: gate.reason };
      } catch (error) {
        return { kind: "failed", reason: asRefusal(error).message };
      }
    }
  }

  /** The version, or the one that served before; from here on the fleet is to hear of it. */
  async function publish(version: string | undefined): Promise<ServingVersion> {
    enter("publishing");
    events += EVENTS_PER_ACTIVITY;
    if (version === undefined) memory = { ...memory, trainings: memory.trainings + 1 };
    const serving = await publishModel({
      fleet,
      cluster,
      order: `${firstExecutionRunId}!${memory.trainings}!${version ?? "former"}`,
      ...(version !== undefined && { version }),
    });
    memory = withServing(memory, serving);
    isOpen = true;
    isWordDue = true;
    tellAtMs = 0;
    judgeByMs = 0;
    return serving;
  }

  /** An order that is under way is finished first: whoever gave it waits. */
  function mustContinue(): boolean {
    return events >= CONTINUE_AT_EVENTS && orders.length === 0;
  }
}

const ordered = ({ gpus, gbs, isStale }: KeptSample) => ({
  gpus,
  gbs,
  ...(isStale === true && { isStale }),
});

/** What a person can act on; the cause of an activity's failure, where it has one. */
function asRefusal(error: unknown): ApplicationFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) return cause;
  if (cause instanceof TimeoutFailure && cause.timeoutType === "SCHEDULE_TO_START")
    return ApplicationFailure.nonRetryable(NO_SOLVER, "NOT_ALLOWED");
  return ApplicationFailure.nonRetryable(
    cause instanceof Error ? cause.message : String(cause),
    "NOT_ALLOWED",
  );
}
