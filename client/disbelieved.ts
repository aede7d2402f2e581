/**
 * @file The words and orders of which a fleet, its presences, lobbies and learners, a job or a host did not believe that their senders may say them: a line for
 * each sender.
 */

import { ServiceError, type Client } from "@temporalio/client";
import type { FleetShape } from "../domain/fleet/fleet.ts";
import type { FailureCode } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { HostId, JobId } from "../domain/values/ids.ts";
import { each } from "../lib/each.ts";
import {
  bandwidthModelWorkflowId,
  COLLECTIVE_TUNER_WORKFLOW,
  collectiveTunerPrefix,
  disbelievedQuery,
  JOB_TASK_QUEUE,
  linkMonitorWorkflowId,
  LOBBY_WORKFLOW,
  presenceWorkflowId,
  type Disbelieved,
} from "../protocol/messages.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import { refusedByHosts } from "./gpu-use.ts";
import { listedRuns } from "./job-rows.ts";
import { translated } from "./server-error.ts";
import { queried } from "./waking.ts";

export interface DisbelievedSender {
  /** Of the last of them. */
  readonly atMs: number;
  /** As its client calls itself; anybody may claim any name; empty where nobody has noted it. Of a host: the id of the workflow that gave the order. */
  readonly sender: string;
  readonly times: number;
  /** The last of them: its name or its kind, or the code of a dead letter, and why it was not believed. */
  readonly what: string;
  readonly why: string;
  /** The workflow, or the host, that did not believe it; absent of the fleet's own, or the job's that was asked for. */
  readonly to?: string;
}

const UNPROVEN = "EntryUnproven";
const REASON = /^a word to the fleet is not believed: (?:([\w-]+): )?(.*)$/s;
const INBOX = "inbox";

/** Oldest first, as far as the fleet's dead letters go back: what nobody had proven, and what cannot be true, or be read, whoever says it. */
export const disbelievedByFleet = ({
  deadLetters,
}: Pick<Ledger, "deadLetters">): readonly DisbelievedSender[] =>
  deadLetters.map(({ code, atMs, message, sender = "", times = 1 }) => {
    if (code !== UNPROVEN) return { atMs, sender, times, what: code, why: message };
    const [, what = INBOX, why = message] = REASON.exec(message) ?? [];
    return { atMs, sender, times, what, why };
  });

/** Of the job's run, or of its last one. */
export async function disbelievedByJob(
  client: Client,
  jobId: JobId,
): Promise<readonly DisbelievedSender[]> {
  const words = await queried(client, `job ${jobId}`, {
    taskQueue: JOB_TASK_QUEUE,
    query: () => client.workflow.getHandle(jobId).query(disbelievedQuery),
  });
  return words.map((word) => senderOf(word));
}

/** Of the fleet's presences, lobbies and learners that are open. One that does not answer is left out. */
export async function disbelievedByAttendants(
  client: Client,
  fleet: string,
  { clusters }: Pick<FleetShape, "clusters">,
): Promise<readonly DisbelievedSender[]> {
  const ofClusters = clusters.flatMap(({ id }) => [
    presenceWorkflowId(fleet, id),
    bandwidthModelWorkflowId(fleet, id),
  ]);
  const tuners = clusters.map(({ id }) => `${collectiveTunerPrefix(fleet)}${id}-`);
  const listed: string[] = [];
  const query = `WorkflowType IN ("${LOBBY_WORKFLOW}", "${COLLECTIVE_TUNER_WORKFLOW}") AND ExecutionStatus = "Running"`;
  for await (const { workflowId, memo } of listedRuns(client, query, ["fleet"]))
    if (memo?.["fleet"] === fleet || tuners.some((prefix) => workflowId.startsWith(prefix)))
      listed.push(workflowId);
  const all = [...ofClusters, linkMonitorWorkflowId(fleet), ...listed.sort()];
  const words: DisbelievedSender[] = [];
  await each(all, async (workflowId) => {
    const found = await ifThere(workflowId, () =>
      client.workflow.getHandle(workflowId).query(disbelievedQuery),
    );
    words.push(...(found ?? []).map((word) => senderOf(word, workflowId)));
  });
  return words;
}

/** Of the hosts whose agents are there, whoever the sender was; `sender` is the id of a workflow, by the server's word. */
export async function disbelievedByHosts(
  client: Client,
  fleet: string,
  { shape: { clusters }, hosts }: Pick<Ledger, "shape" | "hosts">,
): Promise<readonly DisbelievedSender[]> {
  const queueOf = (host: HostId): string | undefined => hosts.get(host)?.agent?.orderQueue;
  const told = await each(clusters, ({ id: cluster }) =>
    ifThere(presenceWorkflowId(fleet, cluster), () =>
      refusedByHosts(client, { fleet, cluster, queueOf }),
    ),
  );
  return told.flatMap((ofCluster = []) =>
    ofCluster.flatMap(([to, rows]) =>
      rows.map(({ order, ...row }): DisbelievedSender => ({ ...row, what: order, to })),
    ),
  );
}

async function ifThere<Answer>(
  workflowId: string,
  ask: () => Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await ask();
  } catch (error) {
    const problem = translated(error, workflowId);
    // What is left of the server's own errors says that it is too busy.
    const isAway =
      problem instanceof OrbweaverError ? AWAY.has(problem.code) : problem instanceof ServiceError;
    if (!isAway) throw problem;
    return undefined;
  }
}

/** There is none, a former release runs it, or its worker is away. */
const AWAY: ReadonlySet<string> = new Set<FailureCode>([
  "NOT_FOUND",
  "NOT_ALLOWED",
  "NO_CONNECTION",
]);

const senderOf = ({ word, reason, ...rest }: Disbelieved, to?: string): DisbelievedSender => ({
  ...rest,
  what: word,
  why: reason,
  ...(to !== undefined && { to }),
});
