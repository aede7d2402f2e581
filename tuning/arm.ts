/**
 * @file The arms: NCCL algorithms and protocols that the tuner may choose, and those that a topology can run.
 *
 * `auto` leaves NCCL's own choice. The others are NVIDIA's names of algorithms and protocols. An arm that the hardware cannot run is never
 * tried: NCCL would ignore it at best. An arm that cannot be good is not tried either, because every try costs iterations: LL sends 4 bytes
 * of flags with 4 of data, so above a megabyte it has half the bandwidth of Simple. Source: the bandit paper §2.1, §4.2; NCCL's tuner
 * interface.
 */

import { ARMS, type Arm, type Collective } from "../domain/bandwidth/collective-arm.ts";

/** The paper's four (§4.2), in the order in which it tries them. */
export const PAPER_ARMS: readonly Arm[] = ["tree/simple", "tree/ll128", "ring/simple", "auto"];

export interface Topology {
  /** One name for placements that behave alike: cluster, GPU type, shape, fabric. */
  readonly key: string;
  readonly nodes: number;
  readonly ranks: number;
  /** NVLink between all GPUs of a node: LL128 needs its 128-byte atomicity. */
  readonly hasNvlink: boolean;
  /** NVSwitch that reduces (H100 and later). */
  readonly hasNvlinkSharp: boolean;
  /** A fabric that reduces, with its plugin. */
  readonly hasCollnet: boolean;
}

const LL_LIMIT_BYTES = 1024 * 1024;

export interface ArmQuestion {
  readonly collective: Collective;
  /** The largest message of the band. */
  readonly maxBytes: number;
  readonly topology: Topology;
}

/** In the order of `ARMS`, `auto` always among them. */
export const armsFor = (question: ArmQuestion): readonly Arm[] =>
  ARMS.filter((arm) => canRun(arm, question));

function canRun(arm: Arm, { collective, maxBytes, topology }: ArmQuestion): boolean {
  const { nodes, ranks, hasNvlink, hasNvlinkSharp, hasCollnet } = topology;
  const isMultiNode = nodes > 1;
  switch (arm) {
    case "auto":
      return true;
    case "ring/simple":
      return ranks > 1;
    case "ring/ll128":
      return ranks > 1 && hasNvlink;
    case "ring/ll":
      return ranks > 1 && maxBytes <= LL_LIMIT_BYTES;
    case "tree/simple":
      return collective === "allreduce" && ranks > 1;
    case "tree/ll128":
      return collective === "allreduce" && ranks > 1 && hasNvlink;
    case "tree/ll":
      return collective === "allreduce" && ranks > 1 && maxBytes <= LL_LIMIT_BYTES;
    case "nvls/simple":
      return hasNvlinkSharp && !isMultiNode && ranks > 2 && isReducingOrGathering(collective);
    case "nvls_tree/simple":
      return hasNvlinkSharp && isMultiNode && collective === "allreduce";
    case "pat/simple":
      return (
        isMultiNode &&
        ranks === nodes &&
        (collective === "allgather" || collective === "reducescatter")
      );
    case "collnet_direct/simple":
      return hasCollnet && isMultiNode && isReducingOrGathering(collective);
    case "collnet_chain/simple":
      return hasCollnet && isMultiNode && collective === "allreduce";
  }
}

const isReducingOrGathering = (collective: Collective): boolean =>
  collective === "allreduce" || collective === "allgather" || collective === "reducescatter";
