/**
 * @file A time below which no played step of a split is, so that splits can be left out unplayed.
 *
 * The most of two. What crosses a link in a step ÷ its rate: sends, exchanges, keys and values, and the rings of gradients. And of each stage in each pipeline: the first micro-batch comes
 * to it, it works and sends for all of them, and the last one goes back; or its first backward comes from behind, when it has done the forwards ahead; then the gradients of the first stage
 * go around. Each transfer as if it were alone on its links. Cost: O(cells + links), and once for a list of cells O(cells × links of a way).
 */

import { worksOf, NO_WORK } from "./cell-works.ts";
import { contextBytes, contextCalls, contextEdges, contextRing } from "./context-ring.ts";
import { exchangeBytes, exchangeCalls, groupOf } from "./expert-exchange.ts";
import { ringBytes } from "./framework.ts";
import { ringOf } from "./gradient-rings.ts";
import { keptOfCells } from "./kept-of-cells.ts";
import { eachLink, linksOf, type SiteLinks } from "./site-links.ts";
import { MODEL_FLOP_SHARE } from "./models.ts";
import type { PlanSite } from "./site.ts";
import {
  boundsOf,
  contextDegree,
  expertDegree,
  range,
  runCount,
  samplesOf,
  sharedExperts,
  stageParameters,
  type LayerSums,
  type Split,
} from "./split.ts";
import type { OpenSplit } from "./stage-bounds.ts";
import { measuredFactor, updateTime, type StepSetting } from "./step-time.ts";

/** A transfer alone: milliseconds a byte, and latency. */
interface Alone {
  readonly msPerByte: number;
  readonly latencyMs: number;
}

/** How often each of some links is crossed. */
type Crossings = readonly (readonly [link: number, times: number])[];

interface OfCells {
  /** By cell: to the next stage, and to the one before. */
  readonly ahead: readonly Alone[];
  readonly back: readonly Alone[];
  /** By cell: what it sends to each of its group, and the ring of its context. */
  readonly experts: readonly Alone[];
  readonly rings: readonly Alone[];
  /** Of the sends of a micro-batch between neighbouring stages, both ways, and of those from the last stage to the first. */
  readonly sends: Crossings;
  readonly round: Crossings;
  /** By stage, in one pass of a micro-batch, and of the ring of gradients. */
  readonly exchanges: readonly Crossings[];
  readonly contexts: readonly Crossings[];
  readonly gradients: readonly Crossings[];
}

const kept = keptOfCells<OfCells>();
const AT_ONCE: Alone = { msPerByte: 0, latencyMs: 0 };
const NOTHING = { forward: 0, backward: 0 };

export function stepFloorMs(split: Split, setting: StepSetting): number {
  const { stages } = split;
  const { site, sums } = setting;
  const of = cellsOf(split, site);
  const rings = Array.from({ length: stages }, (_, stage) => ringOfStage(split, stage, sums));
  const flowsMs = Math.max(
    linksMs(split, { of, rings, setting }),
    pipelinesMs(split, { of, rings, setting }),
  );
  return measuredFactor(split, site) * (flowsMs + updateTime(split, sums));
}

function cellsOf(split: OpenSplit, site: PlanSite): OfCells {
  const { stages, replicas, width, experts = 1, contexts = 1 } = split;
  const key = `${stages}/${replicas}/${width}/${experts}/${contexts}`;
  return kept({ site, cells: split.cells, key }, () => readCells(split, site));
}

/**
 * The same whatever the layers of its stages and their number of runs: all that is sent between stages ÷ rates, and in each pipeline, where s is a stage's speed and b what it sends of a
 * micro-batch, m (F + Σ s b) ÷ Σ s, because no stage works longer than the step. With one run a stage also T ÷ (1 − (1 − 1/m)^p) where all work of a micro-batch
 * takes T on the fastest host, because a stage works for all m of them after the first has passed those before it.
 */
