/** @file One play of the queue: with run times that are known, jobs start when a hand-made schedule says. */
import { describe, expect, test } from "vitest";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import { randomFrom } from "../../../lib/random.ts";
import type { ArrivalStream } from "../../../scheduling/estimates/arrival-rates.ts";
import { fifo } from "../../../scheduling/cycle/policy-sets.ts";
import { play, type PlayOptions } from "../../../scheduling/forecast/play.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const MINUTE_MS = 60_000;
const READY = readyLedger(fleetShape([{ hosts: [{}] }]));

/** Every run lasts ten minutes, less the time that it has run. */
const OPTIONS: PlayOptions = {
  nowMs: MINUTE_MS,
  untilMs: 1_000 * MINUTE_MS,
  maxDecisions: 500,
  runTimes: { count: 0, remainingMs: (_, ranMs) => 10 * MINUTE_MS - ranMs },
  streams: [],
  random: randomFrom(1),
  policies: fifo,
};

/** `runs` holds all 8 GPUs since 0; the others wait in this order. */
function queue(...waiting: readonly RequestSpec[]): Ledger {
  const held = leased(READY, { job: "runs", gpus: 8 }, gpus(["c0/h0", 255]));
  const entries = waiting.map((spec, at) => ask({ gpus: 8, submittedAtMs: at + 1, ...spec }));
  return inbox(held, entries).ledger;
}

/** Minutes from the start of the play. */
function startsOf(ledger: Ledger, jobs: readonly string[], change: Partial<PlayOptions> = {}) {
  const { startsAtMs, ...rest } = play(ledger, jobs.map(jobId), { ...OPTIONS, ...change });
  return { starts: [...startsAtMs].map(([job, atMs]) => [job, atMs / MINUTE_MS - 1]), ...rest };
}

describe("a play", () => {
  test("starts a job when the one that runs has ended, ten minutes after its grant", () => {
    const { starts, isCut } = startsOf(queue({ job: "next" }), ["next"]);
    expect(starts).toEqual([["next", 9]]);
    expect(isCut).toBe(false);
  });

  test("starts one job after the other, each within a step of its time", () => {
    const jobs = ["j1", "j2", "j3", "j4", "j5"];
    const { starts } = startsOf(queue(...jobs.map((job) => ({ job }))), jobs);
    expect(starts.map(([job]) => job)).toEqual(jobs);
    for (const [at, [, startedAt]] of starts.entries()) {
      const want = 9 + 10 * at;
      expect(Math.abs(Number(startedAt) - want)).toBeLessThanOrEqual(0.15 * want);
    }
  });

  test("starts jobs together that fit together", () => {
    const ledger = queue({ job: "a", gpus: 4 }, { job: "b", gpus: 4 }, { job: "c", gpus: 4 });
    const { starts } = startsOf(ledger, ["a", "b", "c"]);
    expect(starts.slice(0, 2)).toEqual([
      ["a", 9],
      ["b", 9],
    ]);
    expect(Number(starts[2]?.[1])).toBeGreaterThan(16);
  });

  test("ends with the last job that is watched", () => {
    const ledger = queue({ job: "a" }, { job: "b" });
    expect(startsOf(ledger, ["a"]).starts.map(([job]) => job)).toEqual(["a"]);
    expect(startsOf(ledger, ["a"]).decisions).toBeLessThan(startsOf(ledger, ["b"]).decisions);
  });

  test("knows no start beyond its horizon", () => {
    const { starts, isCut } = startsOf(queue({ job: "a" }, { job: "b" }), ["a", "b"], {
      untilMs: 15 * MINUTE_MS,
    });
    expect(starts.map(([job]) => job)).toEqual(["a"]);
    expect(isCut).toBe(false);
  });

  test("is cut where its decisions run out", () => {
    const cut = startsOf(queue({ job: "a" }), ["a"], { maxDecisions: 1 });
    expect(cut).toEqual({ starts: [], decisions: 1, isCut: true });
  });

  test("is the same with the same random numbers, and leaves its ledger as it was", () => {
    const ledger = queue({ job: "a" }, { job: "b" });
    const before = JSON.stringify([...ledger.requests, ...ledger.leases]);
    expect(startsOf(ledger, ["b"], { streams: [STREAM] })).toEqual(
      startsOf(ledger, ["b"], { streams: [STREAM], random: randomFrom(1) }),
    );
    expect(startsOf(ledger, ["b"], { streams: [STREAM], random: randomFrom(2) })).not.toEqual(
      startsOf(ledger, ["b"], { streams: [STREAM] }),
    );
    expect(JSON.stringify([...ledger.requests, ...ledger.leases])).toBe(before);
  });
});

/** An inference job of 8 GPUs about every five minutes. */
const STREAM: ArrivalStream = {
  class: "inference",
  meanMs: 5 * MINUTE_MS,
  draw: () => ({ class: "inference", tenant: tenantId("s"), gpus: 8 }),
  lastsMs: () => 60 * MINUTE_MS,
};

describe("arrivals that are drawn", () => {
  const ledger = queue({ job: "a" }, { job: "b" });

  test("come before a job of lower class in the policy of classes, and after it in the order of arrival", () => {
    const inOrder = startsOf(ledger, ["b"], { streams: [STREAM] }).starts[0]?.[1];
    const { policies: _fifo, ...byClass } = OPTIONS;
    const { startsAtMs } = play(ledger, [jobId("b")], { ...byClass, streams: [STREAM] });
    expect(Number(inOrder)).toBeLessThan(22);
    expect((startsAtMs.get(jobId("b")) ?? Infinity) / MINUTE_MS - 1).toBeGreaterThan(25);
  });

  test("come no more when their stream has ended", () => {
    const brief = { ...STREAM, meanMs: 1, lastsMs: () => 0 };
    expect(startsOf(ledger, ["b"], { streams: [brief] })).toEqual(startsOf(ledger, ["b"]));
  });
});

test("a job that is evicted writes its checkpoint in seconds, and comes after a job that was served less", () => {
  const ledger = queue({ job: "serve", class: "inference" }, { job: "last" });
  const { policies: _fifo, ...byClass } = OPTIONS;
  const jobs = ["serve", "last"].map(jobId);
  const { startsAtMs } = play(ledger, jobs, { ...byClass, nowMs: 5 * MINUTE_MS });
  const serveAfterMs = (startsAtMs.get(jobId("serve")) ?? Infinity) - 5 * MINUTE_MS;
  expect(serveAfterMs).toBeGreaterThan(0);
  expect(serveAfterMs).toBeLessThan(10_000);
  // `serve` runs for ten minutes; `runs`, which gave way to it, was served before.
  const lastAfterMs = (startsAtMs.get(jobId("last")) ?? Infinity) - 5 * MINUTE_MS;
  expect(lastAfterMs / MINUTE_MS).toBeGreaterThan(9);
  expect(lastAfterMs / MINUTE_MS).toBeLessThan(12);
});
