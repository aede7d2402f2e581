/**
 * @file Brings a fleet's news to the lobby of a tenant: to the one that is open, or to a new one.
 *
 * A lobby that ended by itself was empty. One that was ended by hand, or has failed, is started again with what its last run began with, and has
 * itself told once more what that run was told. Rows of jobs that have been called in since come again so; these give the call back. A workflow of somebody else's under a lobby's id
 * hears the news and does nothing: the lobby takes its place, is told what came to it, and asks the tenant's jobs, because a true lobby may have been ended before. So is what a run was told whose input a
 * lobby cannot begin with, or is another lobby's.
 *
 * Two deliveries may tell a lobby at once. Each ends the false workflow that it has seen, and nothing else; the second one's news goes to the lobby that the first has opened.
 * Cost: two calls for an open lobby, and a third for its input, of up to 1 MiB, once a run and worker; two for one that has completed or never was; three for one with another end, its input among
 * them; three for a workflow in its place, four where its input alone tells.
 */

import {
  isGrpcServiceError,
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
import { isUnreadable } from "../protocol/unreadable.ts";
import { inputProblem } from "../protocol/workflow-inputs.ts";
import { isFields, type Fields } from "../lib/fields.ts";
import type { AskedBy } from "./signed-fleets.ts";
import { startedWith } from "./started-with.ts";

export interface LobbyPorts {
  readonly client: Client;
  readonly askedBy: AskedBy;
}

/** Fails when the server does not answer; the news may have arrived then, and may come again. */
export async function tellLobby(ports: LobbyPorts, news: LobbyNews): Promise<void> {
  const { client, askedBy } = ports;
  const workflowId = lobbyWorkflowId(news.fleet, news.tenant);
  const last = await lastRun(client, workflowId);
  if (last?.status.name === "RUNNING") {
    if (await isLobbyOf(client, news, last)) return await tellOpen(ports, news);
    await end(client, workflowId, last);
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
    workflowIdConflictPolicy: "USE_EXISTING",
    staticSummary: `jobs of ${news.tenant} that wait outside fleet ${news.fleet}`,
    priority: tenantPriority(news.tenant),
    memo: fleetMemo(news.fleet),
  });
}

async function tellOpen(ports: LobbyPorts, news: LobbyNews): Promise<void> {
  const lobby = ports.client.workflow.getHandle(lobbyWorkflowId(news.fleet, news.tenant));
  try {
    await lobby.signal(lobbyNewsSignal, news);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    // It has ended meanwhile: how, says another look.
    await tellLobby(ports, news);
  }
}

type Run = Pick<WorkflowExecutionDescription, "type" | "taskQueue" | "status" | "runId" | "raw">;

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

/** Open runs that are the lobbies they should be: what a run began with never changes. */
const KNOWN = new WeakMap<Client, Set<string>>();
const MOST_KNOWN = 2_000;

/**
 * Whether an open run is the lobby of this fleet and tenant. The form of its input is not judged: the run does so itself, and may be of another release. Nor is what cannot be read here: to
 * end a true lobby would be worse.
 */
async function isLobbyOf(client: Client, news: LobbyNews, run: Run): Promise<boolean> {
  if (!isLobby(run)) return false;
  const known = KNOWN.get(client) ?? new Set();
  KNOWN.set(client, known);
  if (known.has(run.runId)) return true;
  const input = await inputOf(client, news, run);
  if (isFields(input) && !isUnreadable(input) && !isOf(news, input)) return false;
  if (known.size >= MOST_KNOWN) known.clear();
  known.add(run.runId);
  return true;
}

/** With what it has gone on as; never what somebody else has opened under the id since. */
async function end(client: Client, workflowId: string, { runId, raw }: Run): Promise<void> {
  const firstExecutionRunId = raw.workflowExecutionInfo?.firstRunId ?? "";
  const squatter =
    firstExecutionRunId === ""
      ? client.workflow.getHandle(workflowId, runId)
      : client.workflow.getHandle(workflowId, undefined, { firstExecutionRunId });
  try {
    await squatter.terminate("it has the id of a lobby, and is none");
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

async function inputFor(
  client: Client,
  news: LobbyNews,
  last: Run | undefined,
): Promise<LobbyInput> {
  const { fleet, tenant } = news;
  const empty: LobbyInput = { fleet, tenant };
  if (last === undefined) return empty;
  const { runId, status } = last;
  if (isLobby(last) && status.name === "COMPLETED") return empty;
  const isFalse = !isLobby(last) || status.name === "RUNNING";
  const input = isFalse ? undefined : await inputOf(client, news, last);
  // A true lobby may have been ended before it: with which rows, nobody knows.
  if (!isInputOf(news, input)) return { ...empty, former: [runId], isMusterDue: true };
  return { ...input, fleet, tenant, former: [...(input.former ?? []), runId] };
}

/** Undefined where it is no value. */
async function inputOf(
  client: Client,
  { fleet, tenant }: LobbyNews,
  { runId }: Run,
): Promise<unknown> {
  try {
    return await startedWith(client, { workflowId: lobbyWorkflowId(fleet, tenant), runId });
  } catch (error) {
    if (isGrpcServiceError(error)) throw error;
    return undefined;
  }
}

const isOf = ({ fleet, tenant }: LobbyNews, input: Fields): boolean =>
  input["fleet"] === fleet && input["tenant"] === tenant;

const isInputOf = (news: LobbyNews, input: unknown): input is LobbyInput =>
  isFields(input) && inputProblem(LOBBY_WORKFLOW, input) === undefined && isOf(news, input);