export function openFloorMs(
  split: OpenSplit,
  { site, sums }: StepSetting,
): { readonly anyRuns: number; readonly oneRun: number } {
  const { stages, replicas, microBatches, cells, width } = split;
  const of = cellsOf(split, site);
  const links = linksOf(site);
  const samples = samplesOf(split);
  const sent = stages === 1 ? 0 : leastOutput(sums) * samples;
  let sendsMs = 0;
  for (const [link, times] of of.sends)
    sendsMs = Math.max(sendsMs, (microBatches * times * sent) / ((links.gbs[link] ?? 0) * 1e6));
  const flops = (split.isRecomputing ? 4 : 3) * (sums.flops.at(-1) ?? 0) * samples;
  let [anyRuns, fastest] = [sendsMs, 0];
  for (let replica = 0; replica < replicas; replica += 1) {
    let [speeds, waits] = [0, 0];
    for (let stage = 0; stage < stages; stage += 1) {
      const cell = stage * replicas + replica;
      const { teraflops = 0 } = site.hosts[cells[cell]?.host ?? -1] ?? {};
      const speed = width * teraflops * MODEL_FLOP_SHARE * 1e9;
      const ahead = stage + 1 === stages ? 0 : timeOf(of.ahead[cell] ?? AT_ONCE, sent);
      const back = stage === 0 ? 0 : timeOf(of.back[cell] ?? AT_ONCE, sent);
      speeds += speed;
      waits += speed * (ahead + back);
      fastest = Math.max(fastest, speed);
    }
    anyRuns = Math.max(anyRuns, (microBatches * (flops + waits)) / speeds);
  }
  const filledMs = flops / fastest / -Math.expm1(stages * Math.log1p(-1 / microBatches));
  const factor = Math.min(1, ...(site.measured?.values() ?? []));
  return { anyRuns: factor * anyRuns, oneRun: factor * Math.max(anyRuns, filledMs) };
}

/** Of a sample, behind any layer but the last. */
function leastOutput({ outputs }: LayerSums): number {
  let least = Infinity;
  for (let layer = 1; layer + 1 < outputs.length; layer += 1)
    least = Math.min(least, range(outputs, layer - 1, layer));
  return least === Infinity ? 0 : least;
}

interface Known {
  readonly of: OfCells;
  /** Bytes over an edge of each stage's ring of gradients, but for experts. */
  readonly rings: readonly number[];
  readonly setting: StepSetting;
}

const ringOfStage = (split: Split, stage: number, sums: LayerSums): number =>
  ((split.replicas - 1) / split.replicas) *
  ringBytes(split, sums.framework) *
  (stageParameters(split, stage, sums) - sharedExperts(split, stage, sums));

function linksMs(split: Split, { of, rings, setting: { site, sums } }: Known): number {
  const { stages, microBatches, runs = 1 } = split;
  const links = linksOf(site);
  const busyMs = new Float64Array(links.count);
  const carry = (crossings: Crossings, bytes: number): void => {
    for (const [link, times] of crossings)
      busyMs[link] = (busyMs[link] ?? 0) + (times * bytes) / ((links.gbs[link] ?? 0) * 1e6);
  };
  const sent = leastSent(split, sums) * microBatches;
  carry(of.sends, runs * sent);
  carry(of.round, (runs - 1) * sent);
  for (let stage = 0; stage < stages; stage += 1) {
    carry(of.gradients[stage] ?? [], rings[stage] ?? 0);
    for (let run = stage; run < runCount(split); run += stages) {
      const tokens = expertDegree(split) === 1 ? NOTHING : exchangeBytes(split, run, sums);
      carry(of.exchanges[stage] ?? [], microBatches * (tokens.forward + tokens.backward));
      const keyValues = contextDegree(split) === 1 ? NOTHING : contextBytes(split, run, sums);
      carry(of.contexts[stage] ?? [], microBatches * (keyValues.forward + keyValues.backward));
    }
  }
  let most = 0;
  for (const ms of busyMs) most = Math.max(most, ms);
  return most;
}

/** Of a micro-batch behind any run but the last. */
function leastSent(split: Split, sums: LayerSums): number {
  let least = Infinity;
  for (let run = 0; run + 1 < runCount(split); run += 1)
    least = Math.min(least, sentBy(split, run, sums));
  return least === Infinity ? 0 : least;
}

function sentBy(split: Split, run: number, { outputs }: LayerSums): number {
  const [, to] = boundsOf(split, run);
  return range(outputs, to - 1, to) * samplesOf(split);
}

