/**
 * @file What a worker does that takes a run over: it repeats the history on a fresh state, and has to give the commands that the history has.
 *
 * The events come from their JSON, as they would from the server, so a machine that holds on to an object of its caller is found out. Each is written once,
 * however often its run is repeated.
 */

import type { Step, Tick } from "../../machines/machine.ts";
import type { RunIdentity, WorkflowType } from "./workflow.ts";

/** One event of a history, with the time of its workflow task. The first one is the start. */
export interface Fed<Event> {
  readonly event: Event | Tick | undefined;
  readonly nowMs: number;
  /** The number of the local activity that it answers. */
  readonly answers?: number;
}

export type Replay<State> =
  | { readonly kind: "same"; readonly state: State }
  | { readonly kind: "other"; readonly message: string };

export function replay<State, Event, Command>(
  type: WorkflowType<State, Event, Command>,
  identity: RunIdentity,
  {
    history,
    given,
  }: { readonly history: readonly Fed<Event>[]; readonly given: readonly Command[] },
): Replay<State> {
  const { state, commands } = repeated(type, identity, history);
  const count = Math.max(commands.length, given.length);
  for (let at = 0; at < count; at += 1) {
    const now = at < commands.length ? JSON.stringify(commands[at]) : NOTHING;
    const then = textOf(given[at]);
    if (now !== then)
      return {
        kind: "other",
        message: `command ${at} of ${identity.workflowId} was ${then} and is ${now} on replay`,
      };
  }
  return { kind: "same", state };
}

/** The state after the history, and the commands on the way. */
export function repeated<State, Event, Command>(
  { open, machine }: WorkflowType<State, Event, Command>,
  identity: RunIdentity,
  history: readonly Fed<Event>[],
): Step<State, Command> {
  const opened = open(identity, history[0]?.nowMs ?? 0);
  let { state } = opened;
  const commands = [...opened.commands];
  for (const { event, nowMs } of history.slice(1)) {
    const again = event === undefined ? TICK : (JSON.parse(textOf(event)) as Event | Tick); // as it was fed
    const step = machine.step(state, again, nowMs);
    state = step.state;
    commands.push(...step.commands);
  }
  return { state, commands };
}

const TICK: Tick = { kind: "tick" };
/** Beyond the last command. */
const NOTHING = "nothing";

/** What histories have, as it was when it was first written. */
const texts = new WeakMap<object, string>();

function textOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return NOTHING;
  const known = texts.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  texts.set(value, text);
  return text;
}
