/**
 * @file Weights of the links between two GPUs of one host, by the link matrices of appendix E: what Topo and the NUMA-first Default look at.
 *
 * NVLink weighs 100 and its number of lanes; PCIe 50 through one bridge (PIX), 40 through several (PXB), 30 through a host bridge (PHB),
 * 20 inside a NUMA node (NODE), 10 between NUMA nodes (SYS); GPUs of different hosts 0. Only the order within NVLink, within PCIe and
 * between the two is meant, as in a topology file written by hand. GPUs with SYS between them are on different NUMA nodes.
 * Host types without a matrix: every link weighs the same, one NUMA node.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseNvidiaSmiTopo } from "../../domain/bandwidth/parse-nvidia-smi.ts";
import type { HostTopology, LinkKind } from "../../domain/values/topology.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

export interface HostLinks {
  readonly weight: (a: number, b: number) => number;
  /** Masks of GPUs that reach each other without crossing NUMA nodes, ascending by lowest GPU. */
  readonly numaNodes: readonly number[];
}

export type LinksByType = ReadonlyMap<string, HostLinks>;

const TYPES = ["4090", "A6000", "A800", "H100", "V100"] as const;

export function readLinks(): LinksByType {
  return new Map(
    TYPES.map((type) => {
      const file = join(packageRoot(), "data", "bandpilot", "topology", `${type}_topo.txt`);
      const parsed = parseNvidiaSmiTopo(readFileSync(file, "utf8"), { source: file });
      if (parsed.kind === "refused") throw new Error(`${file} is no link matrix`);
      return [type, linksOf(parsed.topology)];
    }),
  );
}

export const plainLinks = (gpuCount: number): HostLinks => ({
  weight: () => 1,
  numaNodes: [2 ** gpuCount - 1],
});

function linksOf(topology: HostTopology): HostLinks {
  const weight = (a: number, b: number): number => weightOf(topology.links[a]?.[b]);
  return { weight, numaNodes: numaNodesOf(topology) };
}

const PCIE_WEIGHTS = { pix: 50, pxb: 40, phb: 30, node: 20, sys: 10, soc: 10, self: 0 } as const;

function weightOf(link: LinkKind | undefined): number {
  if (link === undefined) return 0;
  return typeof link === "object" ? 100 + link.lanes : PCIE_WEIGHTS[link];
}

/** Connected by anything but SYS. NVLink that crosses nodes joins them here: the matrix does not say better. */
function numaNodesOf({ links, gpuCount }: HostTopology): readonly number[] {
  const nodes: number[] = [];
  let open = 2 ** gpuCount - 1;
  while (open !== 0) {
    let node = open & -open;
    for (let before = 0; before !== node;) {
      before = node;
      for (let gpu = 0; gpu < gpuCount; gpu += 1)
        for (let other = 0; other < gpuCount; other += 1) {
          const link = links[gpu]?.[other];
          const isNear = link !== undefined && link !== "sys" && link !== "soc";
          if ((node & (1 << gpu)) !== 0 && isNear) node |= 1 << other;
        }
    }
    nodes.push(node);
    open &= ~node;
  }
  return nodes;
}
