/**
 * @file Carries log reads to a host's agent through a short-lived workflow, so that they work from any machine that reaches Temporal.
 *
 * The workflow is started at the first read and replaced before its history grows large; it ends by signal, or by
 * itself when nobody has read for `IDLE_MS` (a client that was killed).
 */

import type { Client, WorkflowHandle } from "@temporalio/client";
import type { UpdateDefinition } from "@temporalio/common";
import { randomBytes } from "node:crypto";
import { OrbweaverError } from "../domain/failure.ts";
import type { JobId } from "../domain/ids.ts";
import {
  endLogSessionSignal,
  JOB_TASK_QUEUE,
  LOG_SESSION_WORKFLOW,
  readLogUpdate,
  LOG_SESSION_RULES,
  type LogSessionInput,
} from "../workflows/messages.ts";
import { ANSWER_WITHIN_MS, asked } from "./server-error.ts";

type ReadMessage =
  typeof readLogUpdate extends UpdateDefinition<infer Chunk, [infer Query]>
    ? { readonly chunk: Chunk; readonly query: Query }
    : never;
export type LogQuery = ReadMessage["query"];
export type LogChunk = ReadMessage["chunk"];

/** More reads than this at once would exceed what one workflow takes of updates in flight (10). */
export const READERS_PER_SESSION = 8;

const IDLE_MS = 60_000;
/** A workflow may take 2,000 updates; its history holds every text twice. */
const MAX_READS = 400;
const MAX_BYTES = 4 * 1024 * 1024;

export interface LogSession {
  readonly read: (query: LogQuery) => Promise<LogChunk>;
  readonly end: () => Promise<void>;
}

export function openLogSession(
  client: Client,
  of: { readonly jobId: JobId; readonly fleet: string },
): LogSession {
  let current: { workflow: Promise<WorkflowHandle>; reads: number; bytes: number } | undefined;

  const start = async (): Promise<WorkflowHandle> => {
    const input: LogSessionInput = { rules: LOG_SESSION_RULES, fleet: of.fleet, idleMs: IDLE_MS };
    return await client.workflow.start(LOG_SESSION_WORKFLOW, {
      workflowId: `logs-${of.jobId}-${randomBytes(5).toString("hex")}`,
      taskQueue: JOB_TASK_QUEUE,
      args: [input],
      staticSummary: `logs of ${of.jobId}`,
    });
  };
  const endWorkflow = async (workflow: Promise<WorkflowHandle>): Promise<void> => {
    // A session that is already over is what we want; one that is not ends by itself when idle.
    await (await workflow).signal(endLogSessionSignal).catch(() => undefined);
  };
  const readOnce = async (query: LogQuery): Promise<LogChunk> => {
    if (current !== undefined && (current.reads >= MAX_READS || current.bytes >= MAX_BYTES)) {
      void endWorkflow(current.workflow);
      current = undefined;
    }
    current ??= { workflow: start(), reads: 0, bytes: 0 };
    const mine = current;
    mine.reads += 1;
    const workflow = await asked(client, "the log session", () => mine.workflow);
    const chunk = await asked(
      client,
      `the log of rank ${String(query.rank)} of job ${of.jobId}`,
      () => workflow.executeUpdate(readLogUpdate, { args: [query] }),
      ANSWER_WITHIN_MS + query.waitMs,
    );
    mine.bytes += chunk.text.length;
    return chunk;
  };
  return {
    read: async (query) => {
      try {
        return await readOnce(query);
      } catch (error) {
        // The session ended while nobody read (a laptop that slept): a new one goes on at the same offset.
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
