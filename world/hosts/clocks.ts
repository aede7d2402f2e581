/** @file The clocks of a host: the time since its boot, which only drifts, and the wall clock, which people may set. */

import type { Kernel } from "../kernel/kernel.ts";

export interface HostClocks {
  readonly sinceBootMs: () => number;
  readonly wallMs: () => number;
  readonly reboot: () => void;
  readonly set: (change: ClockChange) => void;
}

export interface ClockChange {
  /** Of the wall clock. */
  readonly byMs: number;
  /** Of the time since the boot: seconds a second. */
  readonly rate: number;
}

export function createClocks(kernel: Kernel, trueWallMs: () => number): HostClocks {
  let skewMs = 0;
  let rate = 1;
  let baseMs = 0;
  let baseAtMs = 0;
  const sinceBootMs = (): number => baseMs + (kernel.nowMs() - baseAtMs) * rate;
  return {
    sinceBootMs,
    wallMs: () => trueWallMs() + skewMs,
    reboot: () => {
      baseMs = 0;
      baseAtMs = kernel.nowMs();
    },
    set: (change) => {
      baseMs = sinceBootMs();
      baseAtMs = kernel.nowMs();
      rate = change.rate;
      skewMs += change.byMs;
    },
  };
}
