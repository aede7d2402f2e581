/**
 * @file One run of a workflow: its history, its workflow tasks, and who works on them.
 *
 * A workflow task takes all that has arrived, ticks while the machine is due, runs local activities, and becomes history when the server takes its
 * completion. What a worker did before that is lost with the worker, except for what its local activities did. A worker that has no copy of the
 * state repeats the history (`replay.ts`).
 */

import type { Tick } from "../../machines/machine.ts";
import type { Process, Task } from "../kernel/process.ts";
import { createLocalActivities, type LocalActivities } from "./local-activities.ts";
import { replay, type Fed } from "./replay.ts";
import { baseOf, beginFrom, type Base, type Part, type Told, type Waiting } from "./reset.ts";
import type { Server } from "./server.ts";
import {
  copied,
  type RunEnd,
  type RunIdentity,
  type TakenWord,
  type WorkflowRun,
  type WorkflowType,
} from "./workflow.ts";

/** Of a workflow task. */
const TASK_TIMEOUT_MS = 10_000;
/** After this a task with local activities hands in what it has, and goes on. */
const TASK_BEAT_MS = 8_000;
const MAX_TICKS = 100;

/** What a task has done and the server does not have yet. */
interface Draft<State, Event, Command> {
  state: State;
  fed: Fed<Event>[];
  commands: Command[];
  /** Local activities of these commands that were started. */
  started: number;
  /** Arrivals that were taken. */
  taken: number;
  answers: (() => void)[];
}

const fresh = () => ({ fed: [], commands: [], started: 0, taken: 0, answers: [] });

type Steps<State, Event, Command> = Pick<WorkflowType<State, Event, Command>, "machine" | "atOnce">;

function feed<State, Event, Command>(
  type: Steps<State, Event, Command>,
  draft: Draft<State, Event, Command>,
  fed: Fed<Event>,
): void {
  const step = type.machine.step(draft.state, fed.event ?? TICK, fed.nowMs);
  draft.state = step.state;
  draft.fed.push(fed);
  draft.commands.push(...step.commands);
  for (const command of step.commands) {
    const answer = type.atOnce(command);
    if (answer !== undefined) feed(type, draft, { event: answer, nowMs: fed.nowMs });
  }
}

function tickWhileDue<State, Event, Command>(
  type: Steps<State, Event, Command>,
  draft: Draft<State, Event, Command>,
  nowMs: number,
): void {
  for (let ticks = 0; ticks < MAX_TICKS && dueMs(type, draft.state) <= nowMs; ticks += 1)
    feed(type, draft, { event: TICK, nowMs });
}

const dueMs = <State, Event, Command>(
  { machine }: Steps<State, Event, Command>,
  now: State,
): number => Math.min(machine.dueAtMs(now), machine.clockOf?.(now)?.atMs ?? Infinity);

/** By the worker, within the task. */
const isDoneHere = <State, Event, Command>(
  type: WorkflowType<State, Event, Command>,
  command: Command,
): boolean => type.isLocal(command) || type.atOnce(command) !== undefined;

function startNew<State, Event, Command>(
  type: WorkflowType<State, Event, Command>,
  draft: Draft<State, Event, Command>,
  start: (at: number, command: Command) => void,
): void {
  for (; draft.started < draft.commands.length; draft.started += 1) {
    const command = draft.commands[draft.started];
    if (command !== undefined && type.isLocal(command)) start(draft.started, command);
  }
}

