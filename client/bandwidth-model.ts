/**
 * @file The bandwidth model of one cluster, for callers: its state, training and rollback. Starts the model's workflow where
 * none runs.
 */

import { WithStartWorkflowOperation, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import {
  BANDWIDTH_MODEL_RULES,
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelQuery,
  bandwidthModelWorkflowId,
  JOB_TASK_QUEUE,
  keptMessagesQuery,
  keptSamplesQuery,
  keptStepsQuery,
  rollbackModelUpdate,
  trainModelUpdate,
  type BandwidthModelInput,
  type BandwidthModelView,
  type KeptSample,
  type Proven,
  type ServingVersion,
  type TrainingNote,
} from "../protocol/messages.ts";
import type { KeptMessages } from "../domain/bandwidth/sent-messages.ts";
import type { KeptStep } from "../domain/model/step-record.ts";
import type { QueryDefinition } from "@temporalio/common";
import { OrbweaverError } from "../domain/values/failure.ts";
import { given, userProof } from "./orders.ts";
import { translated } from "./server-error.ts";
import { queried } from "./waking.ts";

/** Whoever plans goes on without them. */
const KEPT_WITHIN_MS = 3_000;

export interface BandwidthModelHandle {
  /** Undefined when nothing was ever measured in the cluster. */
  readonly view: () => Promise<BandwidthModelView | undefined>;
  /** The measurements that it keeps for training. */
  readonly samples: () => Promise<readonly KeptSample[]>;
  /** The steps that runs measured, as far as its worker answers at once. */
  readonly steps: () => Promise<readonly KeptStep[]>;
  /** What jobs sent, likewise. */
  readonly sent: () => Promise<readonly KeptMessages[]>;
  /** Returns when the training has ended, with any result. */
  readonly train: (settings: { readonly isFromNothing: boolean }) => Promise<TrainingNote>;
  readonly rollback: (version: string | undefined) => Promise<ServingVersion>;
}

export function openBandwidthModel(
  client: Client,
  { fleet, cluster }: { readonly fleet: string; readonly cluster: string },
): BandwidthModelHandle {
  const workflowId = bandwidthModelWorkflowId(fleet, cluster);
  const workflow = client.workflow.getHandle(workflowId);
  const subject = `the bandwidth model of ${cluster}`;
  const input: BandwidthModelInput = { fleet, cluster, rules: BANDWIDTH_MODEL_RULES };
  const start = () =>
    new WithStartWorkflowOperation(BANDWIDTH_MODEL_WORKFLOW, {
      workflowId,
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      workflowIdConflictPolicy: "USE_EXISTING",
    });
  /** Signed anew for each try: a workflow hears each signature once. */
  const proven = <Order>(signal: string, value: Order): Proven<Order> => [
    value,
    userProof({ workflowId, signal, value }),
  ];
  /** Training may take long; only the delivery of the order has a deadline. */
  const outcome = async <Answer>(update: { result(): Promise<Answer> }): Promise<Answer> => {
    try {
      return await update.result();
    } catch (error) {
      throw translated(error, subject);
    }
  };
  const none = (error: unknown): undefined => {
    if (error instanceof WorkflowNotFoundError) return undefined;
    if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return undefined;
    throw error;
  };
  const keptAtOnce = async <Kept>(query: QueryDefinition<readonly Kept[]>) =>
    (await client
      .withDeadline(Date.now() + KEPT_WITHIN_MS, () => workflow.query(query))
      .catch(none)) ?? [];
  return {
    view: () =>
      queried(client, subject, {
        taskQueue: JOB_TASK_QUEUE,
        query: () => workflow.query(bandwidthModelQuery),
      }).catch(none),
    samples: async () =>
      (await queried(client, subject, {
        taskQueue: JOB_TASK_QUEUE,
        query: () => workflow.query(keptSamplesQuery),
      }).catch(none)) ?? [],
    steps: () => keptAtOnce(keptStepsQuery),
    sent: () => keptAtOnce(keptMessagesQuery),
    train: async (settings) =>
      await outcome(
        await given(client, subject, () =>
          client.workflow.startUpdateWithStart(trainModelUpdate, {
            args: proven(trainModelUpdate.name, settings),
            waitForStage: "ACCEPTED",
            startWorkflowOperation: start(),
          }),
        ),
      ),
    rollback: async (version) =>
      await outcome(
        await given(client, subject, () =>
          client.workflow.startUpdateWithStart(rollbackModelUpdate, {
            args: proven(rollbackModelUpdate.name, { ...(version !== undefined && { version }) }),
            waitForStage: "ACCEPTED",
            startWorkflowOperation: start(),
          }),
        ),
      ),
  };
}
