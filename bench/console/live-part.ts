/**
 * @file Consoles of a live fleet that changes about ten times a second until it has continued as new: how long after an event the frame comes that shows it, what
 * the console asks Temporal with 50 browsers beside one, how many bytes a browser gets, and its slider.
 *
 * Two consoles follow the same fleet at the same time, so both see the same events at the same load: one has a browser, the other fifty. Forty-nine of
 * those, and the one of the first, are clients that ask for all that the page asks for and draw nothing. The server's clock is this machine's.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { atMost, barOf, exactly, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { simulatedFleet } from "../live/fleet.ts";
import { openQuietFleet, type BenchWorld } from "../live/world.ts";
import { drawFrom, quantile } from "../statistics.ts";
import { openBareBrowser, openConsole, type BareBrowser } from "./consoles.ts";
import {
  foldHistories,
  ledgerHash,
  type FoldedHistories,
  type ShownTask,
} from "./folded-histories.ts";
import { playChanges, type LiveStream } from "./live-stream.ts";
import { openPage, untilDrawn } from "./opened-page.ts";
import { measureSlider, type SliderFigures } from "./slider-part.ts";

const HOSTS = 8;
const BROWSERS = 50;
const SETTLE_MS = 2_000;
const MOST_PLAYED = 5;

/** Every frame that shows a later event than the one before: its event's time, and the time of the frame. */
const KEEP_FRAMES = `
  window.shown_ = [];
  (function next(known) {
    const { atMs } = window.orbweaverDrawn;
    if (atMs > known) window.shown_.push([atMs, performance.timeOrigin + performance.now()]);
    requestAnimationFrame(() => next(Math.max(known, atMs)));
  })(window.orbweaverDrawn.atMs);`;

type ShownFrame = readonly [eventAtMs: number, paintedAtMs: number];

