/**
 * @file Plays a service of a language model under bursts, and holds it against its times and against the least GPU time that any count of replicas needs.
 *
 * Least: all slots of every replica in use all the time, requests ÷ the rate of a replica with all slots in use. No hindsight does better within TPOT,
 * and none reaches it, because replicas start, and requests come at random.
 */

import type { ServiceGoal } from "../../domain/model/engine-names.ts";
import { modelPreset } from "../../domain/model/model-presets.ts";
import { planServing } from "../../planning/serving/plan-serving.ts";
import { replicaTerms } from "../../planning/serving/replica-terms.ts";
import { servingSite } from "../../planning/serving/serving-site.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { atLeast, atMost, barOf, REPORTED } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { mean } from "../statistics.ts";
import { bursts } from "./bursts.ts";
import { playService } from "./played-service.ts";

const MODEL = "llama-3-8b";
const FLEET_GPUS = 64;
/** Of the fleet's GPUs that the service needs in the mean. */
const SHARES = [0.1, 0.2, 0.3];
const SEEDS_OF_EACH = 3;
const FLEET = `
name: bench
clusters:
  - { name: a, site: here, jurisdiction: EU, simulated: true, hosts: [{ name: h1, gpus: 1, type: H100 }] }
`;

export async function runReplicas(request: BenchRequest): Promise<BenchAnswer> {
  const { size, seed, say, interrupted } = request;
  const goal: ServiceGoal = {
    ttftMs: size("ttft"),
    tpotMs: size("tpot"),
    ...{ promptTokens: 1_024, outputTokens: 256, contextTokens: 8_192 },
  };
  const plan = planned(goal);
  const terms = replicaTerms(plan);
  const { ratePerS = NaN } = terms;
  const rows: Row[] = [];
  for (const share of SHARES)
    for (let each = 0; each < SEEDS_OF_EACH; each += 1) {
      interrupted.throwIfAborted();
      // Lets Ctrl-C in.
      await new Promise((resolve) => setImmediate(resolve));
      const arrivalsMs = bursts(share * FLEET_GPUS * plan.ratePerS, {
        seconds: size("seconds"),
        seed: seed + each,
      });
      const played = playService({
        ...{ arrivalsMs, terms, startMs: size("start"), most: FLEET_GPUS },
        model: { replica: plan.split.replica, goal },
      });
      const leastS = arrivalsMs.length / ratePerS;
      rows.push({ share, seed: seed + each, ...played, ratio: played.replicaS / leastS });
      say(`${percent(share)} of ${FLEET_GPUS} GPUs, seed ${seed + each}: ${percent(played.kept)}`);
    }
  const note = `${MODEL} on one H100 a replica, ${terms.slots} requests at once, up ${size("start")} ms after it is wanted; ${rows.length} plays of ${size("seconds")} s`;
  return {
    bars: [
      barOf({
        id: "answers-within-ttft-and-tpot",
        unit: "%",
        target: atLeast(99),
        got: 100 * Math.min(...rows.map(({ kept }) => kept)),
        note: `${note}; the worst play`,
      }),
      barOf({
        id: "gpu-time-over-the-fewest-in-hindsight",
        unit: "×",
        target: atMost(1.15),
        got: mean(rows.map(({ ratio }) => ratio)),
        note: "the fewest: a bound, all slots in use all the time; mean over the plays",
      }),
      barOf({
        id: "gpu-time-over-the-fewest-worst-play",
        unit: "×",
        target: REPORTED,
        got: Math.max(...rows.map(({ ratio }) => ratio)),
      }),
    ],
    tables: [
      {
        title: "a service under bursts",
        columns: ["GPUs in the mean, seed", "in time", "GPU time ÷ least", "most replicas"],
        rows: rows.map(({ share, seed: of, kept, ratio, most }) => [
          `${percent(share)}, ${String(of)}`,
          percent(kept, 2),
          ratio.toFixed(3),
          String(most),
        ]),
      },
    ],
  };
}

interface Row {
  readonly share: number;
  readonly seed: number;
  readonly kept: number;
  readonly ratio: number;
  readonly most: number;
}

const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)} %`;

function noFile(): never {
  throw new Error("the bench's fleet names no files");
}

function planned(goal: ServiceGoal) {
  const named = modelPreset(MODEL);
  const fleet = parseFleetYaml(FLEET, { file: "bench", read: noFile });
  if (named === undefined || fleet.kind === "refused") throw new Error("the bench's own input");
  const [name, shape] = named;
  const site = servingSite(fleetSite([{ host: parseHostId("a/h1"), mask: 1 }], fleet.fleet.shape));
  if (site.kind === "blocked") throw new Error(site.message);
  const answer = planServing({ name, shape, site: site.site, goal });
  if (answer.kind === "blocked") throw new Error(answer.message);
  return answer.plan;
}
