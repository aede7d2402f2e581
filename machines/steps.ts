/** @file How steps of a machine are put together: one after the other on the state that the former left, with the commands of both in order. */

import type { Step } from "./machine.ts";

/** A step that asks for nothing to be done. */
export const quiet = <State>(state: State): Step<State, never> => ({ state, commands: [] });

export function andThen<State, Command>(
  { state, commands }: Step<State, Command>,
  next: (state: State) => Step<State, Command>,
): Step<State, Command> {
  const step = next(state);
  if (commands.length === 0) return step;
  return { state: step.state, commands: [...commands, ...step.commands] };
}

/** `next` for each of the items in turn. */
export function forEach<State, Command, Item>(
  state: State,
  items: Iterable<Item>,
  next: (state: State, item: Item) => Step<State, Command>,
): Step<State, Command> {
  let step: Step<State, Command> = quiet(state);
  for (const item of items) step = andThen(step, (before) => next(before, item));
  return step;
}
