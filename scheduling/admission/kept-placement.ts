/**
 * @file The placement policy with hosts in front that keep the weights of what a gang serves, because a service starts there without reading its model.
 *
 * The inner policy chooses the usual place. Where hosts of the request keep its weights, it is asked once more for those alone; their place is taken where
 * it costs no more communication (placement/spread.ts), whatever room it leaves to others. Never does a gang wait for such a host.
 * Cost: the inner policy's, twice where such hosts have free GPUs.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { Placed, PlacePolicy } from "../placement/place-policy.ts";
import { costOf } from "../placement/spread.ts";

const EPSILON = 1e-9;

export const withKeepers =
  (inner: PlacePolicy): PlacePolicy =>
  (demand, hosts, ports) => {
    const usual = inner(demand, hosts, ports);
    const { keepers } = demand;
    if (usual.gpus === undefined || keepers === undefined || !demand.isSameHost) return usual;
    if (isAmong(usual.gpus, keepers)) return kept(usual);
    const part = hosts.filter(({ at }) => keepers.has(at.host));
    if (part.length === 0) return usual;
    const there = inner(demand, part, ports);
    const candidates = usual.candidates + there.candidates;
    const isTaken =
      there.gpus !== undefined &&
      costOf(there.gpus, ports.spread) <= costOf(usual.gpus, ports.spread) + EPSILON;
    return isTaken ? kept({ ...there, candidates }) : { ...usual, candidates };
  };

const isAmong = (gpus: readonly HostGpus[], keepers: ReadonlySet<HostId>): boolean =>
  gpus.every(({ host }) => keepers.has(host));

const kept = (placed: Placed): Placed => ({
  ...placed,
  why: `${placed.gpus?.[0]?.host ?? ""} keeps the weights of what it serves`,
});
