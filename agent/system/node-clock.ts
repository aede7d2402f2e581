/** @file The machine's clocks through Node: the real `Clock`. Loaded by the shim, so it needs nothing but Node. */

import { uptime } from "node:os";
import { performance } from "node:perf_hooks";
import type { Clock } from "../ports/clock.ts";

export const nodeClock: Clock = {
  // Linux: the first field of `/proc/uptime`. Elsewhere whole seconds.
  sinceBootMs: () => uptime() * 1_000,
  elapsedMs: () => performance.now(),
  nowMs: () => Date.now(),
  pause: async (forMs, signal) => {
    if (signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, forMs);
      signal?.addEventListener("abort", done, { once: true });
    });
  },
  // Not `AbortSignal.timeout`: where it is joined with another signal by `AbortSignal.any`, Node collects it before its time, and it never comes.
  deadline: (forMs) => {
    const over = new AbortController();
    setTimeout(() => over.abort(), Math.max(0, Math.ceil(forMs))).unref();
    return over.signal;
  },
  after: (forMs, call, { isIdle = false } = {}) => {
    const timer = setTimeout(call, forMs);
    if (isIdle) timer.unref();
    return () => clearTimeout(timer);
  },
  every: (eachMs, call, { isIdle = false } = {}) => {
    const timer = setInterval(call, eachMs);
    if (isIdle) timer.unref();
    return () => clearInterval(timer);
  },
};
