/**
 * @file Starts a fleet again whose workflow was closed (terminated by hand, most likely), from the input of its last run.
 *
 * A fleet continues as new after every change by an operator, so that input has the newest description and drains. Requests,
 * leases and agents of the input are old news: the new run asks agents and jobs for them (`isRecovering`). Tokens go on far above
 * all that the closed run can have granted. Of several who find the fleet closed one starts it; the others find it running.
 */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { decodeArrayFromPayloads } from "@temporalio/common/lib/internal-non-workflow/index.js";
import { fleetShapeProblem } from "../domain/fleet-shape.ts";
import { emptyLedger } from "../scheduling/apply.ts";
import { packLedger, unpackLedger } from "../scheduling/ledger-codec.ts";
import type { HostStanding, Ledger } from "../scheduling/ledger.ts";
import { tokenAfterLoss } from "../scheduling/lost-lease.ts";
import {
  FLEET_RULES,
  FLEET_TASK_QUEUE,
  FLEET_WORKFLOW,
  fleetMemo,
  type FleetInput,
} from "../workflows/messages.ts";

/** Jobs that were started just before the loss may not be visible at first: agents and jobs are asked three times. */
const RECOVER_AFTER_MS = [0, 60_000, 600_000] as const;

export type Revival = "revived" | "running" | "never-was";

/** Fails when nobody answers, or when the last run's input cannot be read. */
export async function reviveFleet(client: Client, fleetWorkflowId: string): Promise<Revival> {
  let last;
  try {
    last = await client.workflow.getHandle(fleetWorkflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return "never-was";
    throw error;
  }
  if (last.status.name === "RUNNING") return "running";
  const input = await inputOf(client, fleetWorkflowId, last.runId);
  await client.workflow.start(FLEET_WORKFLOW, {
    workflowId: fleetWorkflowId,
    taskQueue: FLEET_TASK_QUEUE,
    args: [
      {
        name: input.name,
        rules: FLEET_RULES,
        isRecovering: true,
        recoverAtMs: RECOVER_AFTER_MS.map((afterMs) => Date.now() + afterMs),
        ledger: packLedger(ledgerAfterLoss(unpackLedger(input.ledger))),
      } satisfies FleetInput,
    ],
    workflowIdConflictPolicy: "USE_EXISTING",
    workflowIdReusePolicy: "ALLOW_DUPLICATE",
    staticSummary: `fleet ${input.name}, started again after its end`,
    memo: fleetMemo(input.name),
  });
  return "revived";
}

/** What survives the loss: the description, and what operators have said of hosts. */
export function ledgerAfterLoss(lost: Ledger): Ledger {
  const hosts = [...lost.hosts].flatMap(
    ([host, { isDrained, drainReason, isFenced, fencedAtMs, agent, lastEpoch }]) => {
      if (!isDrained && isFenced !== true) return [];
      const newest = agent?.epoch ?? lastEpoch;
      const standing: HostStanding = {
        isDrained,
        ...(drainReason !== undefined && { drainReason }),
        ...(isFenced === true && { isFenced }),
        ...(fencedAtMs !== undefined && { fencedAtMs }),
        ...(isFenced === true && newest !== undefined && { lastEpoch: newest }),
      };
      return [[host, standing] as const];
    },
  );
  return {
    ...emptyLedger(lost.shape, lost.detailsHash),
    nextToken: tokenAfterLoss(lost.nextToken),
    nextArrival: lost.nextArrival,
    hosts: new Map(hosts),
  };
}

async function inputOf(client: Client, workflowId: string, runId: string): Promise<FleetInput> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace: client.options.namespace,
    execution: { workflowId, runId },
    maximumPageSize: 1,
  });
  const payloads = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads;
  const [input] = await decodeArrayFromPayloads(
    client.options.loadedDataConverter ?? { payloadConverter: defaultPayloadConverter },
    payloads,
  );
  if (!isFleetInput(input)) {
    throw new Error(
      `the last run of ${workflowId} (${runId}) has no input that a fleet can be started from; start it with \`orbweaver up FLEET.yaml\``,
    );
  }
  return input;
}

const isFleetInput = (value: unknown): value is FleetInput =>
  typeof value === "object" &&
  value !== null &&
  "name" in value &&
  typeof value.name === "string" &&
  "ledger" in value &&
  typeof value.ledger === "object" &&
  value.ledger !== null &&
  "shape" in value.ledger &&
  fleetShapeProblem(value.ledger.shape) === undefined;
