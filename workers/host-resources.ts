/**
 * @file What the jobs of a host share beside its GPUs: as the fleet's description states it, else as the machine has it.
 *
 * Beside them: the memory in which it keeps weights of served models. A simulated cluster has one machine for all its made-up hosts, so there only stated amounts are shared out.
 */

import { availableParallelism, totalmem } from "node:os";
import type { HostGpu } from "../agent/containment/host-gpus.ts";
import { nodeSystem } from "../agent/system/node-system.ts";
import { hostLayout } from "../agent/system/state-layout.ts";
import { openWeightsPool } from "../agent/system/weights-pool.ts";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import type { PresenceBeat } from "../domain/lease/gpu-use.ts";
import type { HostResources } from "../agent/containment/limits.ts";
import type { ClusterShape, HostShape } from "../domain/fleet/fleet.ts";
import type { HostId } from "../domain/values/ids.ts";

/** A host of an agent. */
export interface ServedHost {
  readonly id: HostId;
  readonly gpuCount: number;
  /** What its launches share; by default only what a job asks for is limited. */
  readonly resources?: HostResources;
  /** What the machine's driver shows of its GPUs; absent where they are made up. */
  readonly gpus?: readonly HostGpu[];
  /** As the fleet describes them. */
  readonly gpuType?: string;
  /** The same as `gpus` by a later answer of the driver to `-q -x`. Fails where that is none. */
  readonly gpusIn?: (answer: string) => Promise<readonly HostGpu[]>;
  /** What it keeps of the weights of served models, in its memory; absent: nothing. */
  readonly weightsBytes?: number;
}

/** The rest is the system's, the agent's and the shims'. */
const SHARED_MEMORY = 15 / 16;
const GIB = 2 ** 30;

type StatedHost = Pick<HostShape, "cpus" | "hostMemoryGiB" | "weightsGiB">;

export function hostResources(
  { cpus, hostMemoryGiB, weightsGiB }: StatedHost,
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
      : {
          cpus: availableParallelism(),
          memoryBytes: Math.max(
            0,
            Math.floor(machineBytes() * SHARED_MEMORY) - (weightsGiB ?? 0) * GIB,
          ),
        }),
    ...(cpus !== undefined && { cpus }),
    ...(hostMemoryGiB !== undefined && { memoryBytes: hostMemoryGiB * GIB }),
  };
}

/**
 * What a host keeps of served models' weights: as its description states it, which then is no memory of jobs; else half of what jobs do not share. The
 * hosts of a simulated cluster have that of one machine together.
 */
export function hostWeightsBytes(
  { hostMemoryGiB, weightsGiB }: StatedHost,
  { isSimulated, hosts }: Pick<ClusterShape, "isSimulated" | "hosts">,
): number {
  if (weightsGiB !== undefined) return Math.floor(weightsGiB * GIB);
  const machine = machineBytes();
  const shared =
    isSimulated || hostMemoryGiB === undefined ? machine * SHARED_MEMORY : hostMemoryGiB * GIB;
  return Math.max(0, Math.floor((machine - shared) / 2 / (isSimulated ? hosts.length : 1)));
}

/** What a host of the agent is opened with for them; nothing where it keeps none. */
export function hostPool(
  { id, weightsBytes }: Pick<ServedHost, "id" | "weightsBytes">,
  stateDir: string,
  fleet: string,
): Pick<AgentHost, "weights"> {
  if (weightsBytes === undefined) return {};
  const { dir } = hostLayout(nodeSystem.files, { stateDir, fleet, id });
  const pool = openWeightsPool({ stateDir: dir, budgetBytes: weightsBytes });
  // The budget may be smaller than that of the agent before.
  pool.trim(nodeSystem.clock.nowMs());
  return { weights: pool };
}

/** With what the hosts keep; as it is where they keep nothing. */
export function withWeights(
  beat: PresenceBeat | undefined,
  hosts: Iterable<Pick<AgentHost, "id" | "weights">>,
): PresenceBeat | undefined {
  const kept = [...hosts].flatMap(({ id, weights }) => {
    const use = weights?.use();
    return use === undefined || use.models === 0 ? [] : [[id, use] as const];
  });
  if (kept.length === 0) return beat;
  return { use: {}, ...beat, weights: Object.fromEntries(kept) };
}

/** An agent in a container of its own may have less than its machine. */
function machineBytes(): number {
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(totalmem(), constrained) : totalmem();
}
