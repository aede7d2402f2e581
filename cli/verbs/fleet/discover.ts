/** @file `orbweaver fleet discover`: a host's part of a fleet file, from what this machine shows. */

import type { Command } from "commander";
import { existsSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { driverView } from "../../../agent/system/gpu-driver.ts";
import { machineDevices, type MachineDevices } from "../../../agent/system/machine-devices.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { harmless } from "../../../domain/values/file-problem.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { localGpus } from "../../command/local-gpus.ts";
import { ownType, readable, typeNamed } from "../../command/own-fleet.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";

interface DiscoverValues {
  readonly host: string;
  readonly type?: string;
  readonly topology?: string;
  readonly json?: boolean;
}

/** What `hostMemory` leaves to the system, the agent and its supervisors. */
const SHARED_MEMORY = 15 / 16;
const GIB = 2 ** 30;
const PLACE = Object.freeze({ site: "here", jurisdiction: "local" });

export function fleetDiscoverVerb(context: CommandContext): Command {
  return context
    .verb("discover")
    .summary("write this host's part of a fleet file")
    .description(
      "Prints a host's part of a fleet file: GPUs, type, processors and memory of this machine, with UUIDs, PCI addresses and network devices as comments. GPUs that MIG has divided count as their instances. Asks NVML, else nvidia-smi, else counts PCI devices, which says no type: give it then with --type. Needs no connection.",
    )
    .option("--host <name>", "name of the host", hostname())
    .option("--type <type>", "GPU type (default: as the driver names it)")
    .option("--topology <file>", "also write the output of `nvidia-smi topo -m`, and name it")
    .option("--json", "answer with one JSON document: all that the machine shows")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet discover", "print what belongs below `hosts:` of a cluster"],
        ["orbweaver fleet discover --topology h100-1.txt >> hosts.yaml", "with its topology"],
      ]),
    )
    .action(async (values: DiscoverValues) => {
      const { io } = context;
      const found = await machineDevices(driverView(io.env, packageRoot()));
      if (values.json === true) return context.printJson({ host: values.host, ...found });
      const text = await partOf(context, found, values);
      if (values.topology !== undefined) writeTopology(context, found, values.topology);
      context.print(text);
    });
}

async function partOf(
  context: CommandContext,
  found: MachineDevices,
  values: DiscoverValues,
): Promise<string> {
  const { gpus, cpus, memoryBytes, nics, source } = found;
  if (gpus.length === 0)
    throw new OrbweaverError(
      "NOT_FOUND",
      "this machine shows no NVIDIA GPU: its driver names none, and PCI has none. `orbweaver init` writes a fleet of made-up GPUs.",
    );
  const place = { ...PLACE, ...(values.type !== undefined && { type: values.type }) };
  const local =
    source === "pci"
      ? undefined
      : readable(
          await localGpus(driverView(context.io.env, packageRoot()), values),
          place,
          (problem) => context.say(problem),
        );
  if (local === undefined && values.type === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `no driver answers, and PCI shows ${gpus.length} NVIDIA GPUs without their type. Give it with --type.`,
    );
  const type = local === undefined ? (values.type ?? "") : typeNamed(local, place);
  const own = local === undefined ? "" : ownType(local, type);
  return [
    ...(own === ""
      ? []
      : ["# At the top of the fleet file:", ...own.trimEnd().split("\n").map(asComment)]),
    `- name: ${values.host}`,
    `  gpus: ${local?.count ?? gpus.length}`,
    `  type: ${type}`,
    `  cpus: ${cpus}`,
    `  hostMemory: ${Math.floor((memoryBytes * SHARED_MEMORY) / GIB)} GiB  # 15/16 of what the machine has`,
    ...(values.topology === undefined ? [] : [`  topology: ${values.topology}`]),
    ...gpus.flatMap(({ device, uuid, busId, instances }, gpu) => [
      said(`GPU ${gpu}`, [device, uuid, busId]),
      ...instances.map((each) => said(`  instance ${each.index}`, [each.profile, each.uuid])),
    ]),
    ...(nics.length === 0 ? [] : [comment(`network: ${nics.join(", ")}`)]),
  ].join("\n");
}

const asComment = (line: string): string => `# ${line}`;
const comment = (text: string): string => `  # ${harmless(text)}`;
const said = (what: string, facts: readonly (string | undefined)[]): string =>
  comment(`${what}: ${facts.filter((each) => each !== undefined).join(", ")}`);

function writeTopology({ io }: CommandContext, { topology }: MachineDevices, file: string): void {
  if (topology === undefined)
    throw new OrbweaverError(
      "NOT_FOUND",
      "--topology: `nvidia-smi topo -m` does not answer here. Leave it out.",
    );
  const path = resolve(io.cwd, file);
  if (existsSync(path))
    throw new OrbweaverError(
      "BAD_INPUT",
      `--topology: ${file} is there already, and nothing was written. Name another file.`,
    );
  writeFileSync(path, topology);
}
