/**
 * @file Brings a fleet's news to the lobby of a tenant: to the one that is open, or to a new one.
 *
 * A lobby that ended by itself was empty. One that was ended by hand, or has failed, is started again with what its last run began with, and has
 * itself told once more what that run was told. Rows of jobs that have been called in since come again so; these give the call back. A workflow of somebody else's under a lobby's id
 * hears the news and does nothing: the lobby takes its place, and is told what came to it. Cost: two calls.
 */

import {
  WorkflowNotFoundError,
  type Client,
  type WorkflowExecutionDescription,
} from "@temporalio/client";
import type { LobbyInput } from "../protocol/lobby-contract.ts";
import {
  fleetMemo,
  fleetWorkflowId,
  JOB_TASK_QUEUE,
  LOBBY_WORKFLOW,
  lobbyNewsSignal,
  lobbyWorkflowId,
  type LobbyNews,
} from "../protocol/messages.ts";
import { tenantPriority } from "../protocol/fair-tasks.ts";
import { isFields } from "../lib/fields.ts";
import type { AskedBy } from "./signed-fleets.ts";
import { startedWith } from "./started-with.ts";

export interface LobbyPorts {
  readonly client: Client;
  readonly askedBy: AskedBy;
}

/** Fails when the server does not answer; the news may have arrived then, and may come again. */
export async function tellLobby({ client, askedBy }: LobbyPorts, news: LobbyNews): Promise<void> {
  const workflowId = lobbyWorkflowId(news.fleet, news.tenant);
  const last = await lastRun(client, workflowId);
  const isTaken = last?.status.name === "RUNNING" && !isLobby(last);
  if (last !== undefined && !isTaken)
    try {
      return await client.workflow.getHandle(workflowId).signal(lobbyNewsSignal, news);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  const { isProofAsked: _, ...input } = await inputFor(client, news, last);
  const isProofAsked = (await askedBy(fleetWorkflowId(news.fleet))) === "all";
  await client.workflow.signalWithStart(LOBBY_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ ...input, ...(isProofAsked && { isProofAsked }) }],
    signal: lobbyNewsSignal,
    signalArgs: [news],
    workflowIdReusePolicy: "ALLOW_DUPLICATE",
    workflowIdConflictPolicy: isTaken ? "TERMINATE_EXISTING" : "USE_EXISTING",
    staticSummary: `jobs of ${news.tenant} that wait outside fleet ${news.fleet}`,
    priority: tenantPriority(news.tenant),
    memo: fleetMemo(news.fleet),
  });
}

type Run = Pick<WorkflowExecutionDescription, "type" | "taskQueue" | "status" | "runId">;

async function lastRun(client: Client, workflowId: string): Promise<Run | undefined> {
  try {
    return await client.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

const isLobby = ({ type, taskQueue }: Run): boolean =>
  type === LOBBY_WORKFLOW && taskQueue === JOB_TASK_QUEUE;

async function inputFor(
  client: Client,
  { fleet, tenant }: LobbyNews,
  last: Run | undefined,
): Promise<LobbyInput> {
  const empty: LobbyInput = { fleet, tenant };
  if (last === undefined) return empty;
  const { runId, status } = last;
  if (!isLobby(last)) return { ...empty, former: [runId] };
  if (status.name === "COMPLETED" || status.name === "RUNNING") return empty;
  const input = await startedWith(client, {
    workflowId: lobbyWorkflowId(fleet, tenant),
    runId,
  });
  if (!isInput(input)) return { ...empty, former: [runId] };
  return { ...input, former: [...(input.former ?? []), runId] };
}

const isInput = (value: unknown): value is LobbyInput =>
  isFields(value) && typeof value["fleet"] === "string" && typeof value["tenant"] === "string";
