/** @file Requests in front of a model: what goes together, what waits, what is turned away, what closing does. */

import { describe, expect, it } from "vitest";
import type { TensorValue } from "../../../models/onnx/onnx-session.ts";
import {
  createBatcher,
  type Batcher,
  type BatcherOptions,
  type Submitted,
  type Tensors,
} from "../../../workers/serving/batcher.ts";

const rows = (...values: readonly number[]): Tensors =>
  new Map([
    ["x", { type: "float32", shape: [values.length, 1], data: Float32Array.from(values) }],
  ] satisfies [string, TensorValue][]);

const numbersIn = (answer: Submitted): readonly number[] | string =>
  answer.kind === "answered" ? [...(answer.outputs.get("x")?.data ?? [])].map(Number) : answer.kind;

interface Bench {
  readonly batcher: Batcher;
  /** Rows of the runs that have begun. */
  readonly runs: number[];
  /** Lets the oldest run answer: each number doubled. */
  finish(): Promise<void>;
  pass(ms: number): Promise<void>;
}

const OPTIONS: BatcherOptions = { maxBatch: 4, windowMs: 10, maxQueue: 8, maxRuns: 1 };

function bench(options: Partial<BatcherOptions> = {}): Bench {
  let nowMs = 0;
  const timers = new Set<{ readonly atMs: number; readonly call: () => void }>();
  const runs: number[] = [];
  const open: (() => void)[] = [];
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const batcher = createBatcher(
    { ...OPTIONS, ...options },
    {
      run(feeds) {
        const tensor = feeds.get("x");
        if (tensor === undefined) throw new Error("no x");
        runs.push(tensor.shape[0] ?? 0);
        const data = (tensor.data as Float32Array).map((value) => 2 * value);
        return new Promise((resolve, reject) => {
          open.push(() => {
            if (data.includes(26)) reject(new Error("13 is no number"));
            else resolve(new Map([["x", { ...tensor, data }]]));
          });
        });
      },
      nowMs: () => nowMs,
      after(delayMs, call) {
        const timer = { atMs: nowMs + delayMs, call };
        timers.add(timer);
        return () => timers.delete(timer);
      },
    },
  );
  return {
    batcher,
    runs,
    async finish() {
      open.shift()?.();
      await settled();
    },
    async pass(ms) {
      nowMs += ms;
      for (const timer of [...timers]) {
        if (timer.atMs > nowMs) continue;
        timers.delete(timer);
        timer.call();
      }
      await settled();
    },
  };
}

describe("requests in front of a model", () => {
  it("go together within the window, and each gets its own rows back", async () => {
    const { batcher, runs, pass, finish } = bench();
    const answers = [batcher.submit(rows(1)), batcher.submit(rows(2, 3))];
    expect(runs).toEqual([]);
    await pass(10);
    expect(runs).toEqual([3]);
    await finish();
    expect((await Promise.all(answers)).map(numbersIn)).toEqual([[2], [4, 6]]);
  });

  it("do not wait once a batch is full", () => {
    const { batcher, runs } = bench();
    void batcher.submit(rows(1, 2));
    void batcher.submit(rows(3, 4));
    expect(runs).toEqual([4]);
  });

  it("of other sizes behind the first axis run apart, in their order", async () => {
    const { batcher, runs, pass, finish } = bench();
    const wide: Tensors = new Map([
      ["x", { type: "float32", shape: [1, 2], data: Float32Array.of(5, 6) }],
    ]);
    const answers = [batcher.submit(rows(1)), batcher.submit(wide), batcher.submit(rows(2))];
    // What stands behind the first cannot join it, so it does not wait for more.
    expect(runs).toEqual([1]);
    await finish();
    await finish();
    await pass(10);
    await finish();
    expect((await Promise.all(answers)).map(numbersIn)).toEqual([[2], [10, 12], [4]]);
  });

  it("run one by one where the model takes no batches", async () => {
    const { batcher, runs, finish } = bench({ maxBatch: 1 });
    const answers = [batcher.submit(rows(1)), batcher.submit(rows(2))];
    expect(runs).toEqual([1]);
    await finish();
    await finish();
    expect(runs).toEqual([1, 1]);
    expect((await Promise.all(answers)).map(numbersIn)).toEqual([[2], [4]]);
  });

  it("larger than a batch run alone", () => {
    const { batcher, runs } = bench();
    void batcher.submit(rows(1, 2, 3, 4, 5));
    expect(runs).toEqual([5]);
  });

  it("follow each other through the lanes: as many runs as may be under way", async () => {
    const { batcher, runs } = bench({ maxBatch: 1, maxRuns: 2 });
    for (const value of [1, 2, 3]) void batcher.submit(rows(value));
    expect(runs).toHaveLength(2);
  });

  it("are turned away from a full line, and told when to come again", async () => {
    const { batcher, finish, pass } = bench({ maxBatch: 1, maxQueue: 2 });
    const first = batcher.submit(rows(1));
    await pass(100);
    await finish();
    await first;
    for (const value of [2, 3, 4]) void batcher.submit(rows(value));
    // Two stand in line behind the one that runs, and the run before took 100 ms.
    expect(await batcher.submit(rows(5))).toEqual({ kind: "full", retryAfterMs: 200 });
    expect(batcher.counts()).toMatchObject({ waiting: 2, running: 1, answered: 1, turnedAway: 1 });
  });

  it("that fail take no later one with them", async () => {
    const { batcher, finish } = bench({ maxBatch: 1 });
    const answers = [batcher.submit(rows(13)), batcher.submit(rows(2))];
    await finish();
    await finish();
    expect(await answers[0]).toEqual({ kind: "failed", message: "13 is no number" });
    expect(numbersIn((await answers[1]) ?? { kind: "closed" })).toEqual([4]);
  });

  it("that fail take none of their run with them: each of it runs again alone", async () => {
    const { batcher, runs, finish } = bench();
    const answers = [batcher.submit(rows(1)), batcher.submit(rows(13)), batcher.submit(rows(2, 3))];
    for (let run = 0; run < 4; run += 1) await finish();
    expect(runs).toEqual([4, 1, 1, 2]);
    expect((await Promise.all(answers)).map(numbersIn)).toEqual([[2], "failed", [4, 6]]);
    expect(batcher.counts()).toMatchObject({ answered: 2, failed: 1, running: 0 });
  });

  it("whose clients have hung up leave the line, and cost no run", async () => {
    const { batcher, runs, finish, pass } = bench({ maxBatch: 1 });
    const gone = new AbortController();
    const answers = [
      batcher.submit(rows(1), gone.signal),
      batcher.submit(rows(2), gone.signal),
      batcher.submit(rows(3)),
    ];
    gone.abort();
    // What runs already is finished.
    await finish();
    await finish();
    await pass(10);
    expect((await Promise.all(answers)).map(numbersIn)).toEqual([[2], "gone", [6]]);
    expect(await batcher.submit(rows(4), gone.signal)).toEqual({ kind: "gone" });
    expect(runs).toEqual([1, 1]);
  });

  it("that stand in line are answered when the service closes, later ones are not taken", async () => {
    const { batcher, finish, runs } = bench();
    const answers = [batcher.submit(rows(1)), batcher.submit(rows(2))];
    const closing = batcher.close();
    expect(runs).toEqual([2]);
    expect(await batcher.submit(rows(3))).toEqual({ kind: "closed" });
    await finish();
    await closing;
    expect((await Promise.all(answers)).map(numbersIn)).toEqual([[2], [4]]);
  });
});
