/**
 * @file What a worker does that takes a run over: it repeats the history on a fresh state, and has to give the commands that the history has.
 *
 * The events come from their JSON, as they would from the server, so a machine that holds on to an object of its caller is found out.
 */

import type { Tick } from "../../machines/machine.ts";
import { copied, type RunIdentity, type WorkflowType } from "./workflow.ts";

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
  { open, machine }: WorkflowType<State, Event, Command>,
  identity: RunIdentity,
  {
    history,
    given,
  }: { readonly history: readonly Fed<Event>[]; readonly given: readonly Command[] },
): Replay<State> {
  const opened = open(identity, history[0]?.nowMs ?? 0);
  let { state } = opened;
  const commands = [...opened.commands];
  for (const { event, nowMs } of history.slice(1)) {
    const step = machine.step(state, copied(event) ?? { kind: "tick" }, nowMs);
    state = step.state;
    commands.push(...step.commands);
  }
  const count = Math.max(commands.length, given.length);
  for (let at = 0; at < count; at += 1) {
    const [now, then] = [JSON.stringify(commands[at]), JSON.stringify(given[at])];
    if (now !== then)
      return {
        kind: "other",
        message: `command ${at} of ${identity.workflowId} was ${then} and is ${now} on replay`,
      };
  }
  return { kind: "same", state };
}
