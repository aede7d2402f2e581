/**
 * @file The provider of the collectives part: the policy that the tuner of the lease's topology class has right now.
 *
 * The policy goes to the processes twice. Sealed in the environment it is in force from the first call: every process of the launch has the
 * same environment or does not exist, so no rank can lack it (docs/decisions/0037). As a file it is what the agent replaces while the job
 * runs and what the ranks vote on. `collectives.json` says whom the agent reports to. The tuner is started where there is none.
 */

import { WithStartWorkflowOperation, type Client } from "@temporalio/client";
import { OWN_PRIORITY } from "../../protocol/fair-tasks.ts";
import {
  COLLECTIVE_TUNER_RULES,
  COLLECTIVE_TUNER_WORKFLOW,
  collectiveTunerWorkflowId,
  fleetOfWorkflow,
  JOB_TASK_QUEUE,
  reportRewardsUpdate,
  type CollectiveTunerInput,
} from "../../protocol/messages.ts";
import {
  ORDER_FILE,
  POLICY_FILE,
  POLICY_VARIABLE,
  REWARDS_FILE,
  REWARDS_VARIABLE,
  SEAL_VARIABLE,
  type AskTuner,
  type CollectiveOrder,
} from "../../protocol/collective-files.ts";
import { topologyClass } from "../collectives/topology-class.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

const DEADLINE_MS = 8_000;

export const collectivesProvider = (ask: AskTuner<AbortSignal>): LaunchExtrasProvider => ({
  part: "collectives",
  deadlineMs: DEADLINE_MS,
  async provide({ fleetWorkflowId: fleetId, jobId, spec, gpus }, shape, signal) {
    const { collectives } = spec;
    const topology = topologyClass(gpus, shape);
    if (collectives === undefined || topology.ranks < 2) return undefined;
    const fleet = fleetOfWorkflow(fleetId);
    const order: CollectiveOrder = { fleet, topology, hasOverlap: collectives.hasOverlap };
    const policy = await ask(order, { run: jobId, rewards: [] }, signal);
    if (policy.version === 0) throw new Error(`there is no policy yet for ${topology.name}`);
    return {
      env: {
        [POLICY_VARIABLE]: `{files}/${POLICY_FILE}`,
        [SEAL_VARIABLE]: sealed(policy.text),
        [REWARDS_VARIABLE]: `{files}/${REWARDS_FILE}`,
      },
      files: [
        { name: POLICY_FILE, text: policy.text },
        { name: ORDER_FILE, text: JSON.stringify(order) },
      ],
      message: `collectives of ${topology.name} in ${topology.cluster}: policy ${String(policy.version)}${policy.isExploring ? ", exploring" : ""}`,
    };
  },
});

/** As one line, for the environment. */
const sealed = (text: string): string => text.replaceAll("\n", ";");

/** Asks the tuner of a topology class over this client, and starts it where there is none. */
export const tunerOver =
  (client: Client): AskTuner<AbortSignal> =>
  (order, { run, rewards }, signal) => {
    const { fleet, topology, hasOverlap } = order;
    const input: CollectiveTunerInput = { fleet, topology, rules: COLLECTIVE_TUNER_RULES };
    const start = new WithStartWorkflowOperation(COLLECTIVE_TUNER_WORKFLOW, {
      workflowId: collectiveTunerWorkflowId(fleet, topology),
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      workflowIdConflictPolicy: "USE_EXISTING",
    });
    return client.withAbortSignal(signal ?? AbortSignal.timeout(DEADLINE_MS), () =>
      client.workflow.executeUpdateWithStart(reportRewardsUpdate, {
        args: [{ hasOverlap, run, rewards }],
        startWorkflowOperation: start,
      }),
    );
  };
