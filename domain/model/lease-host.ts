/**
 * @file The GPUs of a lease on one host as the inference planner sees a host: their speeds and memory, the PCIe buses that they share, and
 * the direct paths between them.
 *
 * From the fleet's description: the GPU type, its memory, and the matrix of `nvidia-smi topo -m` where there is one. Without a matrix a
 * bus for each GPU is assumed, and NVLink inside each NVLink domain; both are said. GPUs of other leases are left out, although
 * they may use the same buses at the same time.
 */

import type { HostShape } from "../fleet/fleet.ts";
import type { HostTopology } from "../values/topology.ts";
import { KNOWN_DEVICES, knownDevice } from "./inference-device.ts";
import {
  hostFromTopology,
  type InferenceGpu,
  type InferenceHost,
  type PeerWay,
} from "./inference-host.ts";

export type LeaseHost =
  | {
      readonly kind: "host";
      readonly host: InferenceHost;
      /** What the fleet's description does not say. */
      readonly assumed: readonly string[];
    }
  | { readonly kind: "unknown"; readonly message: string };

export interface LeaseGpus {
  /** Set bits are the lease's GPUs. */
  readonly mask: number;
  readonly topology?: HostTopology;
}

export function leaseHost(shape: HostShape, { mask, topology }: LeaseGpus): LeaseHost {
  const known = knownDevice(shape.gpuType);
  if (known === undefined) {
    const kinds = KNOWN_DEVICES.map(({ kind }) => kind).join(", ");
    return {
      kind: "unknown",
      message: `the speed of GPU type ${shape.gpuType} is not known (known: ${kinds})`,
    };
  }
  const device = { ...known, memoryGiB: shape.gpuMemoryGiB };
  const isMeasured = topology !== undefined && topology.gpuCount >= shape.gpuCount;
  const matrix = isMeasured ? topology : matrixOf(shape);
  const whole = hostFromTopology(matrix, { name: shape.id, device });
  const numbers = Array.from({ length: shape.gpuCount }, (_, gpu) => gpu);
  const host = partOf(
    isMeasured ? whole : { ...whole, peers: whole.peers.map((row) => row.map(stagedIfPcie)) },
    numbers.filter((gpu) => (mask & (2 ** gpu)) !== 0),
  );
  if (isMeasured) return { kind: "host", host, assumed: [] };
  const links = shape.nvlinkDomains === undefined ? "no NVLink" : "one NVLink inside each domain";
  return {
    kind: "host",
    host,
    assumed: ["a PCIe bus for each GPU", links].slice(0, host.gpus.length > 1 ? 2 : 1),
  };
}

/** A matrix that says no more than the fleet file does. */
function matrixOf({ gpuCount, nvlinkDomains = [] }: HostShape): HostTopology {
  const isLinked = (a: number, b: number): boolean =>
    nvlinkDomains.some((domain) => (domain & (2 ** a)) !== 0 && (domain & (2 ** b)) !== 0);
  const gpus = Array.from({ length: gpuCount }, (_, gpu) => gpu);
  return {
    gpuCount,
    links: gpus.map((a) =>
      gpus.map((b) => {
        if (a === b) return "self";
        return isLinked(a, b) ? { kind: "nvlink", lanes: 1 } : "sys";
      }),
    ),
    gpus: gpus.map(() => ({})),
    nics: [],
  };
}

/** Copies from GPU to GPU over PCIe need what only a matrix shows. */
const stagedIfPcie = (way: PeerWay): PeerWay => (way.kind === "pcie" ? { kind: "staged" } : way);

/** The host with these of its GPUs only, and their buses. */
function partOf(host: InferenceHost, chosen: readonly number[]): InferenceHost {
  const gpus = chosen.flatMap((gpu) => host.gpus[gpu] ?? []);
  const used = [...new Set(gpus.map(({ bus }) => bus))].sort((a, b) => a - b);
  return {
    ...host,
    gpus: gpus.map((gpu): InferenceGpu => ({ ...gpu, bus: used.indexOf(gpu.bus) })),
    buses: used.flatMap((bus) => host.buses[bus] ?? []),
    peers: chosen.map((a) => chosen.flatMap((b) => host.peers[a]?.[b] ?? [])),
  };
}
