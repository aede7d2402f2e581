/**
 * @file Plays one run of a fleet from its history: the same machine as in its workflow, fed the same events at the same times.
 *
 * It stands for `workflows/fleet/fleet.ts` and `workflows/runtime/drive.ts`. The commands of the machine are not carried out; the history has their
 * answers. What arrived together is fed in Temporal's order: signals, updates, ends of activities, timers; then ticks, while the machine is due.
 * The answer of a local activity is fed alone, at the time at which it came. Pure; one call for each completed workflow task.
 */

import { jointEvent, type FleetCommand, type FleetEvent } from "../../machines/fleet/events.ts";
import { openChain } from "../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import { isRead } from "../../machines/fleet/inbox.ts";
import type { FleetState, FleetStep } from "../../machines/fleet/state.ts";
import { orderEvent } from "../../machines/fleet/signed-orders.ts";
import { isOrderName } from "../../machines/fleet/update-orders.ts";
import { isDue as isDueBy, type Clock, type Tick } from "../../machines/machine.ts";
import type { Decision, JointAnswer } from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import type { WordVerdicts } from "../../protocol/word-proof.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { unpackLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger, LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { News, WorkflowTask } from "./workflow-task.ts";

export interface RunOpening {
  readonly runId: string;
  readonly startedAtMs: number;
  readonly input: FleetInput;
}

export interface FleetRun {
  readonly ledger: () => Ledger;
  /** Returns the events that the ledger has folded, each with the ledger after it. */
  readonly fold: (task: WorkflowTask) => readonly Folded[];
  /** The input of the next run; undefined while this one goes on. */
  readonly next: () => FleetInput | undefined;
}

export interface Folded {
  readonly event: LedgerEvent;
  readonly before: Ledger;
  readonly ledger: Ledger;
  /** Of an answer, a plan's or a delivery's: from the question to it. A plan's time is told by the clock of the worker that decided. */
  readonly tookMs?: number;
  /** Of the last plan of a workflow task: from the plan to its place in the history. */
  readonly writtenMs?: number;
}

/** The history cannot be the one of this machine; the next run is followed again from its own ledger. */
export class Diverged extends Error {}

const MAX_TICKS = 100;
const INBOX = "inbox";

type Asked = Exclude<
  FleetCommand,
  { readonly kind: "record" | "continue-as-new" | "finish-handlers" }
>;

interface AskedAt {
  readonly command: Asked;
  readonly askedAtMs: number;
}

export function openRun({ runId, startedAtMs, input }: RunOpening): FleetRun {
  /** Until the machine has made its own of it, at the time of the first task. */
  let opening: { readonly input: FleetInput; readonly ledger: Ledger } | undefined = {
    input,
    ledger: unpackLedger(input.ledger),
  };
  const alarm = createAlarm();
  const calls = createCalls();
  let state: FleetState | undefined;
  let nowMs = 0;
  let next: FleetInput | undefined;
  let folded: Folded[] = [];

  return { ledger: () => opening?.ledger ?? current().ledger, fold, next: () => next };

  function fold(task: WorkflowTask): readonly Folded[] {
    folded = [];
    advance(task.startedAtMs);
    if (opening !== undefined) {
      state = openChain(openFleet(opening.input, startedAtMs, nowMs), opening.input, runId);
      opening = undefined;
    }
    bring(task);
    settle();
    for (const { activity, atMs, value } of task.local) {
      advance(atMs);
      const { command, askedAtMs } = calls.take(activity);
      feed(localAnswer(command, value), nowMs - askedAtMs);
      settle();
    }
    alarm.follow(task.timers);
    return withWritten(folded, task.completedAtMs);
  }

  /** The time of a workflow never goes back. */
  function advance(atMs: number): void {
    nowMs = Math.max(nowMs, atMs);
  }

  function bring({ news, updates }: WorkflowTask): void {
    for (const each of news) if (each.kind === "signal") feedSignal(each);
    for (const { name, ...update } of updates)
      if (isOrderName(name)) feed(orderEvent(current(), { ...update, name }));
    for (const each of news) {
      if (each.kind === "answer") {
        const { command, askedAtMs } = calls.take(each.activity);
        feed(answerTo(command, each.value), nowMs - askedAtMs);
      }
      if (each.kind === "failed")
        feed({ kind: "failed", id: calls.take(each.activity).command.id });
      if (each.kind === "timer") alarm.ring(each.timerId);
    }
  }

  function feedSignal({ name, read, ...signal }: Extract<News, { kind: "signal" }>): void {
    const { bytes, sideBytes = 0, sender, proof } = signal;
    if (name !== INBOX)
      return feed({ kind: "unknown-signal", signal: name, bytes, sideBytes, sender });
    const batch = isRead(current().ledger, bytes) ? read() : undefined;
    feed({ kind: "inbox", batch, bytes, sideBytes, sender, ...(proof !== undefined && { proof }) });
  }

  function feed(event: FleetEvent | Tick, tookMs?: number): void {
    const before = current();
    const step = fleetMachine.step(before, event, nowMs);
    state = step.state;
    for (const one of foldedBy(before.ledger, step))
      folded.push(tookMs !== undefined && isAnswer(one.event) ? { ...one, tookMs } : one);
    if (step.state.clock !== before.clock) alarm.set(step.state.clock);
    for (const command of step.commands) start(command);
  }

  function start(command: FleetCommand): void {
    if (command.kind === "record") return;
    if (command.kind === "continue-as-new") next = command.input;
    else if (command.kind === "finish-handlers") feed({ kind: "handlers-finished" });
    else calls.add(command, nowMs);
  }

  function settle(): void {
    for (let ticks = 0; isDue(); ticks += 1) {
      if (ticks >= MAX_TICKS) throw new Diverged("the fleet is due without end");
      const hasRung = alarm.hasRung() && current().clock?.isAlone === true;
      alarm.set(undefined);
      if (!(hasRung || isDue())) break;
      feed({ kind: "tick" });
    }
    alarm.set(current().clock);
  }

  function isDue(): boolean {
    return alarm.hasRung() || isDueBy(fleetMachine, current(), nowMs);
  }

  function current(): FleetState {
    if (state === undefined) throw new Diverged("the run has not begun");
    return state;
  }
}