function pipelinesMs(split: Split, { of, rings, setting }: Known): number {
  const { stages, replicas, microBatches, runs = 1 } = split;
  const { sums } = setting;
  const works = worksOf(split, setting);
  const count = stages * runs;
  const sent = Array.from({ length: count }, (_, run) => sentBy(split, run, sums));
  const passes = Array.from({ length: count }, (_, run) => passOf(split, run, sums));
  const { gbs } = linksOf(setting.site);
  const ringMs = rings.map((bytes, stage) => {
    let slowest = 0;
    for (const [link, times] of of.gradients[stage] ?? [])
      slowest = Math.max(slowest, times / ((gbs[link] ?? 0) * 1e6));
    return bytes * slowest;
  });
  let most = 0;
  const [forwards, backwards] = [new Float64Array(stages), new Float64Array(stages)];
  const own = new Float64Array(stages);
  for (let replica = 0; replica < replicas; replica += 1) {
    let trip = 0;
    for (let stage = 0; stage < stages; stage += 1) {
      const cell = stage * replicas + replica;
      let all = 0;
      for (let run = stage; run < count; run += stages) {
        const { compute, tensor, forward } = works[run * replicas + replica] ?? NO_WORK;
        const pass = passes[run];
        const exchanged =
          pass === undefined
            ? NOTHING
            : exchangeMs(pass, of.experts[cell] ?? AT_ONCE, of.rings[cell] ?? AT_ONCE);
        const ahead = run + 1 === count ? 0 : timeOf(of.ahead[cell] ?? AT_ONCE, sent[run] ?? 0);
        const back = run === 0 ? 0 : timeOf(of.back[cell] ?? AT_ONCE, sent[run - 1] ?? 0);
        const there = forward + exchanged.forward + ahead;
        const again = compute + tensor - forward + exchanged.backward + back;
        if (run === stage) {
          forwards[stage] = there;
          backwards[stage] = again;
        }
        all += there + again;
      }
      own[stage] = all;
      trip += (forwards[stage] ?? 0) + (backwards[stage] ?? 0);
    }
    let before = 0;
    let after = 0;
    for (let stage = 0; stage < stages; stage += 1) {
      const [forward, backward] = [forwards[stage] ?? 0, backwards[stage] ?? 0];
      trip -= forward + backward;
      const work = microBatches * (own[stage] ?? 0);
      const ahead = runs > 1 ? 0 : Math.min(microBatches, stages - stage);
      // Until its first backward comes, a stage has done no more than the forwards ahead.
      const waited = runs > 1 ? 0 : Math.max(0, forward + trip - ahead * forward);
      const end = before + work + waited;
      most = Math.max(most, end + after + (ringMs[0] ?? 0), end + (ringMs[stage] ?? 0));
      before += forward;
      after += backward;
    }
  }
  return most;
}

interface PassOf {
  readonly tokens: typeof NOTHING;
  readonly tokenCalls: number;
  readonly keyValues: typeof NOTHING;
  readonly ringCalls: number;
}

function passOf(split: Split, run: number, sums: LayerSums): PassOf | undefined {
  if (expertDegree(split) === 1 && contextDegree(split) === 1) return undefined;
  return {
    tokens: exchangeBytes(split, run, sums),
    tokenCalls: exchangeCalls(split, run, sums),
    keyValues: contextBytes(split, run, sums),
    ringCalls: contextCalls(split, run, sums),
  };
}

function exchangeMs(
  { tokens, tokenCalls, keyValues, ringCalls }: PassOf,
  experts: Alone,
  ring: Alone,
): typeof NOTHING {
  const ms = { forward: 0, backward: 0 };
  for (const [bytes, calls, { msPerByte, latencyMs }] of [
    [tokens, tokenCalls, experts],
    [keyValues, ringCalls, ring],
  ] as const) {
    if (bytes.forward === 0) continue;
    const once = bytes.forward * msPerByte + calls * latencyMs;
    ms.forward += once;
    ms.backward += (once * bytes.backward) / bytes.forward;
  }
  return ms;
}

const timeOf = ({ msPerByte, latencyMs }: Alone, bytes: number): number =>
  bytes * msPerByte + latencyMs;

