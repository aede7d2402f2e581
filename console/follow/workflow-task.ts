/**
 * @file Reads a fleet's history as its workflow saw it: one workflow task after another, each with what it brought and what it answered.
 *
 * A task brings the signals, timers and ends of activities that were recorded since the last completed one, at the time at which it started.
 * Behind its completion stand the answers of local activities and the updates that it accepted. Tasks that failed or timed out bring nothing:
 * their news come with the next one that completes. Payloads are decoded here, with the codecs of a worker. Cost: linear.
 */

import type { Payload, PayloadCodec } from "@temporalio/common";
import type { temporal } from "@temporalio/proto";
import { PROOF_HEADER } from "../../protocol/messages.ts";
import { sideBytes } from "../../protocol/side-bytes.ts";
import { payloadConverter } from "../../workflows/runtime/payload-converter.ts";

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

export type News =
  | {
      readonly kind: "signal";
      readonly name: string;
      readonly bytes: number;
      /** Of history, beside them. */
      readonly sideBytes?: number;
      readonly sender: string;
      readonly proof?: string;
      readonly read: () => unknown;
    }
  | { readonly kind: "timer"; readonly timerId: string }
  /** `activity`: the number by which the workflow called it. */
  | { readonly kind: "answer"; readonly activity: number; readonly value: unknown }
  | { readonly kind: "failed"; readonly activity: number };

/** A completed workflow task. */
export interface WorkflowTask {
  readonly startedAtMs: number;
  /** When the server took what it answered. */
  readonly completedAtMs: number;
  readonly news: readonly News[];
  readonly updates: readonly AcceptedUpdate[];
  /** The answers of local activities, in order. */
  readonly local: readonly {
    readonly activity: number;
    readonly atMs: number;
    readonly value: unknown;
  }[];
  /** The timers that it started and those that it cancelled, in order. */
  readonly timers: readonly { readonly kind: "started" | "cancelled"; readonly timerId: string }[];
  /** The number of the last event that belongs to it. */
  readonly lastEvent: number;
}

export interface AcceptedUpdate {
  readonly name: string;
  readonly argument: unknown;
  readonly id: string;
  readonly sender: string;
  /** Of the argument. */
  readonly bytes: number;
  readonly sideBytes?: number;
  readonly proof?: string;
}

export interface TaskReader {
  /** Takes further events in their order; gives the tasks that are complete by them. */
  readonly read: (events: readonly HistoryEvent[]) => AsyncIterable<WorkflowTask>;
}

interface Open {
  readonly completedId: number;
  readonly startedAtMs: number;
  readonly completedAtMs: number;
  readonly news: readonly News[];
  readonly commands: HistoryEvent[];
}

/** The server hands out whole transactions, so a task's commands come together with its completion. */
export function createTaskReader(codecs: readonly PayloadCodec[]): TaskReader {
  let news: News[] = [];
  let startedAtMs = 0;
  /** Event numbers of `ActivityTaskScheduled` to activity numbers. */
  const activities = new Map<string, number>();

  return {
    async *read(events) {
      let open: Open | undefined;
      for (const event of events) {
        if (event.workflowTaskStartedEventAttributes) startedAtMs = msOf(event.eventTime);
        if (event.workflowTaskCompletedEventAttributes) {
          if (open !== undefined) yield await taskOf(open, codecs);
          const completedAtMs = msOf(event.eventTime);
          const completedId = Number(event.eventId);
          open = { completedId, startedAtMs, completedAtMs, news, commands: [] };
          news = [];
          continue;
        }
        const scheduled = event.activityTaskScheduledEventAttributes;
        if (scheduled) activities.set(String(event.eventId), Number(scheduled.activityId));
        if (open !== undefined && isOfTask(event)) open.commands.push(event);
        else news.push(...(await newsOf(event, activities, codecs)));
      }
      if (open !== undefined) yield await taskOf(open, codecs);
    },
  };
}

const isOfTask = ({
  markerRecordedEventAttributes: marker,
  timerStartedEventAttributes: started,
  timerCanceledEventAttributes: cancelled,
  workflowExecutionUpdateAcceptedEventAttributes: accepted,
}: HistoryEvent): boolean => isSet(marker) || isSet(started) || isSet(cancelled) || isSet(accepted);

