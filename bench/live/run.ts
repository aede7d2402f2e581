/** @file `bench live`, part by part; each brings what it needs and takes it away again, so the parts do not disturb each other. */

import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import type { LivePart } from "../live.ts";
import { measureCycle } from "./cycle.ts";

export async function runLive(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = new Set(request.chosen("only"));
  const isChosen = (part: LivePart): boolean => chosen.has(part);
  const bars: Bar[] = [];
  if (isChosen("cycle")) bars.push(...(await measureCycle(request)));
  return { bars };
}
