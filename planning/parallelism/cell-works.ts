/**
 * @file What each cell works on a micro-batch: compute by FLOPs at `MODEL_FLOP_SHARE` of the peak, 3 × forward (4 with recomputation), and the all-reduces within layers of tensor
 * parallelism. Cost: O(runs × hosts that differ from the one before).
 */

import { groupOf } from "./expert-exchange.ts";
import { MODEL_FLOP_SHARE } from "./models.ts";
import type { PlanHost, PlanSite } from "./site.ts";
import {
  boundsOf,
  expertDegree,
  range,
  runCount,
  samplesOf,
  type LayerSums,
  type Split,
} from "./split.ts";

interface WorkSetting {
  readonly site: PlanSite;
  readonly sums: LayerSums;
}

/** Of a micro-batch, without sends: compute and all-reduces of both ways, and what of them is forward. */
export interface CellWork {
  readonly compute: number;
  readonly tensor: number;
  readonly forward: number;
}

export const NO_WORK: CellWork = { compute: 0, tensor: 0, forward: 0 };

/** By run × replicas + replica. Replicas that share out experts wait for one another in every layer. */
export function worksOf(split: Split, { site, sums }: WorkSetting): readonly CellWork[] {
  const { hosts } = site;
  const count = split.stages * split.replicas;
  const works: CellWork[] = [];
  for (let run = 0; run < runCount(split); run += 1) {
    let [last, work]: [PlanHost | undefined, CellWork] = [undefined, NO_WORK];
    for (let replica = 0; replica < split.replicas; replica += 1) {
      const at = run * split.replicas + replica;
      const host = hosts[split.cells[at % count]?.host ?? -1];
      // Most hosts work as the one before does.
      if (last === undefined || host === undefined || !isAlike(host, last))
        work = host === undefined ? NO_WORK : cellWork(split, { run, host, sums });
      last = host;
      works.push(work);
    }
  }
  if (expertDegree(split) === 1) return works;
  for (let first = 0; first < works.length; first += expertDegree(split)) {
    const group = groupOf(split, first);
    const slowest = group.reduce((most, peer) => {
      const other = works[peer] ?? most;
      return other.compute + other.tensor > most.compute + most.tensor ? other : most;
    }, works[first] ?? NO_WORK);
    for (const peer of group) works[peer] = slowest;
  }
  return works;
}

const isAlike = (a: PlanHost, b: PlanHost): boolean =>
  a.teraflops === b.teraflops &&
  a.inside.gbs === b.inside.gbs &&
  a.inside.latencyMs === b.inside.latencyMs;

function cellWork(split: Split, of: RunOnHost): CellWork {
  const tensor = tensorMs(split, of);
  // One pass of compute, and one of two or three rounds of all-reduces.
  const forward = passComputeMs(split, of) + tensor / (split.isRecomputing ? 3 : 2);
  return { compute: computeMs(split, of), tensor, forward };
}

interface RunOnHost {
  readonly sums: LayerSums;
  readonly run: number;
  readonly host: PlanHost;
}

/** Of a micro-batch, forward. */
function passComputeMs(split: Split, { sums, run, host }: RunOnHost): number {
  const [from, to] = boundsOf(split, run);
  const flops = range(sums.flops, from, to) * samplesOf(split);
  return flops / (split.width * host.teraflops * MODEL_FLOP_SHARE * 1e9);
}

function computeMs(split: Split, { sums, run, host }: RunOnHost): number {
  const [from, to] = boundsOf(split, run);
  const passes = split.isRecomputing ? 4 : 3;
  const again = split.isRecomputingScores === true ? range(sums.scoreFlops, from, to) : 0;
  const flops = (passes * range(sums.flops, from, to) + again) * samplesOf(split);
  return flops / (split.width * host.teraflops * MODEL_FLOP_SHARE * 1e9);
}

/** Forward and backward each all-reduce the output of each part of a layer; so does a second forward. */
function tensorMs(split: Split, { sums, run, host }: RunOnHost): number {
  const { width } = split;
  if (width === 1) return 0;
  const [from, to] = boundsOf(split, run);
  const passes = split.isRecomputing ? 3 : 2;
  const bytes = passes * range(sums.syncBytes, from, to) * samplesOf(split);
  const calls = passes * 2 * (to - from);
  const { gbs, latencyMs } = host.inside;
  return (2 * (width - 1) * bytes) / width / (gbs * 1e6) + calls * (width - 1) * latencyMs;
}
