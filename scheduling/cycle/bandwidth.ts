/**
 * @file The bandwidth knowledge of one cycle: the models that serve, and the gangs that run in each cluster, those included that
 * this cycle has started.
 *
 * The searches of a cycle share `MOST_WORK`, so that a crowd of gangs cannot make it overrun its deadline. Each may take an eighth of what is
 * left, so that the first are whole and later ones shorter; a gang that comes when all is spent gets the compact answer, and its note says so. Of that, the places that are held for later (reservations, and those that evictions and
 * moves make room for) and the words on why the best was not taken may use `MOST_PLANNED`, so that they take nothing from what
 * starts now. Cost: O(leases), once in a cycle that asks.
 */

import type { ClusterId, LeaseId } from "../../domain/values/ids.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import type { HostGpus, Lease } from "../../domain/lease/lease.ts";
import type { BandwidthPorts } from "../placement/place-policy.ts";
import type { DecidePorts } from "../admission/try-start.ts";

/** In shares (pick/search.ts), of 7 to 20 µs each with all that a search does beside: half of what the slowest cycle in a hundred may take. */
const MOST_WORK = 4_000;
const MOST_PLANNED = 1_000;

export interface CycleBandwidth {
  /** For what starts now. */
  readonly starting: BandwidthPorts;
  /** For what is planned or told. */
  readonly planning: BandwidthPorts;
}

interface Holdings {
  readonly leases: ReadonlyMap<LeaseId, Pick<Lease, "gpus">>;
  /** Grows while the cycle goes on. */
  readonly granted: readonly Pick<Lease, "gpus">[];
}

export function openBandwidth(
  { predictorOf, messagesOf }: DecidePorts,
  { leases, granted }: Holdings,
): CycleBandwidth | undefined {
  if (predictorOf === undefined) return undefined;
  let byCluster: Map<ClusterId, (readonly HostGpus[])[]> | undefined;
  let added = 0;
  let spent = 0;
  let planned = 0;
  const add = (gangs: NonNullable<typeof byCluster>, gpus: readonly HostGpus[]): void => {
    const [first] = gpus;
    if (first === undefined || gpus.length < 2) return;
    const cluster = clusterOf(first.host);
    const there = gangs.get(cluster);
    if (there === undefined) gangs.set(cluster, [gpus]);
    else there.push(gpus);
  };
  const gangsOf = (cluster: ClusterId): readonly (readonly HostGpus[])[] => {
    if (byCluster === undefined) {
      byCluster = new Map();
      for (const { gpus } of leases.values()) add(byCluster, gpus);
    }
    for (const { gpus } of granted.slice(added)) add(byCluster, gpus);
    added = granted.length;
    return byCluster.get(cluster) ?? [];
  };
  const portsWithin = (left: () => number, spend: (work: number) => void): BandwidthPorts => ({
    predictorOf: (cluster) => {
      const predictor = predictorOf(cluster);
      if (predictor === undefined) return undefined;
      if (left() <= 0) throw new Error("the searches of this cycle are used up");
      return predictor;
    },
    ...(messagesOf !== undefined && { messagesOf }),
    left,
    spend,
    gangsOf,
  });
  return {
    starting: portsWithin(
      () => MOST_WORK - spent,
      (work) => {
        spent += work;
      },
    ),
    planning: portsWithin(
      () => Math.min(MOST_WORK - spent, MOST_PLANNED - planned),
      (work) => {
        spent += work;
        planned += work;
      },
    ),
  };
}
