/**
 * @file Carries log reads to a host's agent through a short-lived workflow, so that they work from any machine that reaches
 * Temporal.
 *
 * The workflow starts at the first read and is replaced before its history grows large. It ends by a signal, or by itself when
 * no client has read for `IDLE_MS`.
 */

import type { Client, WorkflowHandle } from "@temporalio/client";
import type { UpdateDefinition } from "@temporalio/common";
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
    return await startHelper(client, LOG_SESSION_WORKFLOW, {
      workflowId,
      ...readerMemo(workflowId, reader),
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      staticSummary: `logs of ${of.jobId}`,
    });
  };
  const endWorkflow = async (workflow: Promise<WorkflowHandle>): Promise<void> => {
    // An ended session needs no signal; an open one ends by itself when it is idle.
    await (await workflow).signal(endLogSessionSignal).catch(() => undefined);
  };
  const readOnce = async (query: LogQuery): Promise<LogChunk> => {
    if (current !== undefined && isUsed(current)) {
      void endWorkflow(current.workflow);
      current = undefined;
    }
    current ??= { workflow: start(), startedMs: performance.now(), reads: 0, bytes: 0 };
    const mine = current;
    mine.reads += 1;
    const workflow = await asked(client, "the log session", () => mine.workflow);
    const chunk = await asked(
      client,
      `the log of rank ${String(query.rank)} of job ${of.jobId}`,
      () => workflow.executeUpdate(readLogUpdate, { args: [query] }),
      { withinMs: ANSWER_WITHIN_MS + query.waitMs },
    );
    mine.bytes += chunk.text.length;
    return chunk;
  };
  return {
    read: async (query) => {
      try {
        return await readOnce(query);
      } catch (error) {
        // The session ended while the client was idle (a laptop that slept); a new one continues at the same offset.
        const isOver =
          error instanceof OrbweaverError && ["NOT_FOUND", "NOT_ALLOWED"].includes(error.code);
        if (!isOver) throw error;
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
