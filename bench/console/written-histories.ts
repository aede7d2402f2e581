/**
 * @file Histories of a made-up large fleet's runs, as Temporal has them: the fleet's own machine plays a cycle a second, and each event that its
 * workflow would have written is written.
 *
 * Each second some leases end, a job comes, and the freed GPUs are granted; grants are told at once. A run ends where the machine continues as new, or
 * after so many cycles. There are no timers: nothing here rings a clock.
 */

import type { Payload, PayloadCodec } from "@temporalio/common";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import { openChain } from "../../machines/fleet/feed.ts";
import type { FleetCommand, FleetEvent } from "../../machines/fleet/events.ts";
import { isDue, type Tick } from "../../machines/machine.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { openSession } from "../../scheduling/cycle/live-scheduler.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import type { HistoryEvent } from "../../console/follow/workflow-task.ts";
import { payloadConverter } from "../../workflows/runtime/payload-converter.ts";
import { drawnRequest, type LedgerNow } from "../live/large-ledger.ts";
import type { Draw } from "../statistics.ts";

export interface WrittenRun {
  readonly runId: string;
  readonly events: readonly HistoryEvent[];
  /** In milliseconds since 1970. */
  readonly startedAtMs: number;
}

export interface WriteOptions {
  readonly fleet: string;
  /** Of all runs. */
  readonly runs: number;
  readonly cycles: number;
  readonly codecs: readonly PayloadCodec[];
  readonly draw: Draw;
  readonly interrupted: AbortSignal;
}

const CYCLE_MS = 1_000;
const ENDS = 4;

/** The oldest run first. */
export async function* writtenRuns(
  { ledger, nowMs }: LedgerNow,
  options: WriteOptions,
): AsyncGenerator<WrittenRun> {
  const { fleet, runs } = options;
  let input: FleetInput = { name: fleet, ledger: packLedger(ledger) };
  let startedAtMs = nowMs;
  for (let number = 1; number <= runs; number += 1) {
    const runId = runIdOf(number);
    const writer = historyWriter(options.codecs);
    await writer.start(input, {
      startedAtMs,
      former: number === 1 ? undefined : runIdOf(number - 1),
    });
    const { endedAtMs, next } = await playRun({ ...options, number, input, startedAtMs, writer });
    writer.continueAsNew(runIdOf(number + 1), endedAtMs);
    yield { runId, events: writer.events, startedAtMs };
    input = next;
    startedAtMs = endedAtMs;
  }
}

const runIdOf = (number: number): string => `run-${String(number)}`;

async function playRun({
  number,
  input,
  startedAtMs,
  writer,
  cycles,
  draw,
  interrupted,
}: WriteOptions & {
  readonly number: number;
  readonly input: FleetInput;
  readonly startedAtMs: number;
  readonly writer: ReturnType<typeof historyWriter>;
}): Promise<{ readonly endedAtMs: number; readonly next: FleetInput }> {
  let nowMs = startedAtMs;
  let next: FleetInput | undefined;
  let activity = 0;
  let state = openChain(
    openFleet(input, startedAtMs, startedAtMs + CYCLE_MS),
    input,
    runIdOf(number),
  );
  const decider = openSession(state.ledger, { method: "baseline" });
  /** What the task has asked of local activities, and of others. */
  const asked: { readonly command: FleetCommand; readonly activity: number }[] = [];

  const feed = (event: FleetEvent | Tick): void => {
    const step = fleetMachine.step(state, event, nowMs);
    state = step.state;
    for (const command of step.commands)
      if (command.kind === "record") decider.apply(command.event);
      else if (command.kind === "continue-as-new") next = command.input;
      else if (command.kind === "finish-handlers") feed({ kind: "handlers-finished" });
      else asked.push({ command, activity: (activity += 1) });
  };
  const settle = (): void => {
    while (isDue(fleetMachine, state, nowMs)) feed({ kind: "tick" });
  };
  const answerLocals = async (): Promise<void> => {
    for (;;) {
      const at = asked.findIndex(({ command }) => command.kind.startsWith("decide"));
      const [call] = at === -1 ? [] : asked.splice(at, 1);
      if (call === undefined || !("id" in call.command)) return;
      const { id } = call.command;
      const plan = decider.decide(nowMs);
      const answer = `${String(number)}-${String(id)}`;
      await writer.local(call.activity, { kind: "plan", plan, answer }, nowMs);
      feed({ kind: "decided", id, plan, answer });
      settle();
    }
  };

  for (let cycle = 1; next === undefined && cycle <= cycles; cycle += 1) {
    interrupted.throwIfAborted();
    nowMs += CYCLE_MS;
    const answers: FleetEvent[] = [];
    for (const { command, activity: called } of asked.splice(0)) {
      if (command.kind !== "deliver") continue;
      const accepted = command.post.grants.map(({ lease }) => lease.id);
      const lobbies = command.post.lobbies?.map(({ tenant }) => tenant) ?? [];
      const report = { accepted, gone: [], lobbies };
      await writer.answer(called, report, nowMs);
      answers.push({ kind: "delivered", id: command.id, report });
    }
    const held = [...state.ledger.leases.values()];
    const ends = Array.from({ length: Math.min(ENDS, held.length) }, () => {
      const { jobId, runId, seq } = held[draw.below(held.length)] ?? {};
      return { kind: "end", jobId, runId, seq, unconfirmedHosts: [] };
    });
    const wanted = drawnRequest(draw, number * 1_000_000 + cycle, nowMs);
    const batch = [...ends, { kind: "request", request: wanted }];
    const bytes = await writer.signal(batch, nowMs);
    writer.beginTask(nowMs);
    feed({ kind: "inbox", batch, bytes, sideBytes: 0, sender: SENDER });
    answers.forEach(feed);
    settle();
    await answerLocals();
    asked.forEach((call) => writer.call(call.activity, nowMs));
  }
  return { endedAtMs: nowMs, next: next ?? { name: input.name, ledger: packLedger(state.ledger) } };
}

