/**
 * @file The placement policy with prices behind it: of some places that a gang may have, the one where what it trains takes the shortest step.
 *
 * The inner policy chooses the usual place. For a gang whose request says what it trains, it is then asked once more for parts of the free GPUs:
 * each GPU type and cluster that holds the gang; the same with equal numbers of GPUs from each host (layers are split over GPUs of one host, so
 * uneven hosts keep a model from it); two clusters together where neither holds the gang, those with the widest link between them first. At most
 * `MOST_PLACES` different places are priced at once (planning/parallelism/place-price.ts). Another place than the usual one must save `GAIN` of
 * the step, because prices are predictions and the usual place leaves more room to others; a place where the model fits beats one where it does not.
 * Where bandwidths are known, the part that won is searched by them too. That place is priced anew together with the winner and the usual one,
 * since prices of two calls do not compare, and taken where it is no dearer than the winner and saves as much. Without prices (no work
 * is left in this cycle, or nothing can be planned) the usual place stands. Ties: the usual place, then the order above.
 * Cost: the inner policy's for each part, and that of the prices; the inner policy's alone where no work is left.
 * Source: Arnold (NeurIPS 2025) aligns groups of a plan with the fabric.
 */

import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import { bottleneckOf } from "../placement/link-graph.ts";
import type {
  PlaceDemand,
  Placed,
  PlaceHost,
  PlacePolicy,
  PlacePorts,
} from "../placement/place-policy.ts";
import { groundsOf, holds } from "./bandwidth-placement.ts";
import type { Ground } from "./search-ground.ts";

/** The usual one among them. */
const MOST_PLACES = 12;
/** Parts for which the inner policy is asked. */
const MOST_PARTS = 24;
const MOST_PAIRS = 6;
/** Clusters and types of which pairs are made, those with most free GPUs. */
const MOST_PAIRED = 32;
const EVEN_GPUS = [8, 6, 4, 2] as const;
const GAIN = 0.02;

interface Option {
  readonly part: readonly PlaceHost[];
  readonly placed: Placed;
  readonly gpus: readonly HostGpus[];
}

export const withPrices =
  (inner: PlacePolicy): PlacePolicy =>
  (demand, hosts, ports) => {
    const usual = inner(demand, hosts, ports);
    const { training } = demand;
    const { prices } = ports;
    if (usual.gpus === undefined || training === undefined || prices?.hasWork() !== true)
      return usual;
    const { options, candidates } = optionsOf({ demand, hosts, ports, inner }, usual);
    prices.spend(candidates - usual.candidates);
    if (options.length < 2) return { ...usual, candidates };
    const steps = prices.of(
      training,
      options.map(({ gpus }) => gpus),
    );
    const usualMs = steps[0] ?? Infinity;
    let best = 0;
    for (const at of options.keys())
      if ((steps[at] ?? Infinity) < (steps[best] ?? Infinity)) best = at;
    const [option, bestMs] = [options[best], steps[best]];
    if (option === undefined || !isWorthIt(bestMs, usualMs)) return { ...usual, candidates };
    const won = { ...option.placed, candidates, why: whyHere(bestMs, usualMs) };
    if (ports.bandwidth === undefined) return won;
    const searched = inner(demand, option.part, ports);
    const { gpus } = searched;
    if (gpus === undefined) return won;
    if (isSamePlace(gpus, option.gpus)) return { ...searched, candidates, why: won.why };
    if (!prices.hasWork()) return won;
    const [again, wonMs = Infinity, ms] = prices.of(training, [usual.gpus, option.gpus, gpus]);
    // With less work than before, a place without a price may be one that nobody got to.
    const againMs = again ?? (usualMs === Infinity ? Infinity : 0);
    return isWorthIt(ms, againMs) && ms <= wonMs
      ? { ...searched, candidates, why: whyHere(ms, againMs) }
      : won;
  };

const isWorthIt = (stepMs: number | undefined, usualMs: number): stepMs is number =>
  stepMs !== undefined && stepMs <= usualMs * (1 - GAIN);

const isSamePlace = (one: readonly HostGpus[], other: readonly HostGpus[]): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

const whyHere = (bestMs: number, usualMs: number): string =>
  usualMs === Infinity
    ? `the model fits there, ${bestMs.toFixed(0)} ms a step, and not in the most compact place`
    : `its step takes ${bestMs.toFixed(0)} ms there, ${usualMs.toFixed(0)} ms in the most compact place`;

