/**
 * @file Takes the lowest GPU ids, packed by host: the first host that holds the whole gang, else host after host.
 *
 * Where hosts draw differently and watts are scarce, the first choice may draw too much; then the thriftiest hosts are taken, which is
 * exact: no other choice of as many GPUs draws less. Topology and bandwidth are ignored.
 * Ties: host ids. Cost: O(hosts), O(hosts · log hosts) when watts are scarce. The plain baseline of BandPilot.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";
import type { PickDemand, PickHost, PickPolicy } from "./pick-policy.ts";

export const lowestIds: PickPolicy = (demand, hosts) => {
  const first = packed(demand, hosts);
  if (isWithin(first, demand)) return { gpus: hostGpus(first), candidates: hosts.length };
  const thrifty = packed(
    demand,
    [...hosts].sort((a, b) => a.gpuWatts - b.gpuWatts || byCodeUnit(a.host, b.host)),
    "thriftiest",
  );
  const candidates = 2 * hosts.length;
  return isWithin(thrifty, demand) ? { gpus: hostGpus(thrifty), candidates } : { candidates };
};

type Share = PickHost & { readonly mask: number };

/** The first host that holds all of it, unless the thriftiest GPUs are wanted and need not be on one host; else in order. */
function packed(
  { gpus, isSameHost }: PickDemand,
  hosts: readonly PickHost[],
  wanted: "together" | "thriftiest" = "together",
): readonly Share[] {
  const whole = hosts.find(({ freeMask }) => popCount(freeMask) >= gpus);
  if (whole !== undefined && (isSameHost || wanted === "together")) {
    return [{ ...whole, mask: lowestBits(whole.freeMask, gpus) }];
  }
  if (isSameHost) return [];
  const shares: Share[] = [];
  let open = gpus;
  for (const host of hosts) {
    if (open <= 0) break;
    const mask = lowestBits(host.freeMask, open);
    if (mask === 0) continue;
    shares.push({ ...host, mask });
    open -= popCount(mask);
  }
  return open > 0 ? [] : shares;
}

function isWithin(shares: readonly Share[], { wattsLeft }: PickDemand): boolean {
  const watts = shares.reduce((sum, { mask, gpuWatts }) => sum + popCount(mask) * gpuWatts, 0);
  return shares.length > 0 && watts <= wattsLeft;
}

const hostGpus = (shares: readonly Share[]): readonly HostGpus[] =>
  shares.map(({ host, mask }) => ({ host, mask })).sort((a, b) => byCodeUnit(a.host, b.host));
