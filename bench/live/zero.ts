/**
 * @file Scale to zero: how a fleet without any control process wakes, as `bench/scale-to-zero.ts` measures it.
 *
 * That file is looked for when the part runs, so a build without workers on demand says so in place of not building.
 */

import { existsSync } from "node:fs";
import { atMost, exactly, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";

const FILE = new URL("../scale-to-zero.js", import.meta.url);

const FIGURES = [
  { id: "wake-p50", unit: "ms", wish: atMost(2_000) },
  { id: "wake-p99", unit: "ms", wish: atMost(5_000) },
  { id: "quiet-processes", unit: "", wish: exactly(0) },
  { id: "wake-ups", unit: "1/h", wish: REPORTED },
] as const;

export async function measureZero(request: BenchRequest): Promise<readonly Bar[]> {
  if (!existsSync(FILE)) {
    return FIGURES.map((figure) => unmeasured(figure, "this build has no workers on demand"));
  }
  const module = (await import(FILE.href)) as Readonly<Record<string, unknown>>; // a module namespace is such a record
  const measure = module["measureScaleToZero"];
  if (typeof measure !== "function") throw new Error(`${FILE.href} has no measureScaleToZero`);
  // The one function of that file, written for this call.
  const answer = (await measure(request)) as BenchAnswer | readonly Bar[];
  return "bars" in answer ? answer.bars : answer;
}
