/** @file `bench live`, part by part; each brings what it needs and takes it away again, so the parts do not disturb each other. */

import { startFloor } from "../floor/floor.ts";
import { measureIdle } from "../idle/idle.ts";
import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import type { LivePart } from "../live.ts";
import { measureArray } from "./array.ts";
import { measureBurst } from "./burst.ts";
import { measureCycle } from "./cycle.ts";
import { measureCommand } from "./command.ts";
import { BENCH_FLEET } from "./fleet.ts";
import { measureGranted } from "./granted.ts";
import { measureJobs } from "./jobs.ts";
import { measureSigned } from "./signed.ts";
import { measureShown } from "./shown.ts";
import { openQuietFleet } from "./world.ts";
import { measureZero } from "./zero.ts";

const ON_ONE_WORLD: readonly LivePart[] = ["granted", "signed", "jobs", "array", "command"];

export async function runLive(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = new Set(request.chosen("only"));
  const isChosen = (part: LivePart): boolean => chosen.has(part);
  const bars: Bar[] = [];
  const details: Record<string, unknown> = {};
  if (ON_ONE_WORLD.some(isChosen)) {
    request.say("starting a server, workers and an agent");
    const world = await openQuietFleet({ request }, BENCH_FLEET);
    try {
      if (isChosen("granted") || isChosen("jobs")) {
        const floor = await startFloor(world);
        if (isChosen("granted")) {
          const granted = await measureGranted(world, floor, request);
          bars.push(...granted.bars);
          details["granted"] = granted.details;
        }
        if (isChosen("jobs")) {
          const jobs = await measureJobs(world, floor, request);
          bars.push(...jobs.bars);
          details["jobs"] = jobs.details;
        }
      }
      if (isChosen("signed")) {
        const signed = await measureSigned(world, request);
        bars.push(...signed.bars);
        details["signed"] = signed.details;
      }
      if (isChosen("array")) {
        const array = await measureArray(world, request);
        bars.push(...array.bars);
        if (array.details !== undefined) details["array"] = array.details;
      }
      // Last, because its jobs go on waiting.
      if (isChosen("command")) bars.push(...(await measureCommand(world, request)));
    } finally {
      await world.stop();
    }
  }
  if (isChosen("burst")) {
    request.say("burst: starting a server, workers and an agent");
    const world = await openQuietFleet({ request }, BENCH_FLEET);
    try {
      const burst = await measureBurst(world, request);
      bars.push(...burst.bars);
      details["burst"] = burst.details;
    } finally {
      await world.stop();
    }
  }
  if (isChosen("shown")) {
    const shown = await measureShown(request);
    bars.push(...shown.bars);
    details["shown"] = shown.details;
  }
  if (isChosen("cycle")) bars.push(...(await measureCycle(request)));
  if (isChosen("idle")) {
    const idle = await measureIdle(request);
    bars.push(...idle.bars);
    details["idleCallsPerSecond"] = idle.details;
  }
  if (isChosen("zero")) {
    const zero = await measureZero(request);
    bars.push(...zero.bars);
    details["zero"] = zero.details;
  }
  return { bars, details };
}
