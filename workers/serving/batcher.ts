/**
 * @file The queue of requests before a model: requests wait, are batched where the model allows it, and are refused when the
 * queue is full.
 *
 * A request on which the model fails takes no other with it: where a shared run fails, each of its requests runs again alone. One whose client has
 * hung up leaves the line.
 *
 * A batch starts when a run may start and the batch is full or its first request has waited for the window. Requests share a
 * batch when their inputs agree in everything but the first axis. As many runs may be in progress as there are lanes, so runs
 * are pipelined through the parts. A full queue refuses at once with the time after which to retry: the time to serve the queue
 * at the present rate. Closing serves the queued requests and accepts no more. The caller supplies the clock.
 */

import type { TensorValue } from "../../models/onnx/onnx-session.ts";
import { joinedRows, partedRows } from "./tensor-rows.ts";

export type Tensors = ReadonlyMap<string, TensorValue>;

export interface BatcherOptions {
  /** Most rows in a batch; 1 when the model takes one request at a time. */
  readonly maxBatch: number;
  /** Time that the first request of a batch waits for others. */
  readonly windowMs: number;
  /** Most queued requests. */
  readonly maxQueue: number;
  /** Most runs in progress. */
  readonly maxRuns: number;
}

export interface BatcherPorts {
  run(feeds: Tensors): Promise<Tensors>;
  nowMs(): number;
  /** Calls back after a time; returns a function that cancels the call. */
  after(delayMs: number, call: () => void): () => void;
}

export type Submitted =
  | { readonly kind: "answered"; readonly outputs: Tensors; readonly batchedRows: number }
  | { readonly kind: "full"; readonly retryAfterMs: number }
  | { readonly kind: "closed" }
  /** Its client has hung up before its run. */
  | { readonly kind: "gone" }
  | { readonly kind: "failed"; readonly message: string };

export interface BatcherCounts {
  readonly waiting: number;
  readonly running: number;
  readonly answered: number;
  readonly failed: number;
  readonly turnedAway: number;
  readonly runs: number;
  readonly rows: number;
  /** Of all runs so far. */
  readonly runMs: number;
}

export interface Batcher {
  /** `gone` is aborted when the client hangs up. */
  submit(inputs: Tensors, gone?: AbortSignal): Promise<Submitted>;
  counts(): BatcherCounts;
  /** Resolves when the last request has its answer. */
  close(): Promise<void>;
}

interface Waiting {
  readonly inputs: Tensors;
  readonly rows: number;
  /** Requests with equal keys may share a run. */
  readonly form: string;
  readonly sinceMs: number;
  settle(answer: Submitted): void;
}

