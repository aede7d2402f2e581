/**
 * @file What a trace of the browser says of the page's main thread: its frames, each by the clock and by the processor time that the thread took for it.
 *
 * A frame is from one `FireAnimationFrame` to the next; the thread's own clock (`tts`) stands still while other work of the machine has its core.
 */

import type { Browser, Page } from "playwright-core";

export interface Times {
  readonly wallMs: number;
  readonly busyMs: number;
}

export interface ThreadTrace {
  /** All but the first. */
  readonly frames: readonly Times[];
  /** Processor time in milliseconds that the thread had taken since its start at `console.timeStamp(said)`; undefined where nobody said so. */
  readonly busyWhenSaid: (said: string) => number | undefined;
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds, by the clock and by that of the thread. */
  readonly ts: number;
  readonly tts?: number;
  readonly args: { readonly data?: { readonly message?: string } };
}

/** Traces while `act` runs. */
export async function traced(
  browser: Browser,
  page: Page,
  act: () => Promise<void>,
): Promise<ThreadTrace> {
  await browser.startTracing(page, { categories: ["devtools.timeline"] });
  await act();
  const { traceEvents } = JSON.parse(String(await browser.stopTracing())) as {
    readonly traceEvents: readonly TraceEvent[];
  };
  return readTrace(traceEvents);
}

export function readTrace(events: readonly TraceEvent[]): ThreadTrace {
  const main = busiest(events);
  const own = events.filter(({ pid, tid }) => pid === main?.pid && tid === main.tid);
  const frames = own.filter(({ name }) => name === "FireAnimationFrame").sort(byTime);
  return {
    frames: frames.slice(1).map((frame, at) => between(frames[at] ?? frame, frame)),
    busyWhenSaid(said) {
      const { tts } =
        events.find(({ name, args }) => name === "TimeStamp" && args.data?.message === said) ?? {};
      return tts === undefined ? undefined : tts / 1_000;
    },
  };
}

/** The thread that draws the most frames: that of the page. */
function busiest(events: readonly TraceEvent[]): TraceEvent | undefined {
  const counts = new Map<string, { count: number; readonly first: TraceEvent }>();
  for (const event of events) {
    if (event.name !== "FireAnimationFrame") continue;
    const key = `${String(event.pid)} ${String(event.tid)}`;
    const known = counts.get(key) ?? { count: 0, first: event };
    known.count += 1;
    counts.set(key, known);
  }
  return [...counts.values()].sort((a, b) => b.count - a.count)[0]?.first;
}

const byTime = (a: TraceEvent, b: TraceEvent): number => a.ts - b.ts;

const between = (from: TraceEvent, to: TraceEvent): Times => {
  return { wallMs: (to.ts - from.ts) / 1_000, busyMs: ((to.tts ?? 0) - (from.tts ?? 0)) / 1_000 };
};