async function newsOf(
  event: HistoryEvent,
  activities: Map<string, number>,
  codecs: readonly PayloadCodec[],
): Promise<readonly News[]> {
  const signal = event.workflowExecutionSignaledEventAttributes;
  if (isSet(signal)) {
    const name = signal.signalName ?? "";
    const [first, ...others] = signal.input?.payloads ?? [];
    const payload = await decoded(first, codecs);
    const payloads = isSet(payload) ? [payload, ...others] : others;
    const names = [signal.identity, name];
    const proof = valueOf(signal.header?.fields?.[PROOF_HEADER]);
    return [
      {
        kind: "signal",
        name,
        ...(typeof proof === "string" && { proof }),
        bytes: payload?.data?.length ?? 0,
        ...sideBytes({ payloads, headers: signal.header?.fields, names }),
        sender: signal.identity ?? "",
        read: () => valueOf(payload),
      },
    ];
  }
  const fired = event.timerFiredEventAttributes;
  if (isSet(fired)) return [{ kind: "timer", timerId: fired.timerId ?? "" }];
  const ended = event.activityTaskCompletedEventAttributes;
  if (isSet(ended)) {
    const activity = activities.get(String(ended.scheduledEventId)) ?? 0;
    activities.delete(String(ended.scheduledEventId));
    const payload = await decoded(ended.result?.payloads?.[0], codecs);
    return [{ kind: "answer", activity, value: valueOf(payload) }];
  }
  const failed =
    event.activityTaskFailedEventAttributes ??
    event.activityTaskTimedOutEventAttributes ??
    event.activityTaskCanceledEventAttributes;
  if (!isSet(failed)) return [];
  return [{ kind: "failed", activity: activities.get(String(failed.scheduledEventId)) ?? 0 }];
}

async function taskOf(
  { completedId, startedAtMs, completedAtMs, news, commands }: Open,
  codecs: readonly PayloadCodec[],
): Promise<WorkflowTask> {
  const updates: WorkflowTask["updates"][number][] = [];
  const local: WorkflowTask["local"][number][] = [];
  const timers: WorkflowTask["timers"][number][] = [];
  for (const event of commands) {
    const marker = event.markerRecordedEventAttributes;
    const accepted = event.workflowExecutionUpdateAcceptedEventAttributes;
    const started = event.timerStartedEventAttributes;
    const cancelled = event.timerCanceledEventAttributes;
    if (isSet(started)) timers.push({ kind: "started", timerId: started.timerId ?? "" });
    if (isSet(cancelled)) timers.push({ kind: "cancelled", timerId: cancelled.timerId ?? "" });
    if (isSet(accepted)) {
      const { input, meta } = accepted.acceptedRequest ?? {};
      const [first, second, ...others] = input?.args?.payloads ?? [];
      const payload = await decoded(first, codecs);
      const proven = await decoded(second, codecs);
      const proof = valueOf(proven);
      const payloads = [payload, proven, ...others].filter(isSet);
      const names = [meta?.identity, input?.name];
      updates.push({
        name: input?.name ?? "",
        argument: valueOf(payload),
        id: meta?.updateId ?? "",
        sender: meta?.identity ?? "",
        bytes: payload?.data?.length ?? 0,
        ...sideBytes({ payloads, headers: input?.header?.fields, names }),
        ...(typeof proof === "string" && { proof }),
      });
    }
    if (marker?.markerName === LOCAL_ACTIVITY) local.push(await localOf(marker, codecs));
  }
  const lastEvent = Number(commands.at(-1)?.eventId ?? completedId);
  return { startedAtMs, completedAtMs, news, updates, local, timers, lastEvent };
}

/** The name that Temporal's core gives the marker of a local activity. */
const LOCAL_ACTIVITY = "core_local_activity";

async function localOf(
  { details }: temporal.api.history.v1.IMarkerRecordedEventAttributes,
  codecs: readonly PayloadCodec[],
): Promise<WorkflowTask["local"][number]> {
  // The core writes its part after the codecs have run; it is plain JSON.
  const data = details?.["data"]?.payloads?.[0]?.data;
  const said = JSON.parse(new TextDecoder().decode(data ?? new Uint8Array())) as {
    readonly seq: number;
    readonly complete_time: { readonly seconds: number; readonly nanos: number };
  };
  const payload = await decoded(details?.["result"]?.payloads?.[0], codecs);
  const { seconds, nanos } = said.complete_time;
  return {
    activity: said.seq,
    atMs: seconds * 1_000 + Math.floor(nanos / 1_000_000),
    value: valueOf(payload),
  };
}

/** Whole milliseconds, as workflows see them. */
export const msOf = (time: temporal.api.history.v1.IHistoryEvent["eventTime"]): number =>
  Number(time?.seconds ?? 0) * 1_000 + Math.floor((time?.nanos ?? 0) / 1_000_000);

/** The codecs, told whose payloads they read: none of them reads what was encrypted for another workflow. */
export const codecsFor = (
  codecs: readonly PayloadCodec[],
  workflowId: string | null | undefined,
): readonly PayloadCodec[] =>
  typeof workflowId === "string"
    ? codecs.map((codec) => ({
        encode: (payloads) => codec.encode(payloads),
        decode: (payloads) =>
          codec.decode(payloads, { type: "workflow", namespace: "", workflowId }),
      }))
    : codecs;

export async function decoded(
  payload: Payload | null | undefined,
  codecs: readonly PayloadCodec[],
): Promise<Payload | undefined> {
  let plain: Payload | undefined = payload ?? undefined;
  for (const codec of [...codecs].reverse())
    if (plain !== undefined) [plain] = await codec.decode([plain]);
  return plain;
}

export const valueOf = (payload: Payload | undefined): unknown =>
  payload === undefined ? undefined : payloadConverter.fromPayload(payload);

const isSet = <Value>(value: Value | null | undefined): value is Value =>
  value !== null && value !== undefined;
