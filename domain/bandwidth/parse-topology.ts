/** @file Reads the topology of a host in either form: the matrix of `nvidia-smi topo -m`, or NCCL's XML. */

import { parseNcclTopology } from "./parse-nccl-topology.ts";
import { parseNvidiaSmiTopo, type ParsedTopology } from "./parse-nvidia-smi.ts";

export function parseTopology(text: string, place: { readonly source: string }): ParsedTopology {
  return /^\ufeff?\s*</.test(text)
    ? parseNcclTopology(text, place)
    : parseNvidiaSmiTopo(text, place);
}
