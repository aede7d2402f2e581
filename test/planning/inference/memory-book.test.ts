/** @file What each GPU holds at most, event by event: when results and parameters are freed. */

import { describe, expect, it } from "vitest";
import { allOn, planOf } from "../../../planning/inference/decisions.ts";
import { memoryBook, type MemoryBook } from "../../../planning/inference/memory-book.ts";
import { planningProblem } from "../../../planning/inference/problem.ts";
import { tinyGraph, tinyHost, type TinyOperation } from "./problems.ts";

const MB = 1e6;

interface Case {
  readonly operations: readonly TinyOperation[];
  readonly parameterMB?: readonly number[];
  readonly on: readonly number[];
  readonly landing?: readonly number[];
  readonly resident?: readonly { readonly parameter: number; readonly gpu: number }[];
}

/** MB at the peak of each of two GPUs, after the given events. */
function peaks(
  { operations, parameterMB = [], on, landing = [], resident = [] }: Case,
  events: (book: MemoryBook) => void,
): readonly number[] {
  const graph = tinyGraph(operations, parameterMB);
  const order = operations.map((_, at) => at);
  const problem = planningProblem(graph, tinyHost({ buses: [0, 1] }), { order, resident });
  const decisions = allOn(problem, 0);
  decisions.gpu.set(on);
  decisions.landing.set(landing);
  const book = memoryBook(problem, planOf(problem, decisions), {
    gpuOf: decisions.gpu,
    numberOf: new Map(order.map((at) => [at, at])),
  });
  events(book);
  return book.peakBytes().map((bytes) => bytes / MB);
}

/** A result of 100 MB with a reader on each GPU; each reader hands on 10 MB, which nothing reads. */
const fork: Case = {
  operations: [
    { kernelMs: 1, outputMB: 100 },
    { kernelMs: 1, inputs: [0], outputMB: 10 },
    { kernelMs: 1, inputs: [0], outputMB: 10 },
  ],
  on: [0, 0, 1],
};

/** Memory that another use then takes shows at the peak when nothing was freed before. */
const LATE = 90 * MB;

describe("a result", () => {
  it("is freed at home once it is read there and sent", () => {
    const found = peaks(fork, (book) => {
      book.runs(0, 0);
      book.ran(0, 0);
      book.resultComes(0, 1);
      book.runs(1, 0);
      book.ran(1, 0);
      book.resultSent(0);
      book.hold(0, LATE);
    });
    // 100 and 10 at once; then the 10, which stay, and the 90.
    expect(found).toEqual([110, 100]);
  });

  it("is kept at home while its copy is under way", () => {
    const found = peaks(fork, (book) => {
      book.runs(0, 0);
      book.ran(0, 0);
      book.resultComes(0, 1);
      book.runs(1, 0);
      book.ran(1, 0);
      book.hold(0, LATE);
      book.resultSent(0);
    });
    expect(found).toEqual([200, 100]);
  });

  it("is kept at home while a reader there has not run", () => {
    const found = peaks(fork, (book) => {
      book.runs(0, 0);
      book.resultComes(0, 1);
      book.resultSent(0);
      book.hold(0, LATE);
    });
    expect(found).toEqual([190, 100]);
  });

  it("is freed on another GPU once it is read there", () => {
    const found = peaks(fork, (book) => {
      book.runs(0, 0);
      book.resultComes(0, 1);
      book.resultSent(0);
      book.runs(2, 1);
      book.ran(2, 1);
      book.hold(1, LATE);
    });
    expect(found).toEqual([100, 110]);
  });

  it("is freed once, and the end of a model never", () => {
    const chain = { operations: fork.operations.slice(0, 2), on: [0, 0] };
    const found = peaks(chain, (book) => {
      book.runs(0, 0);
      book.ran(0, 0);
      book.runs(1, 0);
      book.ran(1, 0);
      book.hold(0, 105 * MB);
    });
    expect(found).toEqual([115, 0]);
  });
});

describe("a parameter", () => {
  const landed = { parameterMB: [20], landing: [0] };
  const through = (book: MemoryBook): void => {
    book.hold(0, 20 * MB);
    book.hold(1, 20 * MB);
    book.forwarded(0, 0);
    book.hold(0, 15 * MB);
  };

  it("that only passes through a GPU is freed there", () => {
    const operations = [{ kernelMs: 1, parameters: [0] }];
    expect(peaks({ ...landed, operations, on: [1] }, through)).toEqual([20, 20]);
  });

  it("that is read where it landed stays there", () => {
    const operations = [0, 1].map(() => ({ kernelMs: 1, parameters: [0] }));
    expect(peaks({ ...landed, operations, on: [1, 0] }, through)).toEqual([35, 20]);
  });

  it("that was there before the run counts from its start", () => {
    const operations = [{ kernelMs: 1, parameters: [0] }];
    const resident = [{ parameter: 0, gpu: 1 }];
    expect(peaks({ ...landed, operations, on: [1], resident }, () => undefined)).toEqual([0, 20]);
  });
});
