/** @file A bug that tests plant into a world. */

import type { Step } from "../../../machines/machine.ts";
import type { Climate } from "../../../world/draw-settings.ts";
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
