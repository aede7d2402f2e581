/**
 * @file How the GPUs and network cards of one host are joined, as `nvidia-smi topo -m` sees it.
 *
 * Plain data of a few hundred bytes for eight GPUs, made of what JSON can hold, so that it travels in
 * payloads and compares by value. The matrix is symmetric and its diagonal is `self`.
 */

/**
 * The way from one device to another, best first: `lanes` bonded NVLinks; at most one PCIe bridge (`pix`);
 * several bridges (`pxb`); the CPU's PCIe host bridge (`phb`); between host bridges of one NUMA node (`node`);
 * between NUMA nodes (`sys`), which old drivers wrote `soc`.
 */
export type LinkKind = { readonly kind: "nvlink"; readonly lanes: number } | "self" | PciPath;

export type PciPath = "pix" | "pxb" | "phb" | "node" | "sys" | "soc";

export interface HostTopology {
  readonly gpuCount: number;
  /** `links[a][b]` is the way between GPU a and GPU b. */
  readonly links: readonly (readonly LinkKind[])[];
  /** By GPU index. */
  readonly gpus: readonly GpuAffinity[];
  readonly nics: readonly Nic[];
}

export interface GpuAffinity {
  /** CPU cores near the GPU as the driver writes them, e.g. `0-23,48-71`; absent = unknown. */
  readonly cpuAffinity?: string;
  /** Lowest NUMA node near the GPU; absent = unknown. */
  readonly numaNode?: number;
}

export interface Nic {
  /** The label of its column, e.g. `NIC0` or `mlx5_0`. */
  readonly label: string;
  /** The device that the NIC legend names; the label where there is no legend. */
  readonly device: string;
  /** The way to each GPU, by GPU index. */
  readonly gpuLinks: readonly PciPath[];
}

/** Bonded NVLinks between two GPUs; 0 when they have none. */
export function nvlinkLanes(topology: HostTopology, a: number, b: number): number {
  const link = topology.links[a]?.[b];
  return typeof link === "object" ? link.lanes : 0;
}

/**
 * GPU sets that reach each other over NVLink alone: connected components, each ascending, by lowest GPU.
 * A GPU without NVLink is a set of its own. Cost: one look at each pair.
 */
export function nvlinkDomains(topology: HostTopology): number[][] {
  const domains: number[][] = [];
  const isPlaced = new Set<number>();
  for (let seed = 0; seed < topology.gpuCount; seed += 1) {
    if (isPlaced.has(seed)) continue;
    isPlaced.add(seed);
    const domain = [seed];
    for (let at = 0; at < domain.length; at += 1) {
      const gpu = domain[at] ?? seed;
      for (let other = 0; other < topology.gpuCount; other += 1) {
        if (isPlaced.has(other) || nvlinkLanes(topology, gpu, other) === 0) continue;
        isPlaced.add(other);
        domain.push(other);
      }
    }
    domains.push(domain.sort((a, b) => a - b));
  }
  return domains;
}
