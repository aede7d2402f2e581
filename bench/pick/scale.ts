/**
 * @file Picks among 1,798 GPUs: time, and the predicted bandwidth beside that of EHA and Topo.
 *
 * One domain of 224 hosts of 8 GPUs and one of 6, with the measured tables of the H100 hosts in turn; the model is the one of the measured
 * cluster. 50 to 95 % of the GPUs are taken, any of them in half of the states, whole hosts first in the others; requests from 1 to
 * 1,000 GPUs, even on a logarithmic scale, as far as so many are free. EHA by the same model: its first candidates, as many as our
 * search gives it, because the paper's "combinations of m hosts" are beyond counting here; with a hundred times that it is
 * reported beside. What is compared is what a pick counts: the prediction, or a little less of what nothing measured is like.
 */

import { hostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { BandwidthDomain } from "../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom, shuffled, type Random } from "../../lib/random.ts";
import { openSyncPredictor } from "../../models/bandwidth/surrogate.ts";
import { eha } from "../../scheduling/pick/balanced.ts";
import { appraised } from "../../scheduling/pick/search.ts";
import { EHA_SHARE, searchPick, usualBudget } from "../../scheduling/pick/search-pick.ts";
import { atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import { quantile } from "../statistics.ts";
import { readLinks } from "./links.ts";
import { topo } from "./rivals.ts";
import { gpusOf } from "./scenarios.ts";
import { modelFor, stopwatch, type Setting } from "./speed.ts";
import type { Truth } from "./truth.ts";

const FULL_HOSTS = 224;
const REST_GPUS = 6;
const WARM_UP = 20;
const MOST_GPUS = 1_000;
/** Of the 1,000 picks so many also face an EHA with a hundred times the candidates. */
const WIDE_EVERY = 10;

export async function measureScale(setting: Setting): Promise<readonly Bar[]> {
  const { request, truth } = setting;
  request.say("pick: picks among 1,798 GPUs");
  const { seed } = request;
  const domain = largeDomain(truth);
  const predictor = openSyncPredictor(await modelFor(setting), domain, { version: "ours" });
  const dispatchTopo = topo(domain, readLinks());
  const budget = usualBudget(domain.hosts.length);
  const random = randomFrom(seed, "scale");
  const cpuMs: number[] = [];
  const wallMs: number[] = [];
  const gains: number[] = [];
  let below = 0;
  let belowWide = 0;
  let wide = 0;
  for (let at = 0; at < request.size("decisions") + WARM_UP; at += 1) {
    const scenario = stateOf(domain, random.stream(`state ${String(at)}`), at % 2 === 0);
    const { gpus, freeMasks } = scenario;
    const compact = dispatchTopo({ ...scenario, isForced: false });
    const time = stopwatch();
    const found = searchPick({ predictor, gpus, freeMasks, also: [compact] });
    const took = time();
    if (at < WARM_UP || found === undefined || gpus === 1) continue;
    cpuMs.push(took.cpuMs);
    wallMs.push(took.wallMs);
    const [{ countedGbs: compactGbs } = { countedGbs: 0 }] = appraised(predictor, [compact]);
    const ofEha = eha({ predictor, gpus, freeMasks }, { work: budget.work * EHA_SHARE });
    const rival = Math.max(compactGbs, ofEha?.score ?? 0);
    if (found.score < rival) below += 1;
    gains.push(found.score / rival);
    if (at % WIDE_EVERY !== 0) continue;
    wide += 1;
    const widely = eha({ predictor, gpus, freeMasks }, { work: 100 * budget.work * EHA_SHARE });
    if (found.score < (widely?.score ?? 0)) belowWide += 1;
  }
  const note = `p50 ${quantile(cpuMs, 0.5).toFixed(1)}; wall p50 ${quantile(wallMs, 0.5).toFixed(1)}, p99 ${quantile(wallMs, 0.99).toFixed(1)} ms`;
  const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length;
  return [
    barOf({
      id: "pick p99 1,798 GPUs",
      unit: "ms CPU",
      target: atMost(50),
      got: quantile(cpuMs, 0.99),
      note,
    }),
    barOf({
      id: "predicted below EHA or Topo",
      unit: "picks",
      target: exactly(0),
      got: below,
      note: "EHA cut off to as many first candidates as our search gives it; all of them are beyond counting",
    }),
    barOf({
      id: "below EHA with 100 × the candidates",
      unit: "% of picks",
      target: REPORTED,
      got: wide === 0 ? NaN : (100 * belowWide) / wide,
    }),
    barOf({ id: "predicted over EHA and Topo", unit: "×", target: REPORTED, got: mean }),
  ];
}

function largeDomain({ domain }: Truth): BandwidthDomain {
  const tables = domain.hosts.length;
  const hosts = Array.from({ length: FULL_HOSTS + 1 }, (_, at) => ({
    id: hostId("large", `h${String(at).padStart(4, "0")}`),
    gpuCount: at < FULL_HOSTS ? (domain.hosts[at % tables]?.gpuCount ?? 8) : REST_GPUS,
    gpuType: domain.hosts[at % tables]?.gpuType ?? "",
  }));
  return { hosts, intraGbs: (host, mask) => domain.intraGbs(host % tables, mask) };
}

function stateOf(
  domain: BandwidthDomain,
  random: Random,
  isScattered: boolean,
): { readonly gpus: number; readonly freeMasks: readonly number[] } {
  const all = gpusOf(domain);
  const free = Math.round(all.length * (0.05 + 0.45 * random.unit()));
  const hosts = new Map(shuffled([...domain.hosts.keys()], random).map((host, at) => [host, at]));
  const order = isScattered
    ? shuffled(all, random)
    : [...all].sort((a, b) => (hosts.get(a.host) ?? 0) - (hosts.get(b.host) ?? 0) || a.bit - b.bit);
  const freeMasks = domain.hosts.map(() => 0);
  for (const { host, bit } of order.slice(0, free)) freeMasks[host] = (freeMasks[host] ?? 0) | bit;
  const most = Math.min(
    MOST_GPUS,
    freeMasks.reduce((sum, mask) => sum + popCount(mask), 0),
  );
  return { gpus: Math.max(1, Math.floor(Math.exp(Math.log(most + 1) * random.unit()))), freeMasks };
}