/** With a base: of a run that was reset to a later task. */
export function openRun<State, Event, Command extends { readonly kind: string }>(
  server: Server,
  type: WorkflowType<State, Event, Command>,
  { base, ...identity }: RunIdentity & { readonly base?: Base<State, Event, Command> | undefined },
): WorkflowRun<State, Event> {
  type Work = Draft<State, Event, Command>;
  const { kernel, network } = server;
  let state: State | undefined;
  let end: RunEnd | undefined;
  const history: Fed<Event>[] = [];
  const given: Command[] = [];
  const openLocals = new Map<number, Command>();
  const signals: TakenWord[] = [];
  /** Signals and updates, in their order. */
  const told: Told<State, Event>[] = [];
  const parts: Part<State, Event>[] = [];
  const arrivals: Waiting<State, Event>[] = [];
  let cachedOn: { readonly process: Process; readonly incarnation: number } | undefined;
  let isTaskOpen = false;
  let [attempt, timer, beatAtMs] = [0, 0, 0];
  const run: WorkflowRun<State, Event> = {
    ...identity,
    state: () => state,
    isOpen: () => end === undefined,
    end: () => end,
    signals: () => signals,
    terminate: () => close({ kind: "terminated" }),
    loseUpdates: () => arrivals.forEach((each) => each.kind === "update" && void LOST.add(each)),
    repeatTo: (to) => told.forEach(({ tell }) => tell(to as WorkflowRun<State, Event>)), // of the same type
    baseAt: (share) => baseOf({ history, given, parts, told }, share),
    arrive: (arrival) => {
      if (arrival.kind !== "update") return take(arrival);
      take(arrival, (to) => to.arrive({ ...arrival, onAnswer: () => undefined }));
    },
    query: (onAnswer) => {
      if (state === undefined || isTaskOpen || !server.isAnswering(type.queue))
        run.arrive({ kind: "query", onAnswer });
      else onAnswer(state);
    },
    signal: (sent) => {
      const word = { ...sent, payload: copied(sent.payload) };
      signals.push(word);
      const event = type.signal(word.name, word.payload);
      if (event !== undefined) take({ kind: "event", event }, (to) => to.signal(word));
    },
  };

  /** `tell`: of what comes from outside. */
  function take(waiting: Waiting<State, Event>, tell?: Told<State, Event>["tell"]): void {
    if (end !== undefined) return;
    if (tell === undefined) arrivals.push(waiting);
    else {
      const each = { tell, takenBy: Infinity };
      told.push(each);
      arrivals.push({ ...waiting, told: each });
    }
    wake();
  }

  /** What its commands become arrives with their number. */
  const carryOut = (command: Command, number: number): void =>
    type.carryOut(command, {
      ...run,
      arrive: (arrival) => take({ ...arrival, closes: number }),
    });

  function close(how: RunEnd): void {
    if (end !== undefined) return;
    end = how;
    server.closed(run, how);
  }

  function wake(): void {
    if (isTaskOpen || end !== undefined) return;
    isTaskOpen = true;
    attempt += 1;
    const own = attempt;
    server.dispatch({
      queue: type.queue,
      ...(cachedOn !== undefined && { sticky: cachedOn.process }),
      isValid: () => own === attempt && end === undefined,
      start: (process) => {
        beatAtMs = kernel.nowMs();
        watch(own);
        process.spawn(work(process, own, server.clockMs()));
      },
    });
  }

  /** A task that is not handed in in time goes to another worker. */
  function watch(own: number): void {
    kernel.after(beatAtMs + TASK_TIMEOUT_MS - kernel.nowMs(), () => {
      if (own !== attempt || !isTaskOpen || end !== undefined) return;
      if (beatAtMs + TASK_TIMEOUT_MS > kernel.nowMs()) watch(own);
      else again();
    });
  }

  function again(): void {
    isTaskOpen = false;
    cachedOn = undefined;
    wake();
  }

  /** `startedAtMs`: when the task was handed out. A worker that was paused then works with that time when it goes on, as the server's history has it. */
  function* work(process: Process, own: number, startedAtMs: number): Task<void> {
    const draft = begin(process, startedAtMs);
    if (draft === undefined) return;
    const locals = createLocalActivities<Event>(kernel, process);
    const startLocal = (number: number, command: Command): void =>
      locals.start(number, () =>
        type.local(command, { process, state: draft.state, workflowId: identity.workflowId }),
      );
    for (const [number, command] of openLocals) startLocal(number, command);
    takeArrivals(draft, startedAtMs);
    for (;;) {
      startNew(type, draft, (at, command) => startLocal(given.length + at, command));
      if (!locals.isAnyOpen()) break;
      if (!(yield* progress(draft, locals, { process, own }))) return;
    }
    const isTaken = yield* handIn(draft, { process, own, isLast: true });
    if (isTaken) cachedOn = { process, incarnation: process.incarnation() };
  }

  /** Feeds the next answer, or hands in what there is. False when the task is somebody else's by now. */
  function* progress(
    draft: Work,
    locals: LocalActivities<Event>,
    by: { readonly process: Process; readonly own: number },
  ): Task<boolean> {
    const answer = yield* locals.next(beatAtMs + TASK_BEAT_MS);
    if (answer === undefined) {
      if (!(yield* handIn(draft, { ...by, isLast: false }))) return false;
      takeArrivals(draft, server.clockMs());
      return true;
    }
    const nowMs = server.clockMs();
    feed(type, draft, { event: answer.event, nowMs, answers: answer.number });
    tickWhileDue(type, draft, nowMs);
    return true;
  }

  function begin(process: Process, nowMs: number): Work | undefined {
    if (state === undefined) {
      const opened = type.open(identity, nowMs);
      return {
        ...fresh(),
        ...opened,
        fed: [{ event: undefined, nowMs }],
        commands: [...opened.commands],
      };
    }
    const isKept = cachedOn?.process === process && cachedOn.incarnation === process.incarnation();
    if (isKept) return { ...fresh(), state };
    server.noteReplay();
    const replayed = replay(type, identity, { history, given });
    if (replayed.kind === "same") return { ...fresh(), state: replayed.state };
    server.onViolation("replay", replayed.message);
    return undefined;
  }

  function takeArrivals(draft: Work, nowMs: number): void {
    dropLost(arrivals, told);
    for (; draft.taken < arrivals.length; draft.taken += 1) {
      const arrival = arrivals[draft.taken];
      if (arrival === undefined) continue;
      if (arrival.kind === "query") {
        // Who answers has done all of the task.
        draft.answers.push(() => state !== undefined && arrival.onAnswer(state));
        continue;
      }
      if (arrival.kind === "update") {
        const problem = arrival.problemOf(draft.state);
        draft.answers.push(() => arrival.onAnswer(problem));
        if (problem !== undefined) continue;
      }
      feed(type, draft, { event: arrival.event, nowMs });
    }
    tickWhileDue(type, draft, nowMs);
  }

  /** False when the server did not take it, or its word was lost: then the task is somebody else's. */
  function* handIn(
    draft: Work,
    by: { readonly process: Process; readonly own: number; readonly isLast: boolean },
  ): Task<boolean> {
    const reply = yield* network.call(by.process, () => {
      if (by.own !== attempt || !isTaskOpen || end !== undefined) return false;
      const over = type.endOf(draft.state, draft.commands);
      if (over !== undefined && arrivals.length > draft.taken) {
        // As the server does: a run does not close over news that it has not seen.
        again();
        return false;
      }
      commit(draft);
      if (over !== undefined) close(over);
      else if (by.isLast) rest();
      else beatAtMs = kernel.nowMs();
      return true;
    });
    return reply.isHeard && reply.value;
  }

  function commit(draft: Work): void {
    const { commands } = draft;
    const first = given.length;
    const taken = arrivals.splice(0, draft.taken);
    for (const each of taken) if (each.told !== undefined) each.told.takenBy = parts.length;
    parts.push({ history: history.length, given: first, taken });
    history.push(...draft.fed);
    given.push(...commands);
    commands.forEach((command, at) => {
      if (type.isLocal(command)) openLocals.set(first + at, command);
    });
    for (const { answers } of draft.fed) if (answers !== undefined) openLocals.delete(answers);
    state = draft.state;
    for (const answer of draft.answers) answer();
    commands.forEach((command, at) => {
      if (!isDoneHere(type, command)) carryOut(command, first + at);
    });
    server.committed(run);
    Object.assign(draft, fresh());
  }

  function rest(): void {
    isTaskOpen = false;
    if (arrivals.length > 0) return wake();
    timer += 1;
    const own = timer;
    const atMs = state === undefined ? Infinity : dueMs(type, state);
    if (atMs === Infinity) return;
    kernel.after(Math.max(1, atMs - server.clockMs()), () => {
      if (own === timer) wake();
    });
  }

  if (base !== undefined) {
    const into = { history, given, parts, told, arrivals, openLocals };
    const begun = beginFrom(type, { identity, from: base }, into);
    if (!begun.isSame)
      server.onViolation("replay", `${identity.workflowId} gives other commands after a reset`);
    state = begun.state;
    base.given.forEach((command, number) => {
      if (!isDoneHere(type, command) && !base.closed.has(number)) carryOut(command, number);
    });
    for (const { tell } of base.later) tell(run);
  }
  wake();
  return { ...run };
}

/** Updates that a server that failed has forgotten. */
const LOST = new WeakSet<object>();

/** No task takes them any more, and no reset tells them again. */
function dropLost<State, Event>(
  arrivals: Waiting<State, Event>[],
  known: Told<State, Event>[],
): void {
  for (const each of arrivals.filter((one) => LOST.has(one))) {
    arrivals.splice(arrivals.indexOf(each), 1);
    const at = known.findIndex((one) => one === each.told);
    if (at >= 0) known.splice(at, 1);
  }
}

const TICK: Tick = { kind: "tick" };