const SENDER = "bench";

function historyWriter(codecs: readonly PayloadCodec[]) {
  const events: HistoryEvent[] = [];
  const scheduled = new Map<number, number>();
  const write = (atMs: number, attributes: Omit<HistoryEvent, "eventId" | "eventTime">): number => {
    const eventTime = { seconds: Math.floor(atMs / 1_000), nanos: (atMs % 1_000) * 1_000_000 };
    // The messages are encoded from plain numbers as well as from those of 64 bits that their types name.
    events.push({
      eventId: events.length + 1,
      eventTime,
      ...attributes,
    } as unknown as HistoryEvent);
    return events.length;
  };
  const encoded = async (value: unknown): Promise<Payload> => {
    let payload = payloadConverter.toPayload(value);
    for (const codec of codecs) [payload = payload] = await codec.encode([payload]);
    return payload;
  };
  return {
    events: events as readonly HistoryEvent[],
    async start(
      input: FleetInput,
      {
        startedAtMs,
        former,
      }: { readonly startedAtMs: number; readonly former: string | undefined },
    ) {
      write(startedAtMs, {
        workflowExecutionStartedEventAttributes: {
          workflowId: fleetWorkflowId(input.name),
          input: { payloads: [await encoded(input)] },
          ...(former !== undefined && { continuedExecutionRunId: former }),
        },
      });
    },
    async signal(batch: readonly unknown[], atMs: number): Promise<number> {
      const plain = payloadConverter.toPayload(batch);
      write(atMs, {
        workflowExecutionSignaledEventAttributes: {
          signalName: "inbox",
          identity: SENDER,
          input: { payloads: [await encoded(batch)] },
        },
      });
      return plain.data?.length ?? 0;
    },
    async answer(activity: number, value: unknown, atMs: number) {
      const of = scheduled.get(activity);
      write(atMs, {
        activityTaskCompletedEventAttributes: {
          scheduledEventId: of,
          result: { payloads: [await encoded(value)] },
        },
      } as unknown as HistoryEvent);
    },
    beginTask(atMs: number) {
      write(atMs, { workflowTaskScheduledEventAttributes: {} });
      write(atMs, { workflowTaskStartedEventAttributes: {} });
      write(atMs, { workflowTaskCompletedEventAttributes: {} });
    },
    async local(activity: number, value: unknown, atMs: number) {
      const time = { seconds: Math.floor(atMs / 1_000), nanos: (atMs % 1_000) * 1_000_000 };
      const data = new TextEncoder().encode(JSON.stringify({ seq: activity, complete_time: time }));
      write(atMs, {
        markerRecordedEventAttributes: {
          markerName: "core_local_activity",
          details: { data: { payloads: [{ data }] }, result: { payloads: [await encoded(value)] } },
        },
      });
    },
    call(activity: number, atMs: number) {
      const id = write(atMs, {
        activityTaskScheduledEventAttributes: { activityId: String(activity) },
      });
      scheduled.set(activity, id);
      write(atMs, { activityTaskStartedEventAttributes: {} });
    },
    continueAsNew(newExecutionRunId: string, atMs: number) {
      write(atMs, { workflowExecutionContinuedAsNewEventAttributes: { newExecutionRunId } });
    },
  };
}
