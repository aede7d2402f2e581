/**
 * @file The placement policy with BandPilot behind it: in the cluster that the placement chose, the GPUs with the best bandwidth.
 *
 * The inner policy chooses the place of a gang. The search (pick/search-pick.ts) runs when the gang has at least two GPUs, lies in one
 * cluster, and a predictor for that cluster exists. It looks at all hosts of the cluster with free GPUs of the same type. Its answer is taken
 * when its predicted bandwidth is better than that of the compact answer and it is within the watts. Gangs of the same cluster count as
 * neighbours: they share cards (pick/sharing.ts). A predictor that throws, or has no time left, costs no request its grant:
 * the compact answer stands, and its note says why. Ties: the compact answer.
 * Cost: the inner policy's and the search's budget. Source: BandPilot §4.3.
 */

import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { BandwidthPredictor, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { byCodeUnit, clusterOf, type ClusterId, type HostId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import { keyOf, type Picked, type PickBudget } from "../pick/search.ts";
import { searchPick } from "../pick/search-pick.ts";
import { cardCapacities, scoreAmong, type Neighbour } from "../pick/sharing.ts";
import type {
  BandwidthPorts,
  PlaceDemand,
  Placed,
  PlaceHost,
  PlacePolicy,
} from "../placement/place-policy.ts";
import { isWithinWatts } from "../placement/watts.ts";

export interface BandwidthRules {
  readonly budget?: PickBudget;
}

export const withBandwidth =
  (inner: PlacePolicy, { budget }: BandwidthRules = {}): PlacePolicy =>
  (demand, hosts, ports) => {
    const compact = inner(demand, hosts, ports);
    const { bandwidth } = ports;
    if (compact.gpus === undefined || bandwidth === undefined || demand.gpus < 2) return compact;
    const view = viewOf(compact.gpus, hosts);
    if (view === undefined) return compact;
    let predictor: BandwidthPredictor | undefined;
    try {
      predictor = bandwidth.predictorOf(view.cluster);
      if (predictor === undefined) return compact;
      return better(compact, { demand, view, predictor, bandwidth, ...(budget && { budget }) });
    } catch (error) {
      return { ...compact, bandwidth: fallbackNote(error, predictor) };
    }
  };

/** The cluster and hosts that a gang may be moved within. */
interface CycleView {
  readonly cluster: ClusterId;
  readonly gpus: readonly HostGpus[];
  readonly hosts: readonly PlaceHost[];
}

function viewOf(gpus: readonly HostGpus[], hosts: readonly PlaceHost[]): CycleView | undefined {
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

interface Demand {
  readonly demand: PlaceDemand;
  readonly view: CycleView;
  readonly predictor: BandwidthPredictor;
  readonly bandwidth: BandwidthPorts;
  readonly budget?: PickBudget;
}

function better(compact: Placed, wanted: Demand): Placed {
  const { demand, view, predictor, bandwidth, budget } = wanted;
  const indexOf = indicesOf(predictor);
  const compactPick = candidateOf(view.gpus, indexOf);
  const freeMasks = predictor.domain.hosts.map(() => 0);
  for (const { at, freeMask } of view.hosts) {
    const index = indexOf.get(at.host);
    if (index !== undefined) freeMasks[index] = freeMask;
  }
  if (compactPick === undefined)
    return {
      ...compact,
      bandwidth: { method: "compact", fallback: "the model does not know its hosts" },
    };
  const score = scoreOf(wanted, freeMasks, indexOf);
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
  const isAllowed = isBetter && isWithinWatts(demand.wattsLeft, view.hosts, gpus);
  const chosen = isAllowed ? { gpus, pick: found.pick } : { gpus: view.gpus, pick: compactPick };
  return {
    gpus: chosen.gpus,
    candidates,
    bandwidth: noteOf({ found, compactGbs, isSearched: isAllowed, pick: chosen.pick, predictor }),
  };
}

/** The bandwidth that the cluster gains by a pick, beside the gangs that run there; undefined when none of them uses its host's card. */
function scoreOf(
  { bandwidth, view, predictor }: Demand,
  freeMasks: readonly number[],
  indexOf: ReadonlyMap<HostId, number>,
): ReturnType<typeof scoreAmong> | undefined {
  const gangs = bandwidth.gangsOf?.(view.cluster) ?? [];
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

/** Cache of a pure function: every pick asks for the bandwidth of running gangs again. */
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

/** The predicted bandwidth of GPUs that were reserved before. Undefined without a predictor. */
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

/** Cache of a pure function. */
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
