/** @file Plays a state machine by hand: events in, commands out, no server. */

import type { Machine, Step, Tick } from "../../machines/machine.ts";

type OfKind<Command, Kind> = Command extends { readonly kind: infer Own }
  ? Kind extends Own
    ? Command
    : never
  : never;

export interface Played<State, Event, Command> {
  readonly state: () => State;
  /** Commands that were given and not yet taken, in order; a test may take them out itself. */
  readonly open: Command[];
  readonly feed: (event: Event | Tick, nowMs?: number) => void;
  /** The oldest open command of this kind, which is no longer open; fails when there is none. */
  readonly take: <Kind extends (Command extends { readonly kind: infer K } ? K : never)>(
    kind: Kind,
  ) => OfKind<Command, Kind>;
  /** Sets the clock to the time that the state waits for, and ticks. */
  readonly tick: () => number;
}

export function play<State, Event, Command extends { readonly kind: string }>(
  machine: Machine<State, Event, Command>,
  opened: Step<State, Command>,
): Played<State, Event, Command> {
  let { state } = opened;
  let clockMs = 0;
  const open = [...opened.commands];
  const feed = (event: Event | Tick, nowMs = clockMs): void => {
    clockMs = nowMs;
    const step = machine.step(state, event, nowMs);
    state = step.state;
    open.push(...step.commands);
  };
  return {
    state: () => state,
    open,
    feed,
    take: (kind) => {
      const at = open.findIndex((command) => command.kind === kind);
      const [command] = at < 0 ? [] : open.splice(at, 1);
      if (command === undefined)
        throw new Error(`no ${kind} among ${open.map((each) => each.kind).join(", ") || "none"}`);
      return command as OfKind<Command, typeof kind>; // by its kind
    },
    tick: () => {
      const dueAtMs = machine.dueAtMs(state);
      if (dueAtMs === Infinity) throw new Error("the state waits for no time");
      feed({ kind: "tick" }, dueAtMs);
      return dueAtMs;
    },
  };
}
