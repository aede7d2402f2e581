/**
 * @file Where the time of a pick goes, by size of request: the paper's figure 8.
 *
 * Each search picks in the same states of the measured cluster, by a model that was just opened, so that no search profits from what
 * another asked before. `prediction` is what the paper's hybrid search spends in the model. Processor time, mean over the states.
 */

import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom } from "../../lib/random.ts";
import { openSyncPredictor } from "../../models/bandwidth/surrogate.ts";
import { eha } from "../../scheduling/pick/balanced.ts";
import { hybrid } from "../rivals/pick/hybrid.ts";
import { pts } from "../rivals/pick/pruned-tree.ts";
import { appraised } from "../../scheduling/pick/search.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import { mean } from "../statistics.ts";
import { scenariosOf } from "./scenarios.ts";
import { modelFor, stopwatch, type Setting } from "./speed.ts";

export interface SearchTimes {
  readonly gpus: number;
  readonly oursMs: number;
  readonly ehaMs: number;
  readonly ptsMs: number;
  readonly hybridMs: number;
  readonly predictionMs: number;
}

const EACH = 3;

export async function measureSearchTimes(setting: Setting): Promise<readonly SearchTimes[]> {
  const { request, truth } = setting;
  request.say("pick: where the time of a pick goes");
  const model = await modelFor(setting);
  const sizes = { smallest: 1, largest: request.size("largest"), each: EACH };
  const scenarios = scenariosOf(truth.domain, sizes, randomFrom(request.seed, "search times"));
  const times = scenarios.map(({ gpus, freeMasks }) => {
    let predictionMs = 0;
    const timedBy = (search: typeof searchPick): number => {
      const inner = openSyncPredictor(model, truth.domain);
      predictionMs = 0;
      const predictor: BandwidthPredictor = {
        ...inner,
        appraise: (candidates) => {
          const time = stopwatch();
          const answers = appraised(inner, candidates);
          predictionMs += time().cpuMs;
          return answers;
        },
      };
      const time = stopwatch();
      search({ predictor, gpus, freeMasks });
      return time().cpuMs;
    };
    const oursMs = timedBy(searchPick);
    const ehaMs = timedBy(eha);
    const ptsMs = timedBy(pts);
    const hybridMs = timedBy(hybrid);
    return { gpus, oursMs, ehaMs, ptsMs, hybridMs, predictionMs };
  });
  return [...new Set(times.map(({ gpus }) => gpus))].map((gpus) => {
    const own = times.filter((each) => each.gpus === gpus);
    const of = (what: Exclude<keyof SearchTimes, "gpus">): number =>
      mean(own.map((each) => each[what]));
    return {
      gpus,
      oursMs: of("oursMs"),
      ehaMs: of("ehaMs"),
      ptsMs: of("ptsMs"),
      hybridMs: of("hybridMs"),
      predictionMs: of("predictionMs"),
    };
  });
}