interface Watched {
  readonly stream: LiveStream;
  readonly calls: { readonly one: number; readonly fifty: number };
  readonly bytesASecond: number;
  /** Undefined without a browser that draws. */
  readonly frames: readonly ShownFrame[] | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

export async function measureLive(
  request: BenchRequest,
  browser: Browser | undefined,
  why: string,
): Promise<readonly Bar[]> {
  request.say("live: starting a server, workers and agents");
  const world = await openQuietFleet({ request }, simulatedFleet("console", HOSTS));
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const { temporal: client, fleet } = world;
  try {
    const watched = await watch(world, request, browser);
    const truth = await foldHistories(client, fleet, codecs);
    request.say(`live: the slider over ${String(truth.runs)} runs`);
    const fresh = await openConsole(client, fleet, request.say);
    try {
      await untilFollowed(fresh.url);
      const slider = await measureSlider({
        ...{ url: fresh.url, client, fleet, codecs, truth },
        draw: drawFrom(request.seed),
        count: request.size("instants"),
      });
      const page = browser && (await sliderTimes(browser, fresh.url, slider.instants));
      return [
        ...watchedBars(watched, truth, why),
        ...sliderBars({ slider, truth, stream: watched.stream, page }, why),
      ];
    } finally {
      await fresh.close();
    }
  } finally {
    await world.stop();
  }
}

async function watch(
  world: BenchWorld,
  request: BenchRequest,
  browser: Browser | undefined,
): Promise<Watched> {
  const open = () => openConsole(world.temporal, world.fleet, request.say);
  const [one, fifty] = [await open(), await open()];
  const bare: BareBrowser[] = [];
  try {
    const only = await openBareBrowser(one.url);
    bare.push(only);
    const others = browser === undefined ? BROWSERS : BROWSERS - 1;
    for (let at = 0; at < others; at += 1) bare.push(await openBareBrowser(fifty.url));
    const page = browser && (await drawnPage(browser, fifty.url));
    await sleep(SETTLE_MS);
    const before = { one: one.calls(), fifty: fifty.calls(), bytes: only.bytes() };
    const fromMs = Date.now();
    const stream = await playChanges(world, {
      env: request.env,
      draw: drawFrom(request.seed),
      isEnough: (seconds) => isEnough(world, request, seconds),
    });
    const toMs = Date.now();
    await sleep(SETTLE_MS);
    const frames = page && ((await page.evaluate("window.shown_")) as readonly ShownFrame[]);
    await page?.close();
    return {
      ...{ stream, frames, fromMs, toMs },
      calls: { one: one.calls() - before.one, fifty: fifty.calls() - before.fifty },
      bytesASecond: (only.bytes() - before.bytes) / ((toMs - fromMs) / 1_000),
    };
  } finally {
    for (const each of bare) each.close();
    await one.close();
    await fifty.close();
  }
}

/** So long, and so many runs; a machine that takes many times as long is not waited for. */
async function isEnough(
  { temporal, fleet }: BenchWorld,
  request: BenchRequest,
  seconds: number,
): Promise<boolean> {
  const wanted = request.size("live-seconds");
  if (seconds < wanted) return false;
  if (seconds > MOST_PLAYED * wanted) return true;
  const query = `WorkflowId = "${fleetWorkflowId(fleet)}" AND ExecutionStatus = "ContinuedAsNew"`;
  return (await temporal.workflow.count(query)).count >= request.size("continues");
}

async function drawnPage(browser: Browser, url: string): Promise<Page> {
  const { page } = await openPage(browser, `${url}?mode=health`);
  await untilDrawn(page);
  await page.evaluate(KEEP_FRAMES);
  return page;
}

const LOOK_MS = 100;

/** Until the console has read the fleet's history as far as it goes. */
async function untilFollowed(url: string): Promise<void> {
  let former = "";
  for (;;) {
    await sleep(LOOK_MS);
    const { facts, changes } = (await (await fetch(`${url}api/snapshot`)).json()) as {
      readonly facts: { readonly atMs: number };
      readonly changes: { readonly hosts: { readonly set: object } };
    };
    const now = String(facts.atMs);
    if (now === former && Object.keys(changes.hosts.set).length === HOSTS) return;
    former = now;
  }
}

/** From the change of the address to the second frame after the instant is named on the page. */
async function sliderTimes(
  browser: Browser,
  url: string,
  instants: readonly number[],
): Promise<readonly number[]> {
  const { page, close } = await openPage(browser, url);
  await untilDrawn(page);
  const times: number[] = [];
  for (const ms of instants) {
    const script = `new Promise((resolve) => {
      const began = performance.now();
      const before = window.orbweaverDrawn.count;
      const address = new URL(location.href);
      address.searchParams.set("at", "${String(ms)}");
      history.pushState(null, "", address);
      dispatchEvent(new PopStateEvent("popstate"));
      const look = () => window.orbweaverDrawn.count > before
        ? requestAnimationFrame(() => resolve(performance.now() - began))
        : requestAnimationFrame(look);
      look();
    })`;
    times.push(Number(await page.evaluate(script)));
  }
  await close();
  return times;
}

const EVENT_TO_FRAME_MS = 500;
const BYTES_A_SECOND = 20_000;
/** How many events one answer of the server brings differs by a few from console to console. */
const EQUAL_CALLS = 1.05;
const SHOWN_WITHIN_MS = 1_000;

function watchedBars(
  { calls, bytesASecond, frames, fromMs, toMs }: Watched,
  { shown }: FoldedHistories,
  why: string,
): readonly Bar[] {
  const seconds = (toMs - fromMs) / 1_000;
  const tasks = shown.filter(({ startedAtMs: atMs }) => atMs >= fromMs && atMs <= toMs);
  const leases = tasks.reduce((sum, task) => sum + task.leases, 0);
  const rate = `${(leases / seconds).toFixed(1)} changes of leases a second for ${seconds.toFixed(0)} s, in ${String(tasks.length)} workflow tasks`;
  const lag = { id: "event-to-frame-p99", unit: "ms", target: atMost(EVENT_TO_FRAME_MS) };
  return [
    ...(frames === undefined ? [unmeasured(lag, why)] : lagBars(lag, { frames, tasks, rate })),
    barOf({
      ...{ id: "calls-fifty-browsers", unit: "×", target: atMost(EQUAL_CALLS) },
      got: calls.fifty / calls.one,
      note: `${String(calls.fifty)} calls to Temporal beside ${String(calls.one)} with one browser, two consoles at the same time; all but one browser are clients that ask for what the page asks for`,
    }),
    barOf({
      ...{ id: "browser-bytes", unit: "B/s", target: atMost(BYTES_A_SECOND), got: bytesASecond },
      note: rate,
    }),
  ];
}

function lagBars(
  lag: Pick<Bar, "id" | "unit"> & { readonly target: ReturnType<typeof atMost> },
  {
    frames,
    tasks,
    rate,
  }: {
    readonly frames: readonly ShownFrame[];
    readonly tasks: readonly ShownTask[];
    readonly rate: string;
  },
): readonly Bar[] {
  const lags = tasks.flatMap(({ startedAtMs, writtenAtMs }) => {
    const first = frames.find(([atMs]) => atMs >= startedAtMs);
    return first === undefined
      ? []
      : [{ written: first[1] - writtenAtMs, started: first[1] - startedAtMs }];
  });
  const written = lags.map((one) => one.written);
  const started = lags.map((one) => one.started);
  const inMs = { unit: "ms", target: REPORTED };
  return [
    barOf({
      ...{ ...lag, got: quantile(written, 0.99) },
      note: `${rate}, ${String(tasks.length - lags.length)} without a frame`,
    }),
    barOf({ ...inMs, id: "event-to-frame-p50", got: quantile(written, 0.5) }),
    barOf({
      ...{ ...inMs, id: "task-to-frame-p99", got: quantile(started, 0.99) },
      note: "from the start of the workflow task, so with the fleet's own work",
    }),
  ];
}

function sliderBars(
  {
    slider: { shownEqual, ledgersEqual, answerMs, instants },
    truth,
    stream: { answered },
    page,
  }: {
    readonly slider: SliderFigures;
    readonly truth: FoldedHistories;
    readonly stream: LiveStream;
    readonly page: readonly number[] | undefined;
  },
  why: string,
): readonly Bar[] {
  const span = `${String(truth.runs)} runs, ${((truth.toMs - truth.fromMs) / 1_000).toFixed(0)} s`;
  const asAnswered = answered.filter(({ atMs, hash }) => ledgerHash(truth.ledgerAt(atMs)) === hash);
  const time = { id: "slider-time", unit: "ms", target: atMost(SHOWN_WITHIN_MS) };
  return [
    barOf({
      ...{ id: "slider-shown-equal", unit: "instants", target: exactly(instants.length) },
      got: shownEqual,
      note: `random instants of ${span}: all rows and the queue, by hash`,
    }),
    barOf({
      ...{ id: "slider-ledgers-equal", unit: "instants", target: exactly(instants.length) },
      got: ledgersEqual,
      note: "the same instants: the whole ledger of the console's archive, by hash",
    }),
    barOf({
      ...{
        id: "fold-as-told",
        unit: "instants",
        target: exactly(answered.length),
        got: asAnswered.length,
      },
      note: "the ledger that the fleet's own workflow answered while nothing changed, by hash",
    }),
    barOf({
      ...{ id: "fold-ends-unequal", unit: "runs", target: exactly(0), got: truth.unequalEnds },
      note: "runs whose fold ended with another ledger than the fleet carried on",
    }),
    page === undefined
      ? unmeasured(time, why)
      : barOf({
          ...{ ...time, got: quantile(page, 1) },
          note: `the slowest of ${String(page.length)} in the browser; median ${quantile(page, 0.5).toFixed(0)} ms`,
        }),
    barOf({
      ...{ id: "slider-answer", unit: "ms", target: REPORTED, got: quantile(answerMs, 1) },
      note: `the console's answer alone, the slowest; median ${quantile(answerMs, 0.5).toFixed(0)} ms; the first of a run that is over reads it from Temporal`,
    }),
  ];
}