export function createBatcher(options: BatcherOptions, ports: BatcherPorts): Batcher {
  const line: Waiting[] = [];
  const count = { answered: 0, failed: 0, turnedAway: 0, runs: 0, rows: 0, runMs: 0 };
  let running = 0;
  let isClosed = false;
  let takeBack: (() => void) | undefined;
  let whenEmpty: (() => void) | undefined;

  const dispatch = (): void => {
    takeBack?.();
    takeBack = undefined;
    while (running < options.maxRuns) {
      const batch = nextBatch(line, options.maxBatch);
      const [first] = batch;
      if (first === undefined) break;
      const rows = rowsOf(batch);
      const waitedMs = ports.nowMs() - first.sinceMs;
      const mayGrow = !isClosed && rows < options.maxBatch && batch.length === line.length;
      if (mayGrow && waitedMs < options.windowMs) {
        takeBack = ports.after(options.windowMs - waitedMs, dispatch);
        break;
      }
      for (const one of batch) line.splice(line.indexOf(one), 1);
      running += 1;
      void runBatch(batch, rows).finally(() => {
        running -= 1;
        dispatch();
      });
    }
    if (isClosed && line.length === 0 && running === 0) whenEmpty?.();
  };

  const runBatch = async (batch: readonly Waiting[], rows: number): Promise<void> => {
    const fromMs = ports.nowMs();
    try {
      const answers = await ports.run(joined(batch));
      const outputs = parted(answers, batch);
      batch.forEach(({ settle }, index) => {
        const own = outputs[index] ?? new Map<string, TensorValue>();
        settle({ kind: "answered", outputs: own, batchedRows: rows });
      });
      count.answered += batch.length;
    } catch (error) {
      if (batch.length > 1) {
        // Their inputs were copied into the shared ones.
        for (const one of batch) await runBatch([one], one.rows);
        return;
      }
      const message = error instanceof Error ? error.message : String(error);
      for (const { settle } of batch) settle({ kind: "failed", message });
      count.failed += batch.length;
    }
    count.runs += 1;
    count.rows += rows;
    count.runMs += ports.nowMs() - fromMs;
  };

  return {
    submit: (inputs, gone) =>
      new Promise((resolve) => {
        if (isClosed) {
          resolve({ kind: "closed" });
          return;
        }
        if (gone?.aborted === true) {
          resolve({ kind: "gone" });
          return;
        }
        if (line.length >= options.maxQueue) {
          count.turnedAway += 1;
          const meanMs = count.runs === 0 ? options.windowMs : count.runMs / count.runs;
          const batches = line.length / options.maxBatch / options.maxRuns;
          resolve({ kind: "full", retryAfterMs: Math.ceil(batches * meanMs) });
          return;
        }
        const shapes = [...inputs].map(([, { shape }]) => shape);
        const rows = options.maxBatch > 1 ? (shapes[0]?.[0] ?? 1) : 1;
        const onGone = (): void => {
          const at = line.indexOf(waiting);
          if (at === -1) return;
          line.splice(at, 1);
          waiting.settle({ kind: "gone" });
          dispatch();
        };
        const waiting: Waiting = {
          ...{ inputs, rows, form: formOf(inputs), sinceMs: ports.nowMs() },
          settle: (answer) => {
            gone?.removeEventListener("abort", onGone);
            resolve(answer);
          },
        };
        gone?.addEventListener("abort", onGone, { once: true });
        line.push(waiting);
        dispatch();
      }),
    counts: () => ({ ...count, waiting: line.length, running }),
    close: () =>
      new Promise((resolve) => {
        isClosed = true;
        whenEmpty = resolve;
        dispatch();
      }),
  };
}

/** The first request and the later ones that fit into its batch; the first alone may be larger than a batch. */
function nextBatch(line: readonly Waiting[], maxBatch: number): readonly Waiting[] {
  const [first] = line;
  if (first === undefined) return [];
  const batch = [first];
  let rows = first.rows;
  for (const other of line.slice(1)) {
    if (other.form !== first.form || rows + other.rows > maxBatch) break;
    batch.push(other);
    rows += other.rows;
  }
  return batch;
}

const rowsOf = (batch: readonly Waiting[]): number =>
  batch.reduce((sum, { rows }) => sum + rows, 0);

const formOf = (inputs: Tensors): string =>
  [...inputs]
    .map(([name, { type, shape }]) => `${name}:${type}:${shape.slice(1).join("x")}`)
    .join();

function joined(batch: readonly Waiting[]): Tensors {
  const [first] = batch;
  if (first === undefined || batch.length === 1) return first?.inputs ?? new Map();
  return new Map(
    [...first.inputs.keys()].flatMap((name) => {
      const rows = joinedRows(batch.flatMap(({ inputs }) => inputs.get(name) ?? []));
      return rows === undefined ? [] : [[name, rows] as const];
    }),
  );
}

function parted(answers: Tensors, batch: readonly Waiting[]): readonly Tensors[] {
  if (batch.length === 1) return [answers];
  const counts = batch.map(({ rows }) => rows);
  const pieces = [...answers].map(([name, tensor]) => [name, partedRows(tensor, counts)] as const);
  return batch.map(
    (_, index) =>
      new Map(
        pieces.flatMap(([name, each]) => {
          const piece = each[index];
          return piece === undefined ? [] : [[name, piece] as const];
        }),
      ),
  );
}
