/**
 * @file A fleet file for this machine as its one host, with a word about every key and about those that it leaves out. Whatever it is made from, the
 * fleet file's own parser reads it back.
 */

import { hostname } from "node:os";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { formatProblem, harmless, shown } from "../../domain/values/file-problem.ts";
import { GPU_TYPES, gpuTypeName, knownGpuType } from "../../domain/values/gpu-types.ts";
import type { LocalGpus } from "./local-gpus.ts";

export interface FleetPlace {
  readonly site: string;
  readonly jurisdiction: string;
  /** As the driver names it when absent. */
  readonly type?: string;
}

export const TOPOLOGY = "topology.txt";
export const MADE_UP = 8;

export const typeNamed = ({ type, device }: LocalGpus, values: FleetPlace): string =>
  values.type === undefined ? (type ?? ownName(device)) : gpuTypeName(values.type);

/** A name that a fleet file takes. */
const ownName = (device: string): string =>
  device
    .replace(/^(NVIDIA|Tesla)\s+/, "")
    .replaceAll(/[^A-Za-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");

export function fleetText(gpus: LocalGpus | undefined, values: FleetPlace): string {
  const { site, jurisdiction } = values;
  const type = gpus === undefined ? (values.type ?? "H100") : typeNamed(gpus, values);
  return `# The fleet of this machine. \`orbweaver fleet check\` names every problem with its line; \`orbweaver up FILE\` starts the
# fleet; \`orbweaver fleet apply FILE\` takes changes while jobs run, and with --dry-run shows them first.
${gpus === undefined ? "" : ownType(gpus, type)}clusters:
  - name: ${site}-1  # hosts behind one fabric; a gang prefers one cluster
    site: ${site}
    jurisdiction: ${jurisdiction}  # jobs may ask for it: constraints: { jurisdictions: [${jurisdiction}] }
${
  gpus === undefined
    ? "    simulated: true  # made-up GPUs: real processes, no device. Remove it on machines with GPUs\n"
    : "  # fabric: { bandwidth: 400 Gbps }  # each host's links to the others\n"
}  # power: 10 kW  # what all busy GPUs may draw together; cooling: likewise
    hosts:
      - name: ${hostname()}  # as \`hostname\` says it; more hosts: h100-[1-8]
        gpus: ${gpus?.count ?? MADE_UP}
        type: ${type}
${
  gpus?.topology === undefined
    ? "  # topology: topology.txt  # the output of `nvidia-smi topo -m`\n"
    : `        topology: ${TOPOLOGY}  # \`nvidia-smi topo -m\`\n`
}  # bandwidth: nccl.txt  # nccl-tests of this host, or \`orbweaver fleet measure\`

# links:  # between clusters; measured as well
#   - { between: [${site}-1, us-1], bandwidth: 5 Gbps, latency: 90ms }

# tenants:  # others have weight 1 and no limit
#   - { name: research, weight: 2, quota: { ${type}: 4 }, borrowing: 2 }

# policy:
#   weights: { inference: 100, interactive: 10, training: 1 }
#   preemption: { enabled: true }
`;
}

/** A type that is not well-known is described as the driver describes it. */
export function ownType({ device, memoryMiB, watts }: LocalGpus, type: string): string {
  if (knownGpuType(type) !== undefined) return "";
  if (watts === undefined || memoryMiB === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${shown(type)} is no well-known GPU type, and the driver does not say what memory "${harmless(device)}" has and what power it draws. Give --type with one of ${GPU_TYPES.join(", ")}.`,
    );
  }
  return `gpuTypes:
  - { name: ${type}, memory: ${(memoryMiB / 1024).toFixed(2)} GiB, watts: ${Math.ceil(watts)} W }
`;
}

/** Without a topology that the fleet file's parser refuses: the file is worth having without it. */
export function readable(
  gpus: LocalGpus | undefined,
  values: FleetPlace,
  say: (problem: string) => void,
): LocalGpus | undefined {
  if (gpus?.topology === undefined) return gpus;
  const { topology, ...rest } = gpus;
  const problems = problemsOf(fleetText(gpus, values), topology);
  if (problems.length === 0 || problemsOf(fleetText(rest, values), undefined).length > 0)
    return gpus;
  say(`without the topology, which cannot be read:\n${problems.join("\n")}`);
  return rest;
}

/** Whatever a flag or the machine's name brought, what is written is a fleet file. */
export function problemsOf(text: string, topology: string | undefined): readonly string[] {
  const parsed = parseFleetYaml(text, {
    file: "the new file",
    read: () =>
      topology === undefined
        ? { kind: "missing", reason: "does not exist" }
        : { kind: "text", text: topology },
  });
  return parsed.kind === "parsed" ? [] : parsed.problems.map(formatProblem);
}
