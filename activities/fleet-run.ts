/** @file How the first run of a fleet's workflow is started, whoever starts it; later ones follow by continue-as-new. */

import type { Priority } from "@temporalio/common";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import {
  FLEET_TASK_QUEUE,
  FLEET_TASK_TIMEOUT,
  fleetMemo,
  fleetWorkflowId,
  type FleetInput,
} from "../protocol/messages.ts";
import { askedProof } from "../scheduling/ledger/ledger.ts";

/** Options of `client.workflow.start(FLEET_WORKFLOW, …)`. */
export interface FleetRun {
  readonly workflowId: string;
  readonly taskQueue: string;
  readonly workflowTaskTimeout: typeof FLEET_TASK_TIMEOUT;
  readonly priority: Priority;
  readonly args: [FleetInput];
  readonly memo: Record<string, string>;
}

export function fleetRun(input: Omit<FleetInput, "rules">): FleetRun {
  const { name, ledger, areWordsSigned = false } = input;
  return {
    workflowId: fleetWorkflowId(name),
    taskQueue: FLEET_TASK_QUEUE,
    workflowTaskTimeout: FLEET_TASK_TIMEOUT,
    priority: OWN_PRIORITY,
    args: [{ ...input, rules: ledger.applyVersion }],
    memo: fleetMemo(name, askedProof(ledger, areWordsSigned)),
  };
}
