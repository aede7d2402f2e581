/**
 * @file Schedules as the server keeps them, each part read by itself.
 *
 * Whoever reaches the frontend makes schedules with any memo and any input. Temporal's client decodes all of one, and fails for what it cannot: one torn entry would end
 * every list. Cost: one call a page, and one for each that is looked at.
 */

import type { Client } from "@temporalio/client";
import type { Payload } from "@temporalio/common";
import proto, { type google } from "@temporalio/proto";
import { decodedPayloads } from "../client/payloads.ts";
import { asked } from "../client/server-error.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface ListedSchedule {
  readonly scheduleId: string;
  /** Without the entries that cannot be read. */
  readonly memo: ReadonlyMap<string, unknown>;
}

export interface Schedule extends ListedSchedule {
  /** What its workflows are started with; undefined where that cannot be read. */
  readonly input: unknown;
  /** Why its input cannot be read, where it cannot. */
  readonly problem?: unknown;
  /** When it was last written, by the server's clock; absent where that does not say. */
  readonly saidAtMs?: number;
  readonly isPaused: boolean;
  readonly note: string;
  /** The oldest first. */
  readonly lastTimes: readonly ScheduledRun[];
  readonly nextMs?: number;
}

export interface ScheduledRun {
  readonly atMs: number;
  readonly workflowId: string;
  readonly runId: string;
}

const { api } = proto.temporal;
type Timestamp = google.protobuf.ITimestamp;

/** Those whose ids begin so: of others no memo is read. One page of the server's after the other, as far as somebody goes on. */
export async function* listedSchedules(
  client: Client,
  prefix: string,
): AsyncGenerator<ListedSchedule> {
  const { namespace } = client.options;
  let nextPageToken: Uint8Array = new Uint8Array();
  do {
    const token = nextPageToken;
    const page = await asked(client, "the list of schedules", () =>
      client.workflowService.listSchedules({ namespace, nextPageToken: token }),
    );
    for (const { scheduleId, memo } of page.schedules)
      if (scheduleId?.startsWith(prefix) === true)
        yield { scheduleId, memo: await readMemo(client, memo?.fields) };
    ({ nextPageToken } = page);
  } while (nextPageToken.length > 0);
}

/** Undefined where there is none. */
export async function scheduleOf(
  client: Client,
  scheduleId: string,
): Promise<Schedule | undefined> {
  const { namespace } = client.options;
  try {
    const { schedule, info, memo } = await asked(client, `schedule ${scheduleId}`, () =>
      client.workflowService.describeSchedule({ namespace, scheduleId }),
    );
    const { workflowId, input } = schedule?.action?.startWorkflow ?? {};
    const written = info?.updateTime ?? info?.createTime;
    const next = info?.futureActionTimes?.[0];
    return {
      scheduleId,
      memo: await readMemo(client, memo?.fields),
      ...(await readInput(client, input?.payloads?.[0], workflowId ?? "")),
      ...(written && { saidAtMs: msOf(written) }),
      isPaused: schedule?.state?.paused === true,
      note: schedule?.state?.notes ?? "",
      lastTimes: (info?.recentActions ?? []).map(({ scheduleTime, startWorkflowResult: run }) => ({
        atMs: msOf(scheduleTime),
        workflowId: run?.workflowId ?? "",
        runId: run?.runId ?? "",
      })),
      ...(next && { nextMs: msOf(next) }),
    };
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return undefined;
    throw error;
  }
}

/** What this run of a workflow has returned; undefined where it has not, or that cannot be read. */
export async function resultOf(
  client: Client,
  workflowId: string,
  runId: string,
): Promise<unknown> {
  const { history } = await asked(client, `workflow ${workflowId}`, () =>
    client.workflowService.getWorkflowExecutionHistory({
      namespace: client.options.namespace,
      execution: { workflowId, runId },
      historyEventFilterType:
        api.enums.v1.HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
    }),
  );
  const end = history?.events?.at(-1)?.workflowExecutionCompletedEventAttributes;
  return await read(client, end?.result?.payloads?.[0], workflowId);
}

async function readMemo(
  client: Client,
  fields: Readonly<Record<string, Payload>> | null | undefined,
): Promise<ReadonlyMap<string, unknown>> {
  const memo = new Map<string, unknown>();
  for (const [name, payload] of Object.entries(fields ?? {}))
    memo.set(name, await read(client, payload));
  return memo;
}

const read = async (
  client: Client,
  payload: Payload | undefined,
  workflowId?: string,
): Promise<unknown> => (await readInput(client, payload, workflowId)).input;

async function readInput(
  client: Client,
  payload: Payload | undefined,
  workflowId?: string,
): Promise<Pick<Schedule, "input" | "problem">> {
  if (payload === undefined) return { input: undefined };
  try {
    const [input] = await decodedPayloads(client, [payload], workflowId);
    return { input };
  } catch (problem) {
    return { input: undefined, problem };
  }
}

const msOf = (time: Timestamp | null | undefined): number =>
  Number(time?.seconds ?? 0) * 1_000 + Math.floor((time?.nanos ?? 0) / 1e6);
