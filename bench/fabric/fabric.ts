/**
 * @file One cluster of a fabric: its hosts, cards, switches and links, with the numbers and faults that its seed draws.
 *
 * Links are numbered: out of each card, into each card, up from each leaf switch to each spine switch, and down again. Leaf switches have an
 * uplink to each of as many spine switches as they have uplinks; with rails each rail has spine switches of its own. A fault takes both
 * directions of an uplink. Cost: O(links).
 */

import { randomFrom, type Random } from "../../lib/random.ts";
import type { Drawn, FabricSpec } from "./fabric-file.ts";

export interface Cluster {
  readonly name: string;
  readonly seed: number;
  readonly hosts: number;
  readonly gpusPerHost: number;
  readonly cardsPerHost: number;
  /** Hosts of one NVLink domain; 1 without. */
  readonly hostsPerIsland: number;
  readonly gpuType: string;
  /** Hosts below one set of leaf switches. */
  readonly hostsPerLeaf: number;
  readonly hasRails: boolean;
  readonly uplinks: number;
  /** Queue pairs of a connection; 0: packets are spread evenly. */
  readonly paths: number;
  readonly channels: number;
  readonly treeShare: number;
  readonly messageGb: number;
  readonly insideUs: number;
  readonly betweenUs: number;
  /** Bus bandwidth of all GPUs of a host, and of an NVLink domain. */
  readonly insideGbs: number;
  readonly islandGbs: number;
  /** Of a neighbour's time, what it communicates. */
  readonly duty: number;
  /** GB/s by link; 0 where it is down. */
  readonly capacity: Float64Array;
  readonly links: LinkNumbers;
}

export interface LinkNumbers {
  readonly out: (host: number, card: number) => number;
  readonly into: (host: number, card: number) => number;
  readonly up: (leaf: number, spine: number) => number;
  readonly down: (leaf: number, spine: number) => number;
  readonly leafOf: (host: number, card: number) => number;
}

export function buildCluster(
  spec: FabricSpec,
  { gpus, seed }: { readonly gpus: number; readonly seed: number },
): Cluster {
  const random = randomFrom(seed, `fabric ${spec.name}`);
  const draw = (value: Drawn, name: string): number => drawn(value, random.stream(name));
  const { host, leaf, collective, nvlink } = spec;
  const hosts = Math.max(1, Math.ceil(gpus / host.gpus));
  const hasRails = leaf.wiring === "rails";
  const rails = hasRails ? host.cards : 1;
  const leaves = Math.ceil(hosts / leaf.hosts) * rails;
  const cards = hosts * host.cards;
  const links: LinkNumbers = {
    out: (at, card) => at * host.cards + card,
    into: (at, card) => cards + at * host.cards + card,
    up: (at, spine) => 2 * cards + at * leaf.uplinks + spine,
    down: (at, spine) => 2 * cards + (leaves + at) * leaf.uplinks + spine,
    leafOf: (at, card) => Math.floor(at / leaf.hosts) * rails + (hasRails ? card : 0),
  };
  const capacity = new Float64Array(2 * cards + 2 * leaves * leaf.uplinks);
  const insideGbs = draw(host.insideGbs, "host");
  const cardGbs = draw(host.cardGbs, "card");
  capacity.fill(cardGbs, 0, 2 * cards);
  capacity.fill(draw(leaf.uplinkGbs, "uplink"), 2 * cards);
  const slowShare = draw(spec.slowCards.share, "slow cards");
  const slow = random.stream("which cards");
  for (let at = 0; at < hosts; at += 1)
    for (let card = 0; card < host.cards; card += 1) {
      const isSlow = slow.unit() < slowShare;
      const left = drawn(spec.slowCards.to, slow);
      if (!isSlow) continue;
      capacity[links.out(at, card)] = cardGbs * left;
      capacity[links.into(at, card)] = cardGbs * left;
    }
  breakUplinks(capacity, { spec, leaves, links, random });
  return {
    name: spec.name,
    seed,
    hosts,
    gpusPerHost: host.gpus,
    cardsPerHost: host.cards,
    hostsPerIsland: nvlink?.hosts ?? 1,
    gpuType: spec.gpuType,
    hostsPerLeaf: leaf.hosts,
    hasRails,
    uplinks: leaf.uplinks,
    paths: spec.paths === "even" ? 0 : spec.paths,
    channels: collective.channels,
    treeShare: draw(collective.treeShare, "trees"),
    messageGb: (collective.messageMiB * 2 ** 20) / 1e9,
    insideUs: draw(collective.insideUs, "inside"),
    betweenUs: draw(collective.betweenUs, "between"),
    insideGbs,
    islandGbs: nvlink === undefined ? insideGbs : draw(nvlink.gbs, "domain"),
    duty: draw(spec.neighbours.share, "neighbours"),
    capacity,
    links,
  };
}

function drawn(value: Drawn, random: Random): number {
  if (typeof value === "number") return value;
  const [least, most] = value;
  return least + (most - least) * random.unit();
}

/** At least one uplink of each leaf switch stays up. */
function breakUplinks(
  capacity: Float64Array,
  {
    spec,
    leaves,
    links,
    random,
  }: {
    readonly spec: FabricSpec;
    readonly leaves: number;
    readonly links: LinkNumbers;
    readonly random: Random;
  },
): void {
  const { uplinkFaults, leaf } = spec;
  const downShare = drawn(uplinkFaults.down, random.stream("down"));
  const slowShare = drawn(uplinkFaults.slow, random.stream("slow uplinks"));
  const which = random.stream("which uplinks");
  for (let at = 0; at < leaves; at += 1) {
    let open = leaf.uplinks;
    for (let spine = 0; spine < leaf.uplinks; spine += 1) {
      const fate = which.unit();
      const left = drawn(uplinkFaults.to, which);
      const isDown = fate < downShare && open > 1;
      if (isDown) open -= 1;
      const part = isDown ? 0 : fate < downShare + slowShare ? left : 1;
      for (const link of [links.up(at, spine), links.down(at, spine)])
        capacity[link] = (capacity[link] ?? 0) * part;
    }
  }
}
