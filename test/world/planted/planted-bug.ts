/** @file A bug that tests plant into a world. */

import type { Step } from "../../../machines/machine.ts";
import type { Climate } from "../../../world/draw-settings.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import type { Planted } from "../../../world/planted.ts";

export interface PlantedBug {
  readonly name: string;
  /** A seed that breaks a law with it; absent: none is known, so its hole in the world is still to be mended. */
  readonly seenAt?: number;
  /** Of the seed's world; absent: narrow. */
  readonly climate?: Climate;
  readonly planted: Planted;
}

/** Leaves out commands, or changes them. */
export const commands =
  <Command>(change: (command: Command) => readonly Command[]) =>
  <State>(step: Step<State, Command>): Step<State, Command> => ({
    ...step,
    commands: step.commands.flatMap(change),
  });

/** A fleet that hears other entries in place of each that comes to its inbox. */
export const entries =
  (
    change: (
      entry: unknown,
      requests: Ledger["requests"],
      leases: Ledger["leases"],
    ) => readonly unknown[],
  ): NonNullable<Planted["fleet"]> =>
  (machine) => ({
    ...machine,
    step: (state, event, nowMs) => {
      if (event.kind !== "inbox" || !Array.isArray(event.batch))
        return machine.step(state, event, nowMs);
      const { requests, leases } = state.ledger;
      const batch = event.batch.flatMap((entry: unknown) => change(entry, requests, leases));
      return machine.step(state, { ...event, batch }, nowMs);
    },
  });
