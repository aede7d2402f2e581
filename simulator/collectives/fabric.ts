/**
 * @file How long a collective takes by itself: alpha-beta over the hierarchy of links, for ring and tree and NCCL's protocols.
 *
 * R ranks on N nodes of g GPUs, S bytes. A ring sends 2(R−1)/R · S over every edge and makes 2(R−1) hops one after the other, N of each R of them
 * between nodes; it is as fast as its slowest edge, and over a network that needs long windows (TCP) its lock-step costs more than bytes
 * (`ringLoss`). NCCL's double tree sends 2(N−1)/N · S through each node's card (every tree has N−1 edges that carry half of S up and down), and
 * makes 2·log₂N hops between nodes and 2(g−1) inside. LL128 carries 120 bytes of 128, LL 4 of 8. Source: the bandit paper §2.1, §3.3; NCCL's documentation of its protocols.
 * Cost: O(1).
 */

import type { Arm } from "../../domain/bandwidth/collective-arm.ts";

export interface Fabric {
  readonly nodes: number;
  readonly gpusPerNode: number;
  /** Start of a collective, whatever its size. */
  readonly launchUs: number;
  readonly nvlink: { readonly hopUs: number; readonly gbs: number };
  /** Between nodes; of no matter on a single one. */
  readonly network: {
    readonly hopUs: number;
    /** Of a node's card, each direction, GB/s. */
    readonly gbs: number;
    /** How many times as long a ring's bytes take as a tree's. */
    readonly ringLoss: number;
  };
}

type PricedArm = Exclude<
  Arm,
  "auto" | "nvls/simple" | "nvls_tree/simple" | "pat/simple" | `collnet_${string}`
>;

interface Protocol {
  /** Bytes on the wire for one of data. */
  readonly wire: number;
  /** Of a hop's latency: flags are seen sooner than a chunk is signalled. */
  readonly latency: number;
}

const PROTOCOLS: Readonly<Record<"simple" | "ll128" | "ll", Protocol>> = {
  simple: { wire: 1, latency: 1 },
  ll128: { wire: 128 / 120, latency: 0.6 },
  ll: { wire: 2, latency: 0.4 },
};

/** Milliseconds of an all-reduce with nothing beside it. */
export function allReduceMs(fabric: Fabric, arm: PricedArm, bytes: number): number {
  const { nodes, gpusPerNode, launchUs, nvlink, network } = fabric;
  const ranks = nodes * gpusPerNode;
  if (ranks === 1) return launchUs / 1_000;
  const { isRing, wire, latency } = partsOf(arm);
  const inside = isRing ? ringShare(ranks) : 2 * ((gpusPerNode - 1) / gpusPerNode);
  const insideMs = milliseconds(inside * bytes * wire, nvlink.gbs);
  const hopsInside = isRing ? 2 * (ranks - nodes) : 2 * (gpusPerNode - 1);
  const loss = isRing ? network.ringLoss : 1;
  const between = isRing ? ringShare(ranks) * loss : 2 * ((nodes - 1) / nodes);
  const betweenMs = nodes > 1 ? milliseconds(between * bytes * wire, network.gbs) : 0;
  const hopsBetween = nodes === 1 ? 0 : isRing ? 2 * nodes : 2 * Math.ceil(Math.log2(nodes));
  const hopsUs = latency * (hopsInside * nvlink.hopUs + hopsBetween * network.hopUs);
  return (launchUs + hopsUs) / 1_000 + Math.max(insideMs, betweenMs);
}

/**
 * How much of the streaming multiprocessors an arm keeps for itself while it runs, relative to Ring+Simple: flags are polled all the time, a
 * chunk is not, and a tree's reduction holds more than a ring's pipeline (§2.1, §3.1).
 */
export function smPressure(arm: PricedArm): number {
  const { isRing, latency, wire } = partsOf(arm);
  const polling = wire > 1.5 ? 3 : latency < 1 ? 2.5 : 1;
  return polling + (isRing ? 0 : 0.5);
}

const ringShare = (ranks: number): number => (2 * (ranks - 1)) / ranks;
const milliseconds = (bytes: number, gbs: number): number => bytes / (gbs * 1e6);

function partsOf(arm: PricedArm): Protocol & { readonly isRing: boolean } {
  const [algorithm] = arm.split("/");
  const protocol = arm.endsWith("/simple")
    ? PROTOCOLS.simple
    : arm.endsWith("/ll128")
      ? PROTOCOLS.ll128
      : PROTOCOLS.ll;
  return { ...protocol, isRing: algorithm === "ring" };
}
