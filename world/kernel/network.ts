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
  /**
   * Brings what the server has handed out to a process, unless that has died meanwhile. What is under way when the line is cut comes after it has been
   * mended, and nothing keeps its order.
   */
  readonly deliver: (to: Process, arrive: () => void) => void;
  /** Deliveries to the process take this mean time each. */
  readonly setLate: (process: string, meanMs: number) => void;
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
/** A connection sends again what was not acknowledged. */
const RESEND_MS = 1_000;
/** What was lost on the way to a process comes so much later, on average. */
const LOST_MS = 10_000;

export function createNetwork(kernel: Kernel): Network {
  const cuts = new Map<string, Direction>();
  const late = new Map<string, number>();
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

  const reaches = ({ name }: Process): boolean =>
    isServerUp && cuts.get(name) !== "both" && cuts.get(name) !== "back";

  function deliver(to: Process, arrive: () => void): void {
    const incarnation = to.incarnation();
    const tryIt = (): void => {
      if (!to.isUp() || to.incarnation() !== incarnation) return;
      if (reaches(to)) arrive();
      else kernel.after(random.exponential(RESEND_MS), tryIt);
    };
    const isLost = weather.lost > 0 && random.unit() < weather.lost;
    const lateMs = (late.get(to.name) ?? 0) + (isLost ? LOST_MS : 0);
    kernel.after(delayMs() + (lateMs > 0 ? random.exponential(lateMs) : 0), tryIt);
  }

  return {
    call,
    reaches,
    deliver,
    setLate: (name, meanMs) => void late.set(name, meanMs),
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
