/** @file Waits in a bench for what a live fleet comes to. */

import type { BenchWorld } from "./world.ts";

/** Looks until there is a value. Throws what did not come true in time, or that the bench was interrupted. */
export type Until = <Value>(
  what: string,
  look: () => Promise<Value | undefined> | Value | undefined,
) => Promise<Value>;

const LOOK_MS = 50;
const LONGEST_MS = 300_000;

/** `said`: what an error tells besides. */
export const untilIn =
  (world: Pick<BenchWorld, "check">, said: () => string = () => ""): Until =>
  async (what, look) => {
    const endAtMs = performance.now() + LONGEST_MS;
    for (;;) {
      world.check();
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > endAtMs)
        throw new Error(`it did not come true that ${what}${said()}`);
      await new Promise((wake) => setTimeout(wake, LOOK_MS));
    }
  };
