/**
 * @file What the jobs of a host share beside its GPUs: as the fleet's description states it, else as the machine has it.
 *
 * A simulated cluster has one machine for all its made-up hosts, so there only stated amounts are shared out.
 */

import { availableParallelism, totalmem } from "node:os";
import type { HostGpu } from "../agent/containment/host-gpus.ts";
import type { HostResources } from "../agent/containment/limits.ts";
import type { ClusterShape, HostShape } from "../domain/fleet/fleet.ts";
import type { HostId } from "../domain/values/ids.ts";

/** A host of an agent. */
export interface ServedHost {
  readonly id: HostId;
  readonly gpuCount: number;
  /** What its launches share; by default only what a job asks for is limited. */
  readonly resources?: HostResources;
  /** What the machine's driver shows of its GPUs, by their indices; absent where they are made up. */
  readonly gpus?: readonly HostGpu[];
}

/** The rest is the system's, the agent's and the shims'. */
const SHARED_MEMORY = 15 / 16;
const GIB = 2 ** 30;

export function hostResources(
  { cpus, hostMemoryGiB }: Pick<HostShape, "cpus" | "hostMemoryGiB">,
  { isSimulated }: Pick<ClusterShape, "isSimulated">,
): HostResources {
  const stated = [
    ...(cpus === undefined ? [] : ["cpus" as const]),
    ...(hostMemoryGiB === undefined ? [] : ["memoryBytes" as const]),
  ];
  return {
    ...(stated.length > 0 && { stated }),
    ...(isSimulated
      ? {}
      : { cpus: availableParallelism(), memoryBytes: Math.floor(machineBytes() * SHARED_MEMORY) }),
    ...(cpus !== undefined && { cpus }),
    ...(hostMemoryGiB !== undefined && { memoryBytes: hostMemoryGiB * GIB }),
  };
}

/** An agent in a container of its own may have less than its machine. */
function machineBytes(): number {
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(totalmem(), constrained) : totalmem();
}
