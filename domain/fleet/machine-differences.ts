/**
 * @file How the GPUs that a machine shows differ from those that the fleet's description gives its host: fewer, more, another type, other NVLinks.
 *
 * A GPU that MIG has divided counts as its instances. Where only PCI was read, types and links are not compared. Each difference is a word without spaces, which an agent's identity carries, and has a
 * sentence for people.
 */

import { parseNvidiaSmiTopo } from "../bandwidth/parse-nvidia-smi.ts";
import { nvlinkDomains } from "../values/topology.ts";
import type { HostShape } from "./fleet.ts";
import { leasedDevices, type MachineGpu } from "./parse-device-query.ts";

export interface ShownDevices {
  readonly gpus: readonly MachineGpu[];
  readonly topology?: string;
}

/** In this order: `missing:1`, `extra:2`, `type:A100-40`, `nvlink`. */
export function machineDifferences(
  host: Pick<HostShape, "gpuCount" | "gpuType" | "nvlinkDomains">,
  { gpus, topology }: ShownDevices,
): readonly string[] {
  const shown = leasedDevices(gpus);
  const others = [
    ...new Set(shown.flatMap(({ type = [] }) => type).filter((type) => type !== host.gpuType)),
  ];
  return [
    ...(shown.length < host.gpuCount ? [`missing:${host.gpuCount - shown.length}`] : []),
    ...(shown.length > host.gpuCount ? [`extra:${shown.length - host.gpuCount}`] : []),
    ...others.map((type) => `type:${type}`),
    ...(gpus.length === host.gpuCount && hasOtherLinks(host, topology) ? ["nvlink"] : []),
  ];
}

function hasOtherLinks(
  { nvlinkDomains: stated }: Pick<HostShape, "nvlinkDomains">,
  topology: string | undefined,
): boolean {
  if (stated === undefined || topology === undefined) return false;
  const parsed = parseNvidiaSmiTopo(topology, { source: "nvidia-smi topo -m" });
  if (parsed.kind !== "parsed") return false;
  const shown = nvlinkDomains(parsed.topology).map((gpus) =>
    gpus.reduce((mask, gpu) => mask | (1 << gpu), 0),
  );
  return shown.join(",") !== stated.join(",");
}

/** `1 GPU is missing` and the like, for a word of `machineDifferences`. */
export function differenceText(word: string): string {
  const [kind = ""] = word.split(":");
  const value = word.slice(kind.length + 1);
  switch (kind) {
    case "missing":
      return `${value} ${value === "1" ? "GPU is" : "GPUs are"} missing`;
    case "extra":
      return `${value} ${value === "1" ? "GPU is" : "GPUs are"} not in the fleet file`;
    case "type":
      return `it shows ${value}`;
    case "nvlink":
      return "NVLink joins other sets of GPUs";
    default:
      return word;
  }
}
