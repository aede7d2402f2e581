/**
 * @file The console's page with 6,016 GPUs and 10,000 waiting jobs, in Chromium: first paint, redraws, frames and heap of the map under a stream of
 * changed leases, and what a queue of that length takes to sort, filter and scroll.
 *
 * The page and its stream are the product's, fed by a made-up fleet. Every figure is there twice: by the clock, which is the bar, and by the processor
 * time of the page's thread, which other work on the machine does not touch.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { atMost, barOf, type Bar } from "../bar.ts";
import { quantile } from "../statistics.ts";
import { madeUpFleet, type MadeUpFleet } from "./made-up-fleet.ts";
import { meterOf, openPage, untilDrawn } from "./opened-page.ts";
import { servePage, type PageServer } from "./page-server.ts";
import { traced, type Times } from "./thread-trace.ts";

/** Each of 1 to 8 GPUs. */
const CHANGES_A_SECOND = 500;
/** The console tells what changed so often. */
const TOLD_A_SECOND = 10;
const FIRST_PAINTS = 5;
const WARM_UP_SECONDS = 1;
const ROUNDS = 5;

/** Says in the trace when the map is painted first. */
const SAYS_FIRST = `
  let drawn;
  Object.defineProperty(window, "orbweaverDrawn", {
    get: () => drawn,
    set(value) { drawn = value; console.timeStamp("drawn"); },
  });`;
const KEEP_REDRAWS = `
  window.redraws_ = [];
  (function next(known) {
    const { count, lastMs } = window.orbweaverDrawn;
    if (count > known) window.redraws_.push(lastMs);
    requestAnimationFrame(() => next(count));
  })(window.orbweaverDrawn.count);`;

export interface PageFigures {
  readonly firstPaints: readonly Times[];
  /** Drawing alone, by the clock; and all that the page's thread did for one redraw: reading, tables, drawing. */
  readonly redraws: {
    readonly count: number;
    readonly wallMs: readonly number[];
    readonly busyMs: number;
  };
  readonly frames: readonly Times[];
  /** After collections: at the end ÷ early on. */
  readonly heapRatio: number;
  readonly complaints: readonly string[];
  readonly queue: ReadonlyMap<string, readonly Times[]>;
}

export interface PageSizes {
  readonly hosts: number;
  readonly waiting: number;
  readonly seconds: number;
  readonly seed: number;
}

/** `interrupted` ends it between two messages. */
export async function measurePage(
  browser: Browser,
  { hosts, waiting, seconds, seed }: PageSizes,
  interrupted: AbortSignal,
): Promise<PageFigures> {
  const fleet = madeUpFleet({ seed, hosts, waiting, nowMs: Date.now() });
  const server = await servePage(fleet);
  try {
    const firstPaints: Times[] = [];
    for (let turn = 0; turn < FIRST_PAINTS; turn += 1) {
      interrupted.throwIfAborted();
      firstPaints.push(await firstPaint(browser, server.url));
    }
    const stream = await measureStream(browser, { fleet, server, seconds, interrupted });
    return { firstPaints, ...stream, queue: await measureQueue(browser, server.url) };
  } finally {
    await server.close();
  }
}

