/**
 * @file Guesses bandwidths inside a host that were not measured, from similar masks: for the order of measuring and as a stand-in, never as a fact.
 *
 * Two masks look alike when the links inside them are the same up to the order of the GPUs: each GPU's links to the others, sorted,
 * and those lists sorted. That is coarser than the symmetries of the graph and costs far less. Without a topology only the number
 * of GPUs counts. A guess is, by rank of evidence, the median of what was measured of masks that look alike on the same host,
 * on hosts of the same type, then of masks of as many GPUs on hosts of that type. Measured data contradicts such guesses: of the
 * A800 host's 56 sets of five GPUs, all alike, 14 read 42 GB/s and not 100; so every guess carries its evidence.
 */

import { median } from "../../lib/median.ts";
import type { BandwidthDomain } from "../../domain/bandwidth/bandwidth-port.ts";
import type { HostTopology, LinkKind } from "../../domain/values/topology.ts";
import { isOneGpu } from "./lookup.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { membersOf } from "../../lib/bits.ts";

type Evidence = "same-host" | "same-type" | "same-count";

interface Guess {
  readonly gbs: number;
  /** From what; a guess is never a measurement. */
  readonly evidence: Evidence;
  /** How many measurements it is the median of. */
  readonly count: number;
}

interface GuessedDomain extends BandwidthDomain {
  /** The guess that stands for a mask; undefined where it was measured, and where there is nothing to guess from. */
  readonly guess: (host: number, mask: number) => Guess | undefined;
}

/** By host index; undefined where no topology is known. */
type Topologies = readonly (HostTopology | undefined)[];

/** The domain with its holes filled by guesses. It reads the domain once: make it again after new measurements. */
export function withGuesses(domain: BandwidthDomain, topologies: Topologies = []): GuessedDomain {
  const evidence = evidenceOf(domain, topologies);
  const keyOf = lookKeys(topologies);
  const guess = (host: number, mask: number): Guess | undefined => {
    const type = domain.hosts[host]?.gpuType;
    if (type === undefined || isOneGpu(mask) || domain.intraGbs(host, mask) !== undefined)
      return undefined;
    const look = keyOf(host, mask);
    const ranks: readonly (readonly [Evidence, string])[] = [
      ["same-host", `${String(host)} ${look}`],
      ["same-type", `${type} ${look}`],
      ["same-count", `${type} #${String(popCount(mask))}`],
    ];
    for (const [kind, key] of ranks) {
      const found = evidence.get(key);
      if (found !== undefined) return { gbs: median(found), evidence: kind, count: found.length };
    }
    return undefined;
  };
  return {
    hosts: domain.hosts,
    intraGbs: (host, mask) => domain.intraGbs(host, mask) ?? guess(host, mask)?.gbs,
    guess,
  };
}

/** The words of a mask's look; equal for masks that look alike. */
export function lookOf(topology: HostTopology | undefined, mask: number): string {
  const gpus = membersOf(mask);
  if (topology === undefined) return String(gpus.length);
  const links = gpus.map((gpu) =>
    gpus
      .filter((other) => other !== gpu)
      .map((other) => linkWord(topology.links[gpu]?.[other]))
      .sort()
      .join(),
  );
  return links.sort().join(";");
}

/**
 * The masks of two GPUs or more in the order in which they teach most by their looks: one of each look, most GPUs first, then a
 * second of each, and so on. Inside a look the masks follow a fixed stride, so that early ones do not all share GPU 0.
 */
export function masksByLook(
  gpuCount: number,
  topology: HostTopology | undefined,
): readonly number[] {
  const byLook = new Map<string, number[]>();
  for (let mask = 2 ** gpuCount - 1; mask > 0; mask -= 1) {
    if (isOneGpu(mask)) continue;
    const look = lookOf(topology, mask);
    const alike = byLook.get(look);
    if (alike === undefined) byLook.set(look, [mask]);
    else alike.push(mask);
  }
  const groups = [...byLook.values()]
    .map(strided)
    .sort(([a = 0], [b = 0]) => popCount(b) - popCount(a) || b - a);
  const rounds = Math.max(0, ...groups.map((group) => group.length));
  return Array.from({ length: rounds }, (_, round) =>
    groups.flatMap((group) => group.slice(round, round + 1)),
  ).flat();
}

/** The fraction of a group between one mask and the next: the golden section spreads any number of them evenly. */
const STRIDE = (Math.sqrt(5) - 1) / 2;

function strided(masks: readonly number[]): readonly number[] {
  const rest = [...masks];
  const order: number[] = [];
  for (let at = 0; rest.length > 0; at = (at + STRIDE) % 1) {
    order.push(...rest.splice(Math.floor(at * rest.length), 1));
  }
  return order;
}

function evidenceOf(
  domain: BandwidthDomain,
  topologies: Topologies,
): ReadonlyMap<string, readonly number[]> {
  const keyOf = lookKeys(topologies);
  const evidence = new Map<string, number[]>();
  const note = (key: string, gbs: number): void => {
    const known = evidence.get(key);
    if (known === undefined) evidence.set(key, [gbs]);
    else known.push(gbs);
  };
  for (const [host, { gpuCount, gpuType }] of domain.hosts.entries()) {
    for (let mask = 1; mask < 2 ** gpuCount; mask += 1) {
      const gbs = isOneGpu(mask) ? undefined : domain.intraGbs(host, mask);
      if (gbs === undefined) continue;
      const look = keyOf(host, mask);
      note(`${String(host)} ${look}`, gbs);
      note(`${gpuType} ${look}`, gbs);
      note(`${gpuType} #${String(popCount(mask))}`, gbs);
    }
  }
  return evidence;
}

/** Looks are asked for again and again; hosts that share a topology object share their looks. */
function lookKeys(topologies: Topologies): (host: number, mask: number) => string {
  const known = new Map<HostTopology | undefined, Map<number, string>>();
  return (host, mask) => {
    const topology = topologies[host];
    const looks = known.get(topology) ?? new Map<number, string>();
    known.set(topology, looks);
    const look = looks.get(mask) ?? lookOf(topology, mask);
    looks.set(mask, look);
    return look;
  };
}

function linkWord(link: LinkKind | undefined): string {
  return typeof link === "object" ? `nv${String(link.lanes)}` : (link ?? "unknown");
}
