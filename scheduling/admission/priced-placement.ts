/**
 * @file The placement policy with prices behind it: of some places that a gang may have, the one where what it trains takes the shortest step.
 *
 * The inner policy chooses the usual place. For a gang whose request says what it trains, it is then asked once more for parts of the free GPUs:
 * each GPU type and cluster that holds the gang; the same with equal numbers of GPUs from each host (layers are split over GPUs of one host, so
 * uneven hosts keep a model from it); two clusters together where neither holds the gang, those with the widest link between them first. At most
 * `MOST_PLACES` different places are priced at once (planning/parallelism/place-price.ts). Another place than the usual one must save `GAIN` of
 * the step, because prices are predictions and the usual place leaves more room to others; a place where the model fits beats one where it does not.
 * Where bandwidths are known, the part that won is searched by them too, and that place is taken unless its price is higher. Without prices
 * (none are left in this cycle, or nothing can be planned) the usual place stands. Ties: the usual place, then the order above.
 * Cost: the inner policy's for each part, and that of the prices. Source: Arnold (NeurIPS 2025) aligns groups of a plan with the fabric.
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
    const { pricesOf } = ports;
    if (usual.gpus === undefined || training === undefined || pricesOf === undefined) return usual;
    const { options, candidates } = optionsOf({ demand, hosts, ports, inner }, usual);
    if (options.length < 2) return { ...usual, candidates };
    const prices = pricesOf(
      training,
      options.map(({ gpus }) => gpus),
    );
    const usualMs = prices[0] ?? Infinity;
    let best = 0;
    for (const at of options.keys())
      if ((prices[at] ?? Infinity) < (prices[best] ?? Infinity)) best = at;
    const [option, bestMs] = [options[best], prices[best]];
    if (option === undefined || bestMs === undefined || bestMs > usualMs * (1 - GAIN))
      return { ...usual, candidates };
    const why = whyHere(bestMs, usualMs);
    if (ports.bandwidth === undefined) return { ...option.placed, candidates, why };
    const searched = inner(demand, option.part, ports);
    const [searchedMs] = searched.gpus === undefined ? [] : pricesOf(training, [searched.gpus]);
    const isAsGood = searchedMs !== undefined && searchedMs <= bestMs;
    return { ...(isAsGood ? searched : option.placed), candidates, why };
  };

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
  for (const part of partsOf(demand, hosts, ports).slice(0, MOST_PARTS)) {
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
): readonly (readonly PlaceHost[])[] {
  const grounds = groundsOf(hosts);
  const alone = grounds.filter((ground) => holds(ground, demand)).map((ground) => ground.hosts);
  const pairs =
    demand.maxClusters < 2 || demand.isSameHost || demand.isSameFabric
      ? []
      : pairsOf(
          grounds.filter((ground) => !holds(ground, demand)),
          demand,
          ports,
        );
  const parts = [...alone, ...pairs];
  const even = parts.flatMap((part) => EVEN_GPUS.map((gpus) => evenPart(part, gpus, demand)));
  return [...parts, ...even.flatMap((part) => (part === undefined ? [] : [part]))];
}

/** Two clusters of one GPU type that hold the gang together. */
function pairsOf(
  grounds: readonly Ground[],
  demand: PlaceDemand,
  { links }: PlacePorts,
): readonly (readonly PlaceHost[])[] {
  const loaded = links?.loaded();
  const pairs = grounds.flatMap((a, at) =>
    grounds.slice(at + 1).flatMap((b) => {
      const [one, other] = [a.hosts[0]?.at, b.hosts[0]?.at];
      const isPair =
        one !== undefined &&
        other !== undefined &&
        one.gpuType === other.gpuType &&
        one.cluster !== other.cluster;
      const hosts = [...a.hosts, ...b.hosts];
      if (!isPair || !holds({ cluster: a.cluster, hosts }, demand)) return [];
      const gbps = loaded === undefined ? 0 : bottleneckOf(loaded, [one.cluster, other.cluster]);
      return [{ hosts, gbps }];
    }),
  );
  return pairs
    .sort((a, b) => b.gbps - a.gbps)
    .slice(0, MOST_PAIRS)
    .map(({ hosts }) => hosts);
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
