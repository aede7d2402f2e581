/**
 * @file What the best place would give that a gang could not have: on GPUs that are free, but reserved for other jobs or beyond its tenant's quota.
 *
 * For people alone: the note of a grant names the best bandwidth among all free GPUs that suit the job, and why it was not taken. Looked at
 * only where there are such GPUs, and where the reservations of a fleet keep them; a prediction that leads by less than `LEAD` says nothing.
 * Cost: O(hosts), and a search for each type and cluster that has such GPUs, `MOST_SEARCHES` of them.
 */

import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { hostsOf } from "../capacity/capacity.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import { shapeOf } from "../ledger/rules/grant-check.ts";
import type { BandwidthPorts, PlaceHost } from "../placement/place-policy.ts";
import { groundsOf, holds } from "./bandwidth-placement.ts";
import { bandwidthFor, NOT_TAKEN, sendingOf } from "./bandwidth-notes.ts";
import { fitsOf, type CycleView } from "./feasibility.ts";
import { searchGround, type Place } from "./search-ground.ts";

const LEAD = 1.01;
const MOST_SEARCHES = 3;

interface Beyond {
  readonly view: CycleView;
  /** The size of the gang that starts. */
  readonly gpus: number;
  readonly planning: BandwidthPorts;
}

/** The note, with the best beyond what could be taken where that is better. */
export function withBeyond(
  note: BandwidthNote,
  request: PendingRequest,
  { view, gpus, planning }: Beyond,
): BandwidthNote {
  const { predictedGbs, bestGbs = predictedGbs } = note;
  if (predictedGbs === undefined || bestGbs === undefined) return note;
  const barred = new Map<HostId, number>();
  const offered: PlaceHost[] = [];
  let isQuotaShort = false;
  for (const { type, room } of fitsOf(request, view)) {
    const isBeyondQuota = room < gpus;
    for (const host of hostsOf(type)) {
      const free = emptyMask(host);
      if (free === 0) continue;
      offered.push({ at: host.at, freeMask: free });
      const own = isBeyondQuota ? 0 : host.freeMask;
      if (own === free) continue;
      barred.set(host.id, free & ~own);
      isQuotaShort ||= isBeyondQuota;
    }
  }
  if (barred.size === 0) return note;
  const found = bestOf(offered, { request, gpus, planning, barred });
  if (found === undefined || found.predictedGbs <= bestGbs * LEAD) return note;
  const isReserved = found.gpus.some(
    ({ host, mask }) => ((view.capacity.hosts.get(host)?.reservedMask ?? 0) & mask) !== 0,
  );
  const fallback = isReserved || !isQuotaShort ? NOT_TAKEN.reserved : NOT_TAKEN.quota;
  return { ...note, bestGbs: found.predictedGbs, fallback };
}

/** In service, and not leased. */
const emptyMask = ({ serviceMask, leasedMask }: PoolHost): number => serviceMask & ~leasedMask;

/** The best that needs a barred GPU, on the grounds that have any. */
function bestOf(
  offered: readonly PlaceHost[],
  {
    request,
    gpus,
    planning,
    barred,
  }: Pick<Beyond, "gpus" | "planning"> & {
    readonly request: PendingRequest;
    readonly barred: ReadonlyMap<HostId, number>;
  },
): Place | undefined {
  const demand = { ...shapeOf(request.constraints), gpus };
  // As if no other gang were there.
  const { gangsOf: _neighbours, ...alone } = bandwidthFor(planning, sendingOf(request));
  let best: Place | undefined;
  const grounds = groundsOf(offered).filter(
    (ground) => holds(ground, demand) && ground.hosts.some(({ at }) => barred.has(at.host)),
  );
  for (const ground of grounds.slice(0, MOST_SEARCHES)) {
    try {
      const predictor = alone.predictorOf(ground.cluster);
      const found = predictor && searchGround(ground, { demand, predictor, bandwidth: alone });
      if (found !== undefined && found.predictedGbs > (best?.predictedGbs ?? 0)) best = found;
    } catch {
      // A model that cannot answer, or a cycle with no time left, has nothing to tell.
    }
  }
  return best;
}
