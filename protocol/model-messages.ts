/** @file The words between who measures bandwidth and steps, the bandwidth model of a cluster, and who looks after it. */

import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { MessageProfile } from "../domain/bandwidth/message-profile.ts";
import type { KeptMessages, Sender, SentPart } from "../domain/bandwidth/sent-messages.ts";
import type { KeptStep, PlannedStep } from "../domain/model/step-record.ts";
import type { HostId, JobId } from "../domain/values/ids.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import type { ClusterDescription } from "./fleet.ts";
import type { Proven } from "./word-proof.ts";

export const BANDWIDTH_MODEL_WORKFLOW = "bandwidth-model";
export const bandwidthModelWorkflowId = (fleet: string, cluster: string): string =>
  `orbweaver-bandwidth-${fleet}-${cluster}`;

/** The version of the workflow's logic that new runs follow. */
export const BANDWIDTH_MODEL_RULES = 2;

/** One measurement of the GPUs of one run of a job, or of a probe. */
export interface MeasuredNote {
  readonly jobId: JobId;
  readonly runId: string;
  readonly attempt: number;
  /** Counts the measurements of the run that are told apart; of two words of one window the later one (`atMs`) counts. */
  readonly window: number;
  /** Sorted by host id, of one cluster. */
  readonly gpus: readonly HostGpus[];
  /** Bus bandwidth of the gang's collectives. */
  readonly gbs: number;
  readonly atMs: number;
  /** What was sent; `USUAL_MESSAGES` when absent. Only with it GPUs of one host are news: its table has the usual ones. */
  readonly messages?: MessageProfile;
}

/** The typical step of one run of a job whose model was planned; the latest of the run counts. */
export interface StepNote {
  readonly jobId: JobId;
  readonly tenant: string;
  readonly runId: string;
  readonly attempt: number;
  readonly planned: PlannedStep;
  readonly measuredMs: number;
  readonly atMs: number;
}

/** What one job was seen to send; its latest word counts. */
export interface SentNote extends Sender {
  readonly jobId: JobId;
  readonly sent: readonly SentPart[];
  readonly atMs: number;
}

/** What was measured, in a batch. */
export const measuredSignal =
  defineSignal<[readonly (MeasuredNote | StepNote | SentNote)[]]>("measured");

/** Trains at once with what there is, whatever the clocks say; answers when that is over. Ends the hold of a rollback. */
export const trainModelUpdate = defineUpdate<TrainingNote, Proven<TrainOrder>>("train");
export interface TrainOrder {
  /** Not from the version that serves. */
  readonly isFromNothing: boolean;
}
/** Lets a version serve that did before, by default the last one; nothing is trained from then on until that is asked for. */
export const rollbackModelUpdate = defineUpdate<
  ServingVersion,
  Proven<{ readonly version?: string | undefined }>
>("rollback");

export interface ServingVersion {
  readonly version: string;
  /** Counts what was published, rollbacks included. */
  readonly generation: number;
}

/** How a training ended. */
export interface TrainingNote {
  readonly atMs: number;
  readonly cause: "first" | "samples" | "drift" | "command";
  readonly kind: "serves" | "refused" | "too-few" | "failed";
  readonly version?: string;
  /** One sentence: why it serves, or why not. */
  readonly reason: string;
}

/** What is out of step with the version that serves. */
export interface DriftNote {
  /** The host whose gangs are off most; absent when it is the cluster as a whole. */
  readonly host?: HostId;
  /** Median of measured ÷ predicted over the samples of the test. */
  readonly ratio: number;
  readonly samples: number;
  readonly atMs: number;
}

/** A measurement that nothing confirms: it is shown, and not learned from. */
export interface OutlierNote {
  readonly jobId: JobId;
  readonly gpus: readonly HostGpus[];
  readonly gbs: number;
  readonly predictedGbs: number;
  readonly atMs: number;
}

export interface BandwidthModelView {
  readonly fleet: string;
  readonly cluster: string;
  readonly serving?: ServingVersion;
  /** Rolled back by hand: nothing is trained until that is asked for. */
  readonly isHeld: boolean;
  /** Measurements that are kept to learn from. */
  readonly samples: number;
  /** Of those, measured since the last training. */
  readonly fresh: number;
  /** Words that said nothing new, and such as no gang over several hosts of the cluster could have measured. */
  readonly repeated: number;
  readonly unfit: number;
  readonly outliers: readonly OutlierNote[];
  readonly drift?: DriftNote;
  readonly lastTraining?: TrainingNote;
  /** What is under way on a solver worker. */
  readonly busy?: "evaluating" | "training" | "publishing";
}
/** All that it keeps to learn from. */
export const keptSamplesQuery = defineQuery<readonly KeptSample[]>("samples");
/** The steps that runs measured, for whoever plans in the cluster. */
export const keptStepsQuery = defineQuery<readonly KeptStep[]>("steps");
/** What jobs of the cluster sent, for decisions on jobs that do not say what they send. */
export const keptMessagesQuery = defineQuery<readonly KeptMessages[]>("sent-messages");
export const bandwidthModelQuery = defineQuery<BandwidthModelView>("model");

/** Null when the fleet has no cluster of that name. */
export const clusterQuery = defineQuery<ClusterDescription | null, [string]>("cluster");

export interface BandwidthModelInput {
  readonly fleet: string;
  readonly cluster: string;
  /** The version of the workflow's logic that this run follows; 1 when absent. */
  readonly rules?: number;
  /** Carried over continue-as-new. */
  readonly memory?: ModelMemory;
}

/** What a model remembers of what was measured; see model-memory.ts, which alone changes it. */
export interface ModelMemory {
  /** In order of arrival. */
  readonly samples: readonly KeptSample[];
  /** Pairs: a run, the highest window heard of it and its time; the oldest goes first. */
  readonly heard: readonly (readonly [run: string, window: number, atMs: number])[];
  readonly serving?: ServingVersion;
  /** Trainings so far: each is an order of its own. */
  readonly trainings: number;
  readonly fresh: number;
  readonly repeated: number;
  readonly unfit: number;
  readonly isHeld: boolean;
  readonly drift?: DriftNote;
  readonly lastTraining?: TrainingNote;
  /** Steps that runs measured, in order of arrival; see step-memory.ts, which alone changes them. None when absent. */
  readonly steps?: readonly KeptStep[];
  /** What jobs sent, likewise; see sent-memory.ts. */
  readonly sent?: readonly KeptMessages[];
}

export interface KeptSample {
  /** Which run, as one word. */
  readonly run: string;
  readonly window: number;
  readonly jobId: JobId;
  readonly gpus: readonly HostGpus[];
  readonly gbs: number;
  readonly atMs: number;
  /** `USUAL_MESSAGES` when absent. */
  readonly messages?: MessageProfile;
  /** By the version that serves; absent until it was asked. */
  readonly predictedGbs?: number;
  /** Measured before something about its hosts changed: it counts little. */
  readonly isStale?: true;
}
