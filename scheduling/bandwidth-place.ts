/**
 * @file The placement policy with BandPilot behind it: of the cluster that the placement chose, the GPUs with the best bandwidth.
 *
 * The inner policy says where a gang goes. Has the gang at least two GPUs, lies it in one cluster, and is there a predictor for that
 * cluster, then the search (pick/search-pick.ts) looks at all hosts of the cluster that have GPUs of the same type to give, and what it finds
 * is taken when it is predicted to be better than the compact answer and is within the watts. Gangs of the same cluster count as
 * neighbours: they share cards (pick/sharing.ts). A predictor that throws, or has no time left, costs nobody the grant:
 * the compact answer stands, and its note says why. Ties: the compact answer.
 * Cost: the inner policy's and the search's budget. Source: BandPilot §4.3.
 */

import type { BandwidthNote } from "../domain/bandwidth-note.ts";
import type { BandwidthPredictor, Candidate } from "../domain/bandwidth-port.ts";
import { byCodeUnit, clusterOf, type ClusterId, type HostId } from "../domain/ids.ts";
import type { HostGpus } from "../domain/lease.ts";
import { keyOf, type Picked, type PickBudget } from "./pick/search.ts";
import { searchPick } from "./pick/search-pick.ts";
import { cardCapacities, scoreAmong, type Neighbour } from "./pick/sharing.ts";
import type {
  BandwidthPorts,
  PlaceDemand,
  Placed,
  PlaceHost,
  PlacePolicy,
} from "./placement/place-policy.ts";
import { isWithinWatts } from "./placement/watts.ts";

export interface BandwidthRules {
  readonly budget?: PickBudget;
}

export const withBandwidth =
  (inner: PlacePolicy, { budget }: BandwidthRules = {}): PlacePolicy =>
  (demand, hosts, ports) => {
    const compact = inner(demand, hosts, ports);
    const { bandwidth } = ports;
    if (compact.gpus === undefined || bandwidth === undefined || demand.gpus < 2) return compact;
    const scene = sceneOf(compact.gpus, hosts);
    if (scene === undefined) return compact;
    let predictor: BandwidthPredictor | undefined;
    try {
      predictor = bandwidth.predictorOf(scene.cluster);
      if (predictor === undefined) return compact;
      return better(compact, { demand, scene, predictor, bandwidth, ...(budget && { budget }) });
    } catch (error) {
      return { ...compact, bandwidth: fallbackNote(error, predictor) };
    }
  };

/** The cluster and hosts that a gang may be moved within. */
interface Scene {
  readonly cluster: ClusterId;
  readonly gpus: readonly HostGpus[];
  readonly hosts: readonly PlaceHost[];
}

function sceneOf(gpus: readonly HostGpus[], hosts: readonly PlaceHost[]): Scene | undefined {
  const used = new Set<HostId>(gpus.map(({ host }) => host));
  const layouts = hosts.flatMap(({ at }) => (used.has(at.host) ? [at] : []));
  const [first] = layouts;
  if (first === undefined || layouts.some(({ cluster }) => cluster !== first.cluster))
    return undefined;
  const alike = hosts.filter(
    ({ at, freeMask }) =>
      freeMask !== 0 && at.cluster === first.cluster && at.gpuType === first.gpuType,
  );
  return { cluster: first.clusterId, gpus, hosts: alike };
}

interface Wish {
  readonly demand: PlaceDemand;
  readonly scene: Scene;
  readonly predictor: BandwidthPredictor;
  readonly bandwidth: BandwidthPorts;
  readonly budget?: PickBudget;
}

function better(compact: Placed, wish: Wish): Placed {
  const { demand, scene, predictor, bandwidth, budget } = wish;
  const indexOf = indicesOf(predictor);
  const compactPick = candidateOf(scene.gpus, indexOf);
  const freeMasks = predictor.domain.hosts.map(() => 0);
  for (const { at, freeMask } of scene.hosts) {
    const index = indexOf.get(at.host);
    if (index !== undefined) freeMasks[index] = freeMask;
  }
  if (compactPick === undefined)
    return {
      ...compact,
      bandwidth: { method: "compact", fallback: "the model does not know its hosts" },
    };
  const score = scoreOf(wish, freeMasks, indexOf);
  const found = searchPick(
    {
      predictor,
      freeMasks,
      gpus: demand.gpus,
      also: [compactPick],
      isSameHost: demand.isSameHost,
      ...(score !== undefined && { score }),
    },
    budget,
  );
  if (found === undefined) return compact;
  bandwidth.spend?.(found.stats.work);
  const [compactGbs] = predictor.predict([compactPick]);
  const gpus = gpusOf(found.pick, predictor);
  const candidates = compact.candidates + found.stats.candidates;
  const isBetter = found.score > (score?.(compactPick, compactGbs ?? 0) ?? compactGbs ?? 0);
  const isAllowed = isBetter && isWithinWatts(demand.wattsLeft, scene.hosts, gpus);
  const chosen = isAllowed ? { gpus, pick: found.pick } : { gpus: scene.gpus, pick: compactPick };
  return {
    gpus: chosen.gpus,
    candidates,
    bandwidth: noteOf({ found, compactGbs, isSearched: isAllowed, pick: chosen.pick, predictor }),
  };
}

