/** @file The bandwidth model of one cluster as a caller sees it: how it stands, train, roll back. Started where there is none. */

import { WithStartWorkflowOperation, WorkflowNotFoundError, type Client } from "@temporalio/client";
import {
  BANDWIDTH_MODEL_RULES,
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelQuery,
  bandwidthModelWorkflowId,
  JOB_TASK_QUEUE,
  keptSamplesQuery,
  rollbackModelUpdate,
  trainModelUpdate,
  type BandwidthModelInput,
  type BandwidthModelView,
  type KeptSample,
  type ServingVersion,
  type TrainingNote,
} from "../workflows/messages.ts";
import { OrbweaverError } from "../domain/failure.ts";
import { asked, translated } from "./server-error.ts";
import { queried } from "./waking.ts";

export interface BandwidthModelHandle {
  /** Undefined when nothing was ever measured in the cluster. */
  readonly view: () => Promise<BandwidthModelView | undefined>;
  /** What it keeps to learn from. */
  readonly samples: () => Promise<readonly KeptSample[]>;
  /** Returns when the training is over, whatever came of it. */
  readonly train: (wish: { readonly isFromNothing: boolean }) => Promise<TrainingNote>;
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
      args: [input],
      workflowIdConflictPolicy: "USE_EXISTING",
    });
  /** A solver worker may take its time: only that the order arrived has a deadline. */
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
    train: async (wish) =>
      await outcome(
        await asked(client, subject, () =>
          client.workflow.startUpdateWithStart(trainModelUpdate, {
            args: [wish],
            waitForStage: "ACCEPTED",
            startWorkflowOperation: start(),
          }),
        ),
      ),
    rollback: async (version) =>
      await outcome(
        await asked(client, subject, () =>
          client.workflow.startUpdateWithStart(rollbackModelUpdate, {
            args: [{ ...(version !== undefined && { version }) }],
            waitForStage: "ACCEPTED",
            startWorkflowOperation: start(),
          }),
        ),
      ),
  };
}
