/**
 * @file `orbweaver fleet import`: host entries of a fleet file from `nvidia-smi topo -m` and nccl-tests outputs.
 *
 * The files stay where they are; the entries name them relative to where the result will lie. The result is read back
 * by the fleet file's own parser before it is given out.
 */

import type { Command } from "commander";
import { writeFileSync } from "node:fs";
import { basename, dirname, extname, relative, resolve } from "node:path";
import { formatProblem } from "../../domain/file-problem.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { parseFleetYaml, type FleetFile, type HostEntry } from "../../domain/fleet-file.ts";
import { fleetYaml, hostYaml } from "../../domain/fleet-yaml.ts";
import { gpuTypeName, knownGpuType } from "../../domain/gpu-types.ts";
import { parseNvidiaSmiTopo } from "../../domain/parse-nvidia-smi.ts";
import { problemText } from "../../domain/problem.ts";
import { counted } from "../duration.ts";
import { readText } from "../fleet-files.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { nameList } from "../option-values.ts";

interface ImportValues {
  readonly type: string;
  readonly topology: readonly string[];
  readonly name?: readonly string[];
  readonly bandwidth?: readonly string[];
  readonly cluster?: string;
  readonly site?: string;
  readonly jurisdiction?: string;
  readonly output?: string;
  readonly json?: boolean;
}

export function fleetImportVerb(kit: Kit): Command {
  return kit
    .verb("import")
    .summary("describe hosts from measurements")
    .description(
      "Writes host entries of a fleet file from what `nvidia-smi topo -m` and nccl-tests printed on the hosts.\n" +
        "Several hosts: name their files and names in the same order, separated by commas or by repeated flags.\n" +
        "With --cluster it is a whole fleet file. Needs no connection.",
    )
    .requiredOption("--topology <files>", "output of `nvidia-smi topo -m`", nameList)
    .requiredOption("--type <type>", "type of the GPUs, e.g. H100")
    .option(
      "--name <names>",
      "names of the hosts, or a range like h100-[1-4] (else the file's name)",
      nameList,
    )
    .option(
      "--bandwidth <files>",
      "output of nccl-tests (all runs of a host in one file), or BandPilot's CSV",
      nameList,
    )
    .option("--cluster <name>", "write a whole fleet file with this cluster")
    .option("--site <name>", "where the cluster stands (else the cluster's name)")
    .option("--jurisdiction <name>", "whose law holds there, e.g. EU")
    .option("-o, --output <file>", "write to this file (else standard output)")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        [
          "orbweaver fleet import --name h100-1 --type H100 --topology topo.txt --bandwidth nccl.txt",
          "one host",
        ],
        [
          "orbweaver fleet import --type H100 --topology a.txt,b.txt --cluster eu-1 --jurisdiction EU -o fleet.yaml",
          "a first fleet file",
        ],
      ]),
    )
    .action((values: ImportValues) => {
      const hosts = hostEntries(kit.io.cwd, values);
      const file = checked(kit.io.cwd, values, hosts);
      const isWhole = values.cluster !== undefined;
      if (knownGpuType(gpuTypeName(values.type)) === undefined) {
        kit.say(
          `${values.type} is no well-known GPU type: describe it under gpuTypes in the fleet file`,
        );
      }
      const text = isWhole ? fleetYaml(file) : hostYaml(hosts);
      if (values.output !== undefined) {
        writeFileSync(resolve(kit.io.cwd, values.output), text);
        kit.say(
          `${values.output}: ${counted(hosts.length, "host entry").replace(/entrys$/, "entries")}`,
        );
      }
      if (values.json === true) kit.printJson(isWhole ? file : { hosts });
      else if (values.output === undefined) kit.io.stdout.write(text);
    });
}

function hostEntries(cwd: string, values: ImportValues): readonly HostEntry[] {
  const { topology, bandwidth = [], name } = values;
  if (name !== undefined && name.length !== topology.length) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${counted(name.length, "name")} for ${counted(topology.length, "topology file")}. Give one name for each, in the same order.`,
    );
  }
  if (bandwidth.length > 0 && bandwidth.length !== topology.length) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${counted(bandwidth.length, "bandwidth file")} for ${counted(topology.length, "topology file")}. Give one for each host, or none.`,
    );
  }
  const folder = values.output === undefined ? cwd : dirname(resolve(cwd, values.output));
  const asSeen = (file: string): string => relative(folder, resolve(cwd, file));
  return topology.map((file, index) => {
    const measured = bandwidth[index];
    return {
      name: name?.[index] ?? basename(file, extname(file)),
      gpus: gpuCountIn(resolve(cwd, file), file),
      type: gpuTypeName(values.type),
      topology: asSeen(file),
      ...(measured !== undefined && { bandwidth: asSeen(measured) }),
    };
  });
}

function gpuCountIn(path: string, name: string): number {
  const text = readText(path);
  if (text.kind === "missing") {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${name} ${text.reason}. Name the output of \`nvidia-smi topo -m\`.`,
    );
  }
  const parsed = parseNvidiaSmiTopo(text.text, { source: name });
  if (parsed.kind === "refused") {
    const problems = parsed.problems.map((problem) => problemText(name, problem));
    throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
  }
  return parsed.topology.gpuCount;
}

/** The whole fleet file, as the parser has accepted it; of entries alone with a made-up cluster around them. */
function checked(cwd: string, values: ImportValues, hosts: readonly HostEntry[]): FleetFile {
  const { cluster = "imported", site = cluster, jurisdiction } = values;
  if (values.cluster !== undefined && jurisdiction === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--cluster needs --jurisdiction: whose law holds there, e.g. --jurisdiction EU.",
    );
  }
  const type = gpuTypeName(values.type);
  const isKnown = knownGpuType(type) !== undefined;
  const file: FleetFile = {
    clusters: [{ name: cluster, site, jurisdiction: jurisdiction ?? "unknown", hosts: [...hosts] }],
  };
  const stand = { gpuTypes: [{ name: type, memory: "1 GiB", watts: "1 W" }] };
  const folder = values.output === undefined ? cwd : dirname(resolve(cwd, values.output));
  const parsed = parseFleetYaml(fleetYaml(isKnown ? file : { ...file, ...stand }), {
    file: values.output ?? "the import",
    read: (path) => readText(resolve(folder, path)),
  });
  if (parsed.kind === "parsed") return file;
  const problems = parsed.problems.map(formatProblem);
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}