/** The one timer that stands behind the machine's clock, as in `workflows/runtime/timers.ts`. */
function createAlarm(): {
  readonly set: (clock: Clock | undefined) => void;
  readonly ring: (timerId: string) => void;
  readonly hasRung: () => boolean;
  readonly follow: (timers: WorkflowTask["timers"]) => void;
} {
  let clock: Clock | undefined;
  let hasRung = false;
  let running: string | undefined;
  return {
    set(wanted) {
      if (wanted === clock) return;
      clock = wanted;
      hasRung = false;
    },
    ring(timerId) {
      if (timerId === running) hasRung = true;
    },
    hasRung: () => hasRung,
    follow(timers) {
      for (const { kind, timerId } of timers)
        if (kind === "started") running = timerId;
        else if (timerId === running) running = undefined;
    },
  };
}

/** What the machine has asked for, by the numbers that the workflow gives its activities in turn. */
function createCalls(): {
  readonly add: (command: Asked, askedAtMs: number) => void;
  readonly take: (activity: number) => AskedAt;
} {
  const asked = new Map<number, AskedAt>();
  let nextActivity = 1;
  return {
    add(command, askedAtMs) {
      asked.set(nextActivity, { command, askedAtMs });
      nextActivity += 1;
    },
    take(activity) {
      const call = asked.get(activity);
      if (call === undefined) throw new Diverged(`the fleet has not called activity ${activity}`);
      asked.delete(activity);
      return call;
    },
  };
}

const isAnswer = ({ kind }: LedgerEvent): boolean => kind === "plan" || kind === "delivered";

function withWritten(folded: readonly Folded[], completedAtMs: number): readonly Folded[] {
  const at = folded.map(({ event }) => event.kind).lastIndexOf("plan");
  return folded.map((one, place) =>
    place === at ? { ...one, writtenMs: Math.max(0, completedAtMs - one.event.nowMs) } : one,
  );
}

/** The machine shows the ledger after all that it folded in one step, so those between are folded again. */
function foldedBy(opened: Ledger, { state, commands }: FleetStep): readonly Folded[] {
  const events = commands.flatMap((command) => (command.kind === "record" ? command.event : []));
  let before = opened;
  return events.map((event, at) => {
    const isLast = at === events.length - 1;
    const ledger = isLast ? state.ledger : apply(before, event).ledger;
    const one = { event, before, ledger };
    before = ledger;
    return one;
  });
}

/** As `carryOut` and `askDecider` of the fleet's workflow. */
function localAnswer(command: Asked, value: unknown): FleetEvent {
  const { id } = command;
  if (command.kind === "check")
    return command.ahead === undefined
      ? { kind: "checked", id, verdicts: value as WordVerdicts }
      : jointEvent(id, command.ahead, value as JointAnswer);
  if (command.kind === "decide" && command.keep === undefined)
    return { kind: "decided", id, plan: value as Plan };
  if (command.kind !== "decide" && command.kind !== "decide-next")
    throw new Diverged(`a ${command.kind} is no local activity`);
  const decision = value as Decision;
  return decision.kind === "plan" ? { ...decision, kind: "decided", id } : { kind: "stale", id };
}

/** As `carryOut` of the fleet's workflow. The workflow has taken these answers as its activities' contracts promise them. */
function answerTo(command: Asked, value: unknown): FleetEvent {
  const { id } = command;
  switch (command.kind) {
    case "deliver":
      return { kind: "delivered", id, report: value } as FleetEvent;
    case "audit":
      return { kind: "audited", id, report: value } as FleetEvent;
    case "recover":
      return { kind: "recovered", id };
    case "estimate-starts":
      return { kind: "estimated", id, estimates: value } as FleetEvent;
    case "repair":
      return { kind: "repaired", id, report: value } as FleetEvent;
    case "check":
    case "decide":
    case "decide-next":
      throw new Diverged(`${command.kind} is a local activity`);
  }
}
