/**
 * @file `orbweaver init`: a first fleet file, for this machine, with a word about every key and about those that it leaves out.
 *
 * The file is read back by the fleet file's own parser before anything is written. What is there is never overwritten without --force.
 */

import type { Command } from "commander";
import { existsSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { formatProblem, harmless, shown } from "../../../domain/values/file-problem.ts";
import { GPU_TYPES, gpuTypeName, knownGpuType } from "../../../domain/values/gpu-types.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { localGpus, type LocalGpus } from "../../command/local-gpus.ts";

interface InitValues {
  readonly site: string;
  readonly jurisdiction: string;
  readonly type?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export function initVerb(context: CommandContext): Command {
  return context
    .verb("init")
    .summary("write a first fleet file for this machine")
    .description(
      "Writes a fleet file with this machine as its one host: its GPUs and their topology as nvidia-smi shows them, and comments about what else the file can say. On a machine without an NVIDIA driver the GPUs are made up (a simulated cluster). Needs no connection.",
    )
    .argument("[file]", "the file to write", "fleet.yaml")
    .option("--site <name>", "where the machine stands", "here")
    .option("--jurisdiction <name>", "whose law holds there, e.g. EU", "local")
    .option("--type <type>", "GPU type (default: as the driver names it)")
    .option("--force", "overwrite files that are there")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver init", "fleet.yaml, and topology.txt beside it where there are GPUs"],
        [
          "orbweaver init --site lyon --jurisdiction EU eu.yaml",
          "with a place and a name of its own",
        ],
        ["orbweaver up fleet.yaml", "then start the fleet"],
      ]),
    )
    .action(async (file: string, values: InitValues) => {
      const { io } = context;
      const path = resolve(io.cwd, file);
      const topologyPath = resolve(dirname(path), TOPOLOGY);
      const found = await localGpus(io.env["PATH"]);
      const gpus = readable(found, values, (problem) => context.say(problem));
      const text = fleetText(gpus, values);
      const files = [
        { name: file, path, text },
        ...(gpus?.topology === undefined
          ? []
          : [{ name: TOPOLOGY, path: topologyPath, text: gpus.topology }]),
      ];
      const problems = problemsOf(text, gpus?.topology);
      if (problems.length > 0)
        throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
      const taken = files.filter((each) => existsSync(each.path)).map(({ name }) => name);
      if (taken.length > 0 && values.force !== true) {
        throw new OrbweaverError(
          "BAD_INPUT",
          `${taken.join(" and ")} ${taken.length === 1 ? "is" : "are"} there already, and nothing was written. Name another file, or give --force.`,
        );
      }
      for (const each of [...files].reverse()) writeFileSync(each.path, each.text);
      const isSimulated = gpus === undefined;
      if (values.json === true)
        return context.printJson({ files: files.map(({ name }) => name), isSimulated });
      context.print(
        isSimulated
          ? `${file}: no NVIDIA driver here, so ${MADE_UP} made-up GPUs on host ${hostname()}`
          : `${file}: ${gpus.count} ${typeNamed(gpus, values)} on host ${hostname()}`,
      );
      context.print(`Start it with \`orbweaver up ${file}\`.`);
    });
}

const TOPOLOGY = "topology.txt";
const MADE_UP = 8;

const typeNamed = ({ type, device }: LocalGpus, values: InitValues): string =>
  values.type === undefined ? (type ?? ownName(device)) : gpuTypeName(values.type);

/** A name that a fleet file takes. */
const ownName = (device: string): string =>
  device
    .replace(/^(NVIDIA|Tesla)\s+/, "")
    .replaceAll(/[^A-Za-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");

function fleetText(gpus: LocalGpus | undefined, values: InitValues): string {
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
function ownType({ device, memoryMiB, watts }: LocalGpus, type: string): string {
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
function readable(
  gpus: LocalGpus | undefined,
  values: InitValues,
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
function problemsOf(text: string, topology: string | undefined): readonly string[] {
  const parsed = parseFleetYaml(text, {
    file: "the new file",
    read: () =>
      topology === undefined
        ? { kind: "missing", reason: "does not exist" }
        : { kind: "text", text: topology },
  });
  return parsed.kind === "parsed" ? [] : parsed.problems.map(formatProblem);
}
