/** @file `bench queue`, part by part. */

import { atLeast, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { QueuePart } from "../queue.ts";
import { figureText } from "../report.ts";
import { measureBursts } from "./bursts.ts";
import { calibrate, calibrationTable } from "./calibrate.ts";
import { compare, CYCLE_INTERVAL_MS, measureDecision, paperWorkload } from "./compare.ts";
import { measureDecisions } from "./decisions.ts";
import { measureDegradation } from "./degradation.ts";
import { ENTRANT_NAMES } from "../../simulator/entrants/entrants.ts";
import { measureEstimates } from "./estimates.ts";
import { figuresOf } from "./figures.ts";
import { FROZEN_MIX } from "../../simulator/entrants/frozen-mix.ts";
import { policyBars, policyTable } from "./policy-bars.ts";
import { measurePlacement } from "./placement.ts";
import { measureSpeed } from "./speed.ts";
import { starvedAfterMs } from "../../simulator/starved-after.ts";
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
  if (isChosen("decisions")) bars.push(...decisionsBars(request));
  if (isChosen("estimates")) bars.push(...(await measureEstimates(request)));
  if (isChosen("speed")) bars.push(...(await measureSpeed(request, request.size("speed-jobs"))));
  if (isChosen("bursts")) {
    const bursts = await measureBursts(request);
    bars.push(...bursts.bars);
    tables.push(...bursts.tables);
    details["bursts"] = bursts.details;
  }
  return { bars, tables, details };
}

/** Requests that wait all the time while decisions are timed. */
const WAITING = 1_000;

function decisionsBars(request: BenchRequest): readonly Bar[] {
  const hosts = request.size("decision-hosts");
  request.say(`decisions: on ${String(hosts)} hosts`);
  const decisions = request.size("decisions");
  const figures = measureDecisions({ seed: request.seed, hosts, decisions, waiting: WAITING });
  const note = `grants a second of events, cycles and plans together on ${String(hosts)} hosts of 8 GPUs with topology; a cycle takes ${figureText(figures.cycleP50Ms)} ms (p50), ${figureText(figures.cycleP99Ms)} ms (p99)`;
  return [
    barOf({
      id: "decisions",
      unit: "/s",
      target: atLeast(1_000),
      got: figures.decisionsPerSecond,
      note,
    }),
    barOf({
      id: "decisions-cpu",
      unit: "/s",
      target: REPORTED,
      got: figures.decisionsPerCpuSecond,
      note: "the same a second of processor time; far above the other, the machine is busy",
    }),
  ];
}