/** What the cluster gains by a pick, beside the gangs that run there; undefined when none of them uses its host's card. */
function scoreOf(
  { bandwidth, scene, predictor }: Wish,
  freeMasks: readonly number[],
  indexOf: ReadonlyMap<HostId, number>,
): ReturnType<typeof scoreAmong> | undefined {
  const gangs = bandwidth.gangsOf?.(scene.cluster) ?? [];
  const shares = gangs.flatMap((gpus) => {
    const candidate = gpus.length < 2 ? undefined : candidateOf(gpus, indexOf);
    return candidate === undefined || candidate.length < 2 ? [] : [candidate];
  });
  if (shares.length === 0) return undefined;
  const gbs = rememberedPredictions(predictor, shares);
  const neighbours = shares.map((each, at): Neighbour => ({ shares: each, gbs: gbs[at] ?? 0 }));
  return scoreAmong(
    { neighbours, capacityOf: cardCapacities(predictor) },
    { domain: predictor.domain, freeMasks },
  );
}

/** The memory of a pure function: gangs that run are asked about again with every pick. */
const predictions = new WeakMap<BandwidthPredictor, Map<string, number>>();
const MOST_PREDICTIONS = 4_096;

function rememberedPredictions(
  predictor: BandwidthPredictor,
  candidates: readonly Candidate[],
): readonly number[] {
  const own = predictions.get(predictor) ?? new Map<string, number>();
  predictions.set(predictor, own);
  const open = candidates.filter((each) => !own.has(keyOf(each)));
  if (own.size + open.length > MOST_PREDICTIONS) own.clear();
  const asked = own.size === 0 ? candidates : open;
  if (asked.length > 0) {
    const answers = predictor.predict(asked);
    for (const [at, each] of asked.entries()) own.set(keyOf(each), answers[at] ?? 0);
  }
  return candidates.map((each) => own.get(keyOf(each)) ?? 0);
}

/** What is expected of GPUs that were chosen before: set apart, or kept for a job that goes on. Undefined when nobody knows. */
export function noteOfGiven(
  gpus: readonly HostGpus[],
  bandwidth: BandwidthPorts | undefined,
): BandwidthNote | undefined {
  const clusters = new Set(gpus.map(({ host }) => clusterOf(host)));
  const [cluster] = clusters;
  if (bandwidth === undefined || cluster === undefined || clusters.size > 1) return undefined;
  let predictor: BandwidthPredictor | undefined;
  try {
    predictor = bandwidth.predictorOf(cluster);
    const pick = predictor && candidateOf(gpus, indicesOf(predictor));
    if (predictor === undefined || pick === undefined) return undefined;
    const [predictedGbs] = predictor.predict([pick]);
    if (!isFinite(predictedGbs)) return undefined;
    const model = pick.length === 1 ? "table" : predictor.version;
    return { predictedGbs, compactGbs: predictedGbs, model, method: "compact" };
  } catch (error) {
    return fallbackNote(error, predictor);
  }
}

interface Outcome {
  readonly found: Picked;
  readonly compactGbs: number | undefined;
  readonly isSearched: boolean;
  readonly pick: Candidate;
  readonly predictor: BandwidthPredictor;
}

function noteOf({ found, compactGbs, isSearched, pick, predictor }: Outcome): BandwidthNote {
  const { predictedGbs: bestGbs } = found;
  const predictedGbs = isSearched ? bestGbs : compactGbs;
  return {
    ...(isFinite(predictedGbs) && { predictedGbs }),
    ...(isFinite(bestGbs) && { bestGbs }),
    ...(isFinite(compactGbs) && { compactGbs }),
    model: pick.length === 1 ? "table" : predictor.version,
    method: isSearched ? "searched" : "compact",
  };
}

const isFinite = (value: number | undefined): value is number => Number.isFinite(value);

function fallbackNote(error: unknown, predictor: BandwidthPredictor | undefined): BandwidthNote {
  const why = error instanceof Error ? error.message : String(error);
  return {
    method: "compact",
    ...(predictor !== undefined && { model: predictor.version }),
    fallback: why.slice(0, MOST_CHARACTERS),
  };
}

/** A note travels with the grant. */
const MOST_CHARACTERS = 200;

/** The memory of a pure function. */
const known = new WeakMap<BandwidthPredictor["domain"], ReadonlyMap<HostId, number>>();

function indicesOf({ domain }: BandwidthPredictor): ReadonlyMap<HostId, number> {
  const indices = known.get(domain) ?? new Map(domain.hosts.map(({ id }, index) => [id, index]));
  known.set(domain, indices);
  return indices;
}

/** Ascending by host; undefined when the domain lacks one of them. */
function candidateOf(
  gpus: readonly HostGpus[],
  indexOf: ReadonlyMap<HostId, number>,
): Candidate | undefined {
  const shares = gpus.flatMap(({ host, mask }) => {
    const index = indexOf.get(host);
    return index === undefined ? [] : [{ host: index, mask }];
  });
  return shares.length < gpus.length ? undefined : shares.sort((a, b) => a.host - b.host);
}

const gpusOf = (pick: Candidate, { domain }: BandwidthPredictor): readonly HostGpus[] =>
  pick
    .flatMap(({ host, mask }) => {
      const id = domain.hosts[host]?.id;
      return id === undefined ? [] : [{ host: id, mask }];
    })
    .sort((a, b) => byCodeUnit(a.host, b.host));
