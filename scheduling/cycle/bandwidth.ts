/**
 * @file The bandwidth knowledge of one cycle: the models that serve, and the gangs that run in each cluster, those included that
 * this cycle has started.
 *
 * The searches of a cycle share `MOST_WORK`, so that a crowd of gangs cannot make it overrun its deadline; a gang that comes when it is spent
 * gets the compact answer, and its note says so. Cost: O(leases), once in a cycle that asks.
 */

import type { ClusterId, LeaseId } from "../../domain/values/ids.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import type { HostGpus, Lease } from "../../domain/lease/lease.ts";
import type { BandwidthPorts } from "../placement/place-policy.ts";
import type { DecidePorts } from "../admission/try-start.ts";

/** In shares (pick/search.ts): about 80 ms of predictions, of the 200 that a decision may take. */
const MOST_WORK = 12_000;

interface Holdings {
  readonly leases: ReadonlyMap<LeaseId, Pick<Lease, "gpus">>;
  /** Grows while the cycle goes on. */
  readonly granted: readonly Pick<Lease, "gpus">[];
}

export function openBandwidth(
  { predictorOf }: DecidePorts,
  { leases, granted }: Holdings,
): BandwidthPorts | undefined {
  if (predictorOf === undefined) return undefined;
  let byCluster: Map<ClusterId, (readonly HostGpus[])[]> | undefined;
  let added = 0;
  let spent = 0;
  const add = (gangs: NonNullable<typeof byCluster>, gpus: readonly HostGpus[]): void => {
    const [first] = gpus;
    if (first === undefined || gpus.length < 2) return;
    const cluster = clusterOf(first.host);
    const there = gangs.get(cluster);
    if (there === undefined) gangs.set(cluster, [gpus]);
    else there.push(gpus);
  };
  return {
    predictorOf: (cluster) => {
      const predictor = predictorOf(cluster);
      if (predictor === undefined) return undefined;
      if (spent >= MOST_WORK) throw new Error("the searches of this cycle are used up");
      return predictor;
    },
    spend: (work) => {
      spent += work;
    },
    gangsOf: (cluster) => {
      if (byCluster === undefined) {
        byCluster = new Map();
        for (const { gpus } of leases.values()) add(byCluster, gpus);
      }
      for (const { gpus } of granted.slice(added)) add(byCluster, gpus);
      added = granted.length;
      return byCluster.get(cluster) ?? [];
    },
  };
}