interface Question {
  readonly demand: PlaceDemand;
  readonly hosts: readonly PlaceHost[];
  readonly ports: PlacePorts;
  readonly inner: PlacePolicy;
}

/** The usual place first; each place once. */
function optionsOf(
  { demand, hosts, ports, inner }: Question,
  usual: Placed,
): { readonly options: readonly Option[]; readonly candidates: number } {
  const { bandwidth: _notYet, ...bare } = ports;
  const options: Option[] = [];
  const known = new Set<string>();
  let { candidates } = usual;
  const add = (part: readonly PlaceHost[], placed: Placed): void => {
    const { gpus } = placed;
    const key = JSON.stringify(gpus);
    if (gpus === undefined || known.has(key)) return;
    known.add(key);
    options.push({ part, placed, gpus });
  };
  add(hosts, usual);
  const { parts, pairs } = partsOf(demand, hosts, ports);
  candidates += pairs;
  for (const part of parts.slice(0, MOST_PARTS)) {
    if (options.length >= MOST_PLACES) break;
    const placed = inner(demand, part, bare);
    candidates += placed.candidates;
    add(part, placed);
  }
  return { options, candidates };
}

function partsOf(
  demand: PlaceDemand,
  hosts: readonly PlaceHost[],
  ports: PlacePorts,
): { readonly parts: readonly (readonly PlaceHost[])[]; readonly pairs: number } {
  const grounds = groundsOf(hosts);
  const alone = grounds.filter((ground) => holds(ground, demand)).map((ground) => ground.hosts);
  const small =
    demand.maxClusters < 2 || demand.isSameHost || demand.isSameFabric
      ? []
      : grounds.filter((ground) => !holds(ground, demand));
  const paired = Math.min(MOST_PAIRED, small.length);
  const found = [...alone, ...pairsOf(small, demand, ports)].slice(0, MOST_PARTS);
  const even = found.flatMap((part) => EVEN_GPUS.map((gpus) => evenPart(part, gpus, demand)));
  return {
    parts: [...found, ...even.flatMap((part) => (part === undefined ? [] : [part]))],
    pairs: (paired * (paired - 1)) / 2,
  };
}

/** Two clusters of one GPU type that hold the gang together by count. */
function pairsOf(
  grounds: readonly Ground[],
  demand: PlaceDemand,
  { links }: PlacePorts,
): readonly (readonly PlaceHost[])[] {
  const loaded = links?.loaded();
  const known = grounds
    .flatMap(({ hosts }) => {
      const [first] = hosts;
      const free = hosts.reduce((sum, { freeMask }) => sum + popCount(freeMask), 0);
      return first === undefined ? [] : [{ hosts, free, at: first.at }];
    })
    .sort((a, b) => b.free - a.free || a.at.order - b.at.order)
    .slice(0, MOST_PAIRED)
    .sort((a, b) => a.at.order - b.at.order);
  const pairs = known.flatMap((a, place) =>
    known.slice(place + 1).flatMap((b) => {
      const isPair =
        a.at.gpuType === b.at.gpuType &&
        a.at.cluster !== b.at.cluster &&
        a.free + b.free >= demand.gpus;
      if (!isPair) return [];
      const gbps = loaded === undefined ? 0 : bottleneckOf(loaded, [a.at.cluster, b.at.cluster]);
      return [{ a, b, gbps }];
    }),
  );
  return pairs
    .sort((one, other) => other.gbps - one.gbps)
    .slice(0, MOST_PAIRS)
    .map(({ a, b }) => [...a.hosts, ...b.hosts]);
}

/** So many GPUs of each host that has them; undefined where these are no equal parts of the gang, or too few. */
function evenPart(
  hosts: readonly PlaceHost[],
  gpus: number,
  demand: PlaceDemand,
): readonly PlaceHost[] | undefined {
  if (demand.gpus % gpus !== 0 || demand.gpus === gpus) return undefined;
  const part = hosts.flatMap(({ at, freeMask }) => {
    const mask = neighbours(freeMask, at.kind.domains, gpus);
    return mask === undefined ? [] : [{ at, freeMask: mask }];
  });
  return part.length * gpus < demand.gpus ? undefined : part;
}

/** Within the tightest NVLink domain that just holds them. */
function neighbours(
  freeMask: number,
  domains: readonly number[],
  gpus: number,
): number | undefined {
  const free = domains
    .map((domain) => domain & freeMask)
    .filter((mask) => popCount(mask) >= gpus)
    .sort((a, b) => popCount(a) - popCount(b))[0];
  return free === undefined ? undefined : lowestBits(free, gpus);
}