/** Of a browser that has nothing of the page yet; the processor time is that of a thread of its own, from its start on. */
async function firstPaint(browser: Browser, url: string): Promise<Times> {
  const context = await browser.newContext({ viewport: { width: 1_400, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(SAYS_FIRST);
  const trace = await traced(browser, page, async () => {
    await page.goto(url);
    await untilDrawn(page);
  });
  const wallMs = Number(await page.evaluate("window.orbweaverDrawn.firstAtMs"));
  await context.close();
  return { wallMs, busyMs: trace.busyWhenSaid("drawn") ?? NaN };
}

async function measureStream(
  browser: Browser,
  of: {
    readonly fleet: MadeUpFleet;
    readonly server: PageServer;
    readonly seconds: number;
    readonly interrupted: AbortSignal;
  },
): Promise<Omit<PageFigures, "firstPaints" | "queue">> {
  const { seconds } = of;
  const { page, complaints, close } = await openPage(browser, of.server.url);
  const meter = await meterOf(page);
  await untilDrawn(page);
  await play(of, WARM_UP_SECONDS);
  await page.evaluate(KEEP_REDRAWS);
  const early = Math.max(2, Math.round(seconds / 6));
  await play(of, early);
  const heapEarly = await meter.heapBytes();
  await page.evaluate("window.redraws_.length = 0");
  await meter.busyMs();
  let busyMs = NaN;
  let wallMs: readonly number[] = [];
  const { frames } = await traced(browser, page, async () => {
    await play(of, seconds - early);
    busyMs = await meter.busyMs();
    wallMs = (await page.evaluate("window.redraws_")) as readonly number[];
  });
  const heap = await meter.heapBytes();
  await close();
  return {
    redraws: { count: wallMs.length, wallMs, busyMs: busyMs / wallMs.length },
    frames,
    heapRatio: heap / heapEarly,
    complaints,
  };
}

async function play(
  {
    fleet,
    server,
    interrupted,
  }: {
    readonly fleet: MadeUpFleet;
    readonly server: PageServer;
    readonly interrupted: AbortSignal;
  },
  seconds: number,
): Promise<void> {
  const beganMs = performance.now();
  for (let word = 1; word <= seconds * TOLD_A_SECOND; word += 1) {
    interrupted.throwIfAborted();
    server.tell(fleet.change(CHANGES_A_SECOND / TOLD_A_SECOND));
    const dueMs = beganMs + (1_000 * word) / TOLD_A_SECOND;
    await sleep(Math.max(0, dueMs - performance.now()));
  }
}

const choose = (tenant: string): string =>
  `{ const box = document.querySelector("select[aria-label='Filter by tenant']"); box.value = "${tenant}"; box.dispatchEvent(new Event("change", { bubbles: true })); }`;
const search = (text: string): string =>
  `{ const box = document.querySelector("input[type=search]"); box.value = "${text}"; box.dispatchEvent(new Event("input", { bubbles: true })); }`;

/** Each with what takes it back. */
const ACTS: readonly (readonly [
  name: "sort" | "filter" | "search" | "scroll",
  act: string,
  back: string,
])[] = [
  [
    "sort",
    `document.querySelector(".c-gpus button").click()`,
    `document.querySelector(".c-job button").click()`,
  ],
  ["filter", choose("maps"), choose("")],
  ["search", search("quota"), search("")],
  [
    "scroll",
    `document.querySelector(".rows").scrollTop += 5000`,
    `document.querySelector(".rows").scrollTop = 0`,
  ],
];

/** From the act to the second frame after it, when what it changed has been painted. */
const timed = (act: string): string => `new Promise((resolve) => {
  const began = performance.now();
  ${act};
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
})`;

async function measureQueue(
  browser: Browser,
  url: string,
): Promise<ReadonlyMap<string, readonly Times[]>> {
  const { page, close } = await openPage(browser, `${url}?view=queue`);
  const meter = await meterOf(page);
  const times = new Map<string, Times[]>();
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [name, act, back] of ACTS) {
      const one = await timesOf(page, meter.busyMs, act);
      times.set(name, [...(times.get(name) ?? []), one]);
      await page.evaluate(timed(back));
    }
  await close();
  return times;
}

async function timesOf(page: Page, busySince: () => Promise<number>, act: string): Promise<Times> {
  await busySince();
  const wallMs = Number(await page.evaluate(timed(act)));
  return { wallMs, busyMs: await busySince() };
}

/** Of the bars that are judged by the clock and, with `-cpu` behind the name, by processor time; and of the heap. */
const MOST_MS = {
  "map-first-paint": 1_000,
  "map-redraw": 16,
  "map-longest-frame": 100,
  "queue-sort": 100,
  "queue-filter": 100,
  "queue-search": 100,
  "queue-scroll": 100,
} as const;
const HEAP_RATIO = 1.1;

/** All bars of this part. */
export const PAGE_TARGETS: readonly (readonly [id: string, unit: string, most: number])[] = [
  ...Object.entries(MOST_MS).flatMap(([id, most]) =>
    [id, `${id}-cpu`].map((name) => [name, "ms", most] as const),
  ),
  ["map-heap", "×", HEAP_RATIO],
];

export function pageBars(figures: PageFigures, { seconds, waiting }: PageSizes): readonly Bar[] {
  const { firstPaints, redraws, frames, heapRatio, queue, complaints } = figures;
  const wall = (times: readonly Times[]): number[] => times.map(({ wallMs }) => wallMs);
  const busy = (times: readonly Times[]): number[] => times.map(({ busyMs }) => busyMs);
  const most = (values: readonly number[]): number => quantile(values, 1);
  const ms = (value: number): string => value.toFixed(1);
  const both = (
    id: keyof typeof MOST_MS,
    [got, cpu]: readonly [number, number],
    note: string,
  ): readonly Bar[] => {
    const bar = { unit: "ms", target: atMost(MOST_MS[id]) };
    const ofThread = "the same by processor time of the page's thread";
    return [
      barOf({ ...bar, id, got, note }),
      barOf({ ...bar, id: `${id}-cpu`, got: cpu, note: ofThread }),
    ];
  };
  const long = wall(frames).filter((value) => value > MOST_MS["map-longest-frame"]).length;
  return [
    ...both(
      "map-first-paint",
      [quantile(wall(firstPaints), 0.5), quantile(busy(firstPaints), 0.5)],
      `median of ${String(firstPaints.length)} browsers with nothing of the page yet, the slowest ${ms(most(wall(firstPaints)))} ms`,
    ),
    ...both(
      "map-redraw",
      [quantile(redraws.wallMs, 0.5), redraws.busyMs],
      `drawing, median of ${String(redraws.count)}; p99 ${ms(quantile(redraws.wallMs, 0.99))} ms. By processor time it is all that the thread does for one redraw: reading, tables, drawing`,
    ),
    ...both(
      "map-longest-frame",
      [most(wall(frames)), most(busy(frames))],
      `${String(frames.length)} frames at ${String(CHANGES_A_SECOND)} changes a second, ${String(long)} too long, p99 ${ms(quantile(wall(frames), 0.99))} ms`,
    ),
    barOf({
      ...{ id: "map-heap", unit: "×", target: atMost(HEAP_RATIO), got: heapRatio },
      note: `after ${String(seconds)} s beside after a sixth of that, both collected; ${String(complaints.length)} complaints of the page`,
    }),
    ...ACTS.flatMap(([name]) => {
      const times = queue.get(name) ?? [];
      return both(
        `queue-${name}`,
        [quantile(wall(times), 0.5), quantile(busy(times), 0.5)],
        `median of ${String(times.length)}, ${waiting.toLocaleString("en")} rows; the slowest ${ms(most(wall(times)))} ms, by processor time ${ms(most(busy(times)))} ms`,
      );
    }),
  ];
}
