/**
 * @file The collectives of NCCL and the arms of its tuning: the algorithm and protocol that NCCL uses.
 *
 * `auto` leaves NCCL's own choice alone. The others are NVIDIA's names of algorithms and protocols.
 */

export const COLLECTIVES = [
  "broadcast",
  "reduce",
  "allgather",
  "reducescatter",
  "allreduce",
] as const;
export type Collective = (typeof COLLECTIVES)[number];

export const ARMS = [
  "auto",
  "tree/simple",
  "tree/ll128",
  "tree/ll",
  "ring/simple",
  "ring/ll128",
  "ring/ll",
  "nvls/simple",
  "nvls_tree/simple",
  "pat/simple",
  "collnet_direct/simple",
  "collnet_chain/simple",
] as const;
export type Arm = (typeof ARMS)[number];

const ARM_SET: ReadonlySet<string> = new Set(ARMS);
export const isArm = (text: string): text is Arm => ARM_SET.has(text);

const COLLECTIVE_SET: ReadonlySet<string> = new Set(COLLECTIVES);
export const isCollective = (text: string): text is Collective => COLLECTIVE_SET.has(text);