function readCells(split: OpenSplit, site: PlanSite): OfCells {
  const { cells, stages, replicas, width, experts = 1, contexts = 1 } = split;
  const links = linksOf(site);
  const count = stages * replicas;
  const hostOf = (cell: number): number => cells[(cell + count) % count]?.host ?? -1;
  const alone = (from: number, tos: readonly number[]): Alone => {
    let [msPerByte, latencyMs] = [0, 0];
    const cross = (link: number, times: number): void => {
      msPerByte = Math.max(msPerByte, times / ((links.gbs[link] ?? 0) * 1e6));
      latencyMs = Math.max(latencyMs, links.latencyMs[link] ?? 0);
    };
    const crossed = tos.length > 1 ? new Map<number, number>() : undefined;
    for (const to of tos) {
      if (isInside(from, to)) {
        const { inside } = site.hosts[from] ?? { inside: { gbs: Infinity, latencyMs: 0 } };
        msPerByte = Math.max(msPerByte, 1 / (inside.gbs * width * 1e6));
        latencyMs = Math.max(latencyMs, inside.latencyMs);
      }
      eachLink(links, [from, to], (link) => {
        if (crossed === undefined) cross(link, 1);
        else crossed.set(link, (crossed.get(link) ?? 0) + 1);
      });
    }
    for (const [link, times] of crossed ?? []) cross(link, times);
    return { msPerByte, latencyMs };
  };
  const isInside = (from: number, to: number): boolean => from === to && links.hasBus[from] !== 1;
  const all = Array.from({ length: count }, (_, cell) => cell);
  const [sends, round] = [crossingsOn(links), crossingsOn(links)];
  for (const cell of all) {
    const to = cell + replicas;
    const on = to < count ? sends : round;
    if (stages === 1) continue;
    on.cross(hostOf(cell), hostOf(to));
    on.cross(hostOf(to), hostOf(cell));
  }
  const byStage = <Of>(of: (stage: number) => Of): readonly Of[] =>
    Array.from({ length: stages }, (_, stage) => of(stage));
  const groupEdges = (first: number): readonly (readonly [number, number])[] =>
    contextEdges(contextRing(split, first, site), split, site).map(
      ({ from, to }) => [hostOf(from), hostOf(to)] as const,
    );
  return {
    ahead: all.map((cell) => alone(hostOf(cell), [hostOf(cell + replicas)])),
    back: all.map((cell) => alone(hostOf(cell), [hostOf(cell - replicas)])),
    experts:
      experts === 1
        ? []
        : all.map((cell) =>
            alone(
              hostOf(cell),
              groupOf(split, cell)
                .filter((peer) => peer !== cell)
                .map(hostOf),
            ),
          ),
    rings:
      contexts === 1
        ? []
        : all.map((cell) => {
            const edges = groupEdges(cell - (cell % contexts));
            const each = edges.map(([from, to]) => alone(from, [to]));
            return {
              msPerByte: Math.max(...each.map(({ msPerByte }) => msPerByte)),
              latencyMs: Math.max(...each.map(({ latencyMs }) => latencyMs)),
            };
          }),
    sends: sends.list(),
    round: round.list(),
    exchanges: byStage((stage) => {
      const on = crossingsOn(links);
      for (let cell = stage * replicas; experts > 1 && cell < (stage + 1) * replicas; cell += 1)
        for (const peer of groupOf(split, cell))
          if (peer !== cell) on.cross(hostOf(cell), hostOf(peer));
      return on.list();
    }),
    contexts: byStage((stage) => {
      const on = crossingsOn(links);
      for (
        let first = stage * replicas;
        contexts > 1 && first < (stage + 1) * replicas;
        first += contexts
      )
        for (const [from, to] of groupEdges(first)) on.cross(from, to);
      return on.list();
    }),
    gradients: byStage((stage) => {
      const on = crossingsOn(links);
      if (replicas === 1) return [];
      const { hosts, members } = ringOf(
        cells.slice(stage * replicas, (stage + 1) * replicas),
        site,
        links,
      );
      for (const [at, host] of hosts.entries()) {
        const next = hosts[(at + 1) % hosts.length] ?? host;
        if ((members[at] ?? 0) > 1) on.cross(host, host);
        if (next !== host) on.cross(host, next);
      }
      return on.list();
    }),
  };
}

function crossingsOn(links: SiteLinks): {
  readonly cross: (from: number, to: number) => void;
  readonly list: () => Crossings;
} {
  const times = new Map<number, number>();
  return {
    cross: (from, to) => {
      eachLink(links, [from, to], (link) => {
        times.set(link, (times.get(link) ?? 0) + 1);
      });
    },
    list: () => [...times],
  };
}
