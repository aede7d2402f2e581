/**
 * @file Carries log reads to a host's agent through a short-lived workflow, so that they work from any machine that reaches
 * Temporal.
 *
 * The workflow starts at the first read and is replaced before its history grows large. It ends by a signal, or by itself when
 * no client has read for `IDLE_MS`.
 */

import { WorkflowUpdateFailedError, type Client, type WorkflowHandle } from "@temporalio/client";
import { TimeoutFailure, type UpdateDefinition } from "@temporalio/common";
import { randomBytes } from "node:crypto";
import { signJob } from "../access/job-proof.ts";
import { ownIdentity, type Identity } from "../access/own-identity.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { JobId } from "../domain/values/ids.ts";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import {
  endLogSessionSignal,
  JOB_TASK_QUEUE,
  LOG_SESSION_WORKFLOW,
  logSessionId,
  readLogUpdate,
  LOG_SESSION_RULES,
  type LogSessionInput,
} from "../protocol/messages.ts";
import { PROOF_AGE_MS, PROOF_MEMO, READER_CONTENT } from "../protocol/signed-job.ts";
import { checkedChunk } from "./log-chunk.ts";
import { startHelper } from "./helper-workflow.ts";
import { ANSWER_WITHIN_MS, asked } from "./server-error.ts";

type ReadMessage =
  typeof readLogUpdate extends UpdateDefinition<infer Chunk, [infer Query]>
    ? { readonly chunk: Chunk; readonly query: Query }
    : never;
export type LogQuery = ReadMessage["query"];
export type LogChunk = ReadMessage["chunk"];

/** More concurrent reads than this would exceed the limit of a workflow's updates in flight (10). */
export const READERS_PER_SESSION = 8;

const IDLE_MS = 60_000;
/** A session answers that an agent is silent after 15 s, beside the time that it takes itself. */
const SILENCE_WITHIN_MS = 15_000 + ANSWER_WITHIN_MS;
/** A workflow may take 2,000 updates; its history holds every text twice. */
const MAX_READS = 400;
const MAX_BYTES = 4 * 1024 * 1024;
/** Well before its signature is too old for hosts. */
const MAX_AGE_MS = PROOF_AGE_MS / 2;

export interface LogSession {
  readonly read: (query: LogQuery) => Promise<LogChunk>;
  readonly end: () => Promise<void>;
}

interface OpenSession {
  readonly workflow: Promise<WorkflowHandle>;
  readonly startedMs: number;
  reads: number;
  bytes: number;
}

const isUsed = ({ startedMs, reads, bytes }: OpenSession): boolean =>
  reads >= MAX_READS || bytes >= MAX_BYTES || performance.now() - startedMs > MAX_AGE_MS;

const isUnanswered = (error: unknown): boolean =>
  error instanceof OrbweaverError && error.code === "NO_CONNECTION";

/** A session's word that the fleet knows no agent of the host now. */
const hasNoAgent = (error: unknown): boolean =>
  error instanceof OrbweaverError &&
  error.code === "NOT_FOUND" &&
  error.cause instanceof WorkflowUpdateFailedError;

/** Whether nobody has answered, who may do so later. */
export const isLost = (error: unknown): boolean => isUnanswered(error) || hasNoAgent(error);

/** The session gives up an agent that does not take its question before the client gives up the session. */
function ofSilence(error: unknown, host: string): unknown {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at instanceof TimeoutFailure)
      return new OrbweaverError(
        "NO_CONNECTION",
        `the agent of ${host} does not answer; its logs are on its disk and can be read when it is back`,
        { cause: error },
      );
  return error;
}

/** Hosts show output to who has signed the session. Without a signature those of `--trust namespace` do. */
function readerMemo(
  workflowId: string,
  reader: () => Identity,
): { readonly memo?: Record<string, string> } {
  try {
    const session = { jobId: workflowId, content: READER_CONTENT };
    return { memo: { [PROOF_MEMO]: signJob(session, reader(), Date.now()) } };
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    return {};
  }
}

export function openLogSession(
  client: Client,
  of: { readonly jobId: JobId; readonly fleet: string },
  reader: () => Identity = ownIdentity,
): LogSession {
  let current: OpenSession | undefined;

  const start = async (): Promise<WorkflowHandle> => {
    const input: LogSessionInput = { rules: LOG_SESSION_RULES, fleet: of.fleet, idleMs: IDLE_MS };
    const workflowId = logSessionId(of.jobId, randomBytes(5).toString("hex"));
    const options = {
      workflowId,
      ...readerMemo(workflowId, reader),
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      staticSummary: `logs of ${of.jobId}`,
    };
    return await asked(client, "the log session", () =>
      startHelper(client, LOG_SESSION_WORKFLOW, options),
    );
  };
  const endWorkflow = async (workflow: Promise<WorkflowHandle>): Promise<void> => {
    // An ended session needs no signal; an open one ends by itself when it is idle.
    await workflow.then((open) => open.signal(endLogSessionSignal)).catch(() => undefined);
  };
  const readOnce = async (query: LogQuery): Promise<LogChunk> => {
    if (current !== undefined && isUsed(current)) {
      void endWorkflow(current.workflow);
      current = undefined;
    }
    current ??= { workflow: start(), startedMs: performance.now(), reads: 0, bytes: 0 };
    const mine = current;
    mine.reads += 1;
    try {
      const workflow = await mine.workflow;
      const answer = await asked(
        client,
        `the log of rank ${String(query.rank)} of job ${of.jobId}`,
        () => workflow.executeUpdate(readLogUpdate, { args: [query] }),
        { withinMs: SILENCE_WITHIN_MS + query.waitMs },
      );
      const chunk = checkedChunk(answer, query);
      mine.bytes += chunk.text.length;
      return chunk;
    } catch (thrown) {
      const error = ofSilence(thrown, query.host);
      // What has not answered stays in flight there: the next read has a session of its own.
      if (isUnanswered(error) && current === mine) current = undefined;
      throw error;
    }
  };
  return {
    read: async (query) => {
      try {
        return await readOnce(query);
      } catch (error) {
        // The session ended while the client was idle (a laptop that slept); a new one continues at the same offset.
        const isOver =
          error instanceof OrbweaverError && ["NOT_FOUND", "NOT_ALLOWED"].includes(error.code);
        if (!isOver || hasNoAgent(error)) throw error;
        current = undefined;
        return await readOnce(query);
      }
    },
    end: async () => {
      if (current !== undefined) await endWorkflow(current.workflow);
      current = undefined;
    },
  };
}
