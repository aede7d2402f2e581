/** @file `bench console` without a browser and without a server: what a trace says of frames, the hash of what is compared, a scrape in small. */

import { expect, test } from "vitest";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { largeLedgers } from "../../bench/live/large-ledger.ts";
import { drawFrom } from "../../bench/statistics.ts";
import { foldedOf } from "../support/recorded-fleet.ts";
import type { BenchRequest } from "../../bench/bench.ts";
import { hashOf } from "../../bench/console/folded-histories.ts";
import { measureLargePast } from "../../bench/console/large-past.ts";
import { readTrace } from "../../bench/console/thread-trace.ts";
import { writtenRuns } from "../../bench/console/written-histories.ts";
import { measureScrape } from "../../bench/console/scrape-part.ts";
import { benchRequest } from "../support/bench-request.ts";

const event = (name: string, ts: number, tts: number, more: object = {}) => {
  return { name, pid: 1, tid: 1, ts, tts, args: {}, ...more };
};

test("frames are those of the thread that draws most, by the clock and by the thread's own time", () => {
  const { frames, busyWhenSaid } = readTrace([
    event("TimeStamp", 9_000, 4_500, { args: { data: { message: "drawn" } } }),
    event("FireAnimationFrame", 50_000, 12_000),
    event("FireAnimationFrame", 20_000, 10_000),
    event("FireAnimationFrame", 66_000, 20_000),
    event("FireAnimationFrame", 30_000, 0, { pid: 2 }),
  ]);
  expect(frames).toEqual([
    { wallMs: 30, busyMs: 2 },
    { wallMs: 16, busyMs: 8 },
  ]);
  expect(busyWhenSaid("drawn")).toBe(4.5);
  expect(busyWhenSaid("nothing")).toBeUndefined();
});

test("what is the same in another order of keys has the same hash, and nothing else has", () => {
  const one = { a: [1, { c: 2, b: 3 }], d: undefined };
  expect(hashOf({ a: [1, { b: 3, c: 2 }] })).toBe(hashOf(one));
  expect(hashOf({ a: [{ b: 3, c: 2 }, 1] })).not.toBe(hashOf(one));
});

const requestOf = (sizes: Readonly<Record<string, number>>): BenchRequest =>
  benchRequest({ size: (name) => sizes[name] ?? 0 });

test("every instant of a small fleet that changes over two runs is shown as it was", async () => {
  const bars = await measureLargePast(
    requestOf({ hosts: 8, waiting: 20, cycles: 8, instants: 30 }),
  );
  expect(bars.map(({ id, got }) => [id, typeof got])).toEqual([
    ...["slider-large-equal", "slider-large-time", "slider-large-time-cpu"].map((id) => [
      id,
      "number",
    ]),
  ]);
  expect(bars[0]?.got).toBe(30);
});

test("a written history is followed to its end, and the next run carries on what it left", async () => {
  const draw = drawFrom(1);
  const [first] = largeLedgers({ gpus: 64, requests: 20 }, draw);
  if (first === undefined) throw new Error("no ledger");
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const { signal: interrupted } = new AbortController();
  const options = { fleet: "large", runs: 2, cycles: 40, codecs, draw, interrupted };
  let left: string | undefined;
  let grants = 0;
  for await (const { runId, events } of writtenRuns(first, options)) {
    const run = await openFollowedRun(runId, events[0] ?? {}, codecs);
    expect(run.carried).toBe(left ?? run.carried);
    for (const { event } of await foldedOf(run, events))
      if (event.kind === "plan") grants += event.plan.items.length;
    left = JSON.stringify(packLedger(run.ledger()));
  }
  expect(grants).toBeGreaterThan(20);
});

test("a scrape of a small full fleet has series of its tenants and of the use of its hosts", async () => {
  const bars = await measureScrape(requestOf({ hosts: 40, waiting: 60 }));
  expect(bars.map(({ id }) => id)).toEqual(["scrape-time", "scrape-time-cpu", "scrape-series"]);
  const series = bars.at(-1)?.got ?? 0;
  expect(series).toBeGreaterThan(4 * 40);
  expect(series).toBeLessThanOrEqual(20_000);
});
