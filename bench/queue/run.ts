/** @file `bench queue`, part by part. */

import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { QueuePart } from "../queue.ts";
import { calibrate, calibrationTable } from "./calibrate.ts";
import { compare, CYCLE_INTERVAL_MS, measureDecision, paperWorkload } from "./compare.ts";
import { measureDegradation } from "./degradation.ts";
import { ENTRANT_NAMES } from "./entrants.ts";
import { figuresOf } from "./figures.ts";
import { FROZEN_MIX } from "./mix.ts";
import { policyBars, policyTable } from "./policy-bars.ts";
import { measurePlacement } from "./placement.ts";
import { measureSpeed } from "./speed.ts";
import { starvedAfterMs } from "./starvation.ts";
import { sweep, sweepTable } from "./sweep.ts";

export async function runQueue(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = new Set(request.chosen("only"));
  const isChosen = (part: QueuePart): boolean => chosen.has(part);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const details: Record<string, unknown> = { mix: FROZEN_MIX };
  const rounds = request.size("calibration-rounds");
  if (rounds > 0) {
    const fits = await calibrate(request, rounds);
    details["calibration"] = fits;
    tables.push(calibrationTable(fits));
  }
  const jobs = request.size("jobs");
  if (isChosen("policies") || isChosen("degradation") || isChosen("sweep")) {
    request.say("decision: how long one takes on this machine");
    const decision = await measureDecision(request, paperWorkload(jobs, request.seed));
    const given = request.size("decision-ms");
    const charged = given > 0 ? given : decision.chargedMs;
    const costs = { decisionMs: charged, cycleIntervalMs: CYCLE_INTERVAL_MS };
    const settings = Array.from({ length: request.size("seeds") }, (_, at) => {
      const seed = request.seed + at;
      const workload = paperWorkload(jobs, seed);
      return { workload, costs, seed, starvedAfterMs: starvedAfterMs(workload) };
    });
    details["decision"] = { ...decision, chargedMs: charged };
    if (isChosen("policies")) {
      const results = await compare(request, ENTRANT_NAMES, settings);
      const compared = {
        results,
        decision: { ...decision, chargedMs: charged },
        liveDelayMs: request.size("live-delay-ms"),
      };
      bars.push(...policyBars(compared));
      tables.push(policyTable(compared));
      details["policies"] = Object.fromEntries(
        [...results].map(([name, list]) => [name, list.map(figuresOf)]),
      );
    }
    if (isChosen("degradation")) {
      const degradation = await measureDegradation(request, settings);
      bars.push(...degradation.bars);
      details["degradation"] = degradation.details;
    }
    if (isChosen("sweep")) {
      const points = await sweep(request, request.size("sweep-jobs"), costs);
      tables.push(sweepTable(points));
      details["sweep"] = points;
    }
  }
  if (isChosen("placement")) {
    const { seed, say, interrupted } = request;
    const placements = request.size("placements");
    bars.push(...(await measurePlacement({ seed, placements, say, interrupted })));
  }
  if (isChosen("speed")) bars.push(await measureSpeed(request, request.size("speed-jobs")));
  return { bars, tables, details };
}
