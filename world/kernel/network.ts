/**
 * @file Calls between a process and the server: they take time, get lost on the way there or back, and meet partitions.
 *
 * A call that was lost on the way back has happened: its caller learns nothing. A partition may cut one direction only.
 */

import type { Kernel } from "./kernel.ts";
import type { Process, Task } from "./process.ts";

export type Reply<Value> =
  { readonly isHeard: true; readonly value: Value } | { readonly isHeard: false };

export interface Network {
  /** Carries out `serve` on the server. */
  readonly call: <Value>(from: Process, serve: () => Value) => Task<Reply<Value>>;
  /** Whether the server reaches the process. */
  readonly reaches: (process: Process) => boolean;
  readonly cut: (process: string, direction: Direction) => void;
  readonly heal: (process: string) => void;
  readonly setServer: (isUp: boolean) => void;
  readonly isServerUp: () => boolean;
  /** Part of the messages that are lost, and the mean of their delay. */
  readonly setWeather: (weather: Weather) => void;
}

export type Direction = "both" | "there" | "back";

export interface Weather {
  readonly lost: number;
  readonly meanDelayMs: number;
}

export const CALM: Weather = { lost: 0, meanDelayMs: 4 };
const CALL_TIMEOUT_MS = 8_000;

export function createNetwork(kernel: Kernel): Network {
  const cuts = new Map<string, Direction>();
  let isServerUp = true;
  let weather = CALM;
  const { random } = kernel;
  const passes = (name: string, direction: "there" | "back"): boolean => {
    const cut = cuts.get(name);
    if (!isServerUp || cut === "both" || cut === direction) return false;
    return weather.lost === 0 || random.unit() >= weather.lost;
  };
  const delayMs = (): number => 1 + random.exponential(weather.meanDelayMs);

  function* call<Value>(from: Process, serve: () => Value): Task<Reply<Value>> {
    const reply = yield (resume) => {
      const fail = (): void => kernel.after(CALL_TIMEOUT_MS, () => resume(UNHEARD));
      if (!passes(from.name, "there")) return fail();
      kernel.after(delayMs(), () => {
        if (!isServerUp) return fail();
        const value = serve();
        if (!passes(from.name, "back")) return fail();
        kernel.after(delayMs(), () => resume({ isHeard: true, value }));
      });
    };
    return reply as Reply<Value>; // as resumed above
  }

  return {
    call,
    reaches: ({ name }) => isServerUp && cuts.get(name) !== "both" && cuts.get(name) !== "back",
    cut: (name, direction) => void cuts.set(name, direction),
    heal: (name) => void cuts.delete(name),
    setServer: (up) => {
      isServerUp = up;
    },
    isServerUp: () => isServerUp,
    setWeather: (next) => {
      weather = next;
    },
  };
}

const UNHEARD = { isHeard: false } as const;
