/** @file Where a job stands in its tenant's lobby, which waits outside its fleet. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import type { JobView } from "../protocol/messages.ts";
import {
  JOB_TASK_QUEUE,
  lobbyPlaceQuery,
  lobbyWorkflowId,
  type LobbyPlace,
  type LobbyQuestion,
} from "../protocol/messages.ts";
import { OTHER_TENANTS } from "../scheduling/ledger/intake.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { queried } from "./waking.ts";

/** Undefined for a job that waits inside or not at all, and where its lobby does not answer. */
export async function lobbyPlaceOf(
  client: Client,
  { jobId, fleet, spec, state, pending, submittedAtMs, array }: JobView,
): Promise<LobbyPlace | undefined> {
  const mayWait = state === "pending" || array !== undefined;
  if (spec === undefined || !mayWait || pending?.code !== "QueueFull") return undefined;
  const { tenant, class: jobClass, priority } = spec;
  const question: LobbyQuestion = { jobId, class: jobClass, priority, submittedAtMs };
  for (const at of [tenant, OTHER_TENANTS]) {
    try {
      const lobby = client.workflow.getHandle(lobbyWorkflowId(fleet, at));
      const place = await queried(client, `the lobby of ${at}`, {
        taskQueue: JOB_TASK_QUEUE,
        query: () => lobby.query(lobbyPlaceQuery, question),
      });
      if (place !== null) return place;
    } catch (error) {
      // The job's own state and its fleet's answer are still useful.
      if (!(error instanceof OrbweaverError) && !(error instanceof WorkflowNotFoundError))
        throw error;
    }
  }
  return undefined;
}
