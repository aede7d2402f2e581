/**
 * @file `orbweaver fleet import`: host entries of a fleet file from topologies, files about the fabric, and nccl-tests outputs.
 *
 * A log of nccl-tests over several hosts is a measurement of their cluster, and makes the result a whole fleet file. The
 * files stay where they are; the entries name them relative to where the result will lie. The result is read back
 * by the fleet file's own parser before it is given out.
 */

import type { Command } from "commander";
import { writeFileSync } from "node:fs";
import { basename, dirname, extname, relative, resolve } from "node:path";
import {
  formatProblem,
  harmless,
  shown,
  type FileProblem,
} from "../../../domain/values/file-problem.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  parseFleetYaml,
  type FleetFile,
  type HostEntry,
} from "../../../domain/fleet/fleet-file.ts";
import { fleetYaml, hostYaml } from "../../../domain/fleet/fleet-yaml.ts";
import { gpuTypeName, knownGpuType } from "../../../domain/values/gpu-types.ts";
import { namesText } from "../../../domain/bandwidth/measured-runs.ts";
import { parseTopology } from "../../../domain/bandwidth/parse-topology.ts";
import { problemText } from "../../../domain/values/problem.ts";
import { counted } from "../../terminal/duration.ts";
import { readText } from "../../command/fleet-files.ts";
import { hostsOf, surveyFiles, type SurveyedFile } from "../../command/import-measurements.ts";
import {
  hostsOfFabrics,
  readFabrics,
  withRacks,
  type FabricFile,
} from "../../command/import-fabric.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { nameList, wholeNumber } from "../../command/option-values.ts";

interface ImportValues {
  readonly type?: string;
  readonly topology?: readonly string[];
  readonly fabric?: readonly string[];
  readonly gpus?: number;
  readonly name?: readonly string[];
  readonly bandwidth?: readonly string[];
  readonly cluster?: string;
  readonly site?: string;
  readonly jurisdiction?: string;
  readonly output?: string;
  readonly json?: boolean;
}

export function fleetImportVerb(context: CommandContext): Command {
  return context
    .verb("import")
    .summary("describe hosts from measurements")
    .description(
      "Writes host entries of a fleet file from what the hosts' own tools say: topologies, measurements of nccl-tests, and the fabric, whose leaf switches and NVLink domains become racks. For several hosts, give their files and names in the same order, separated by commas or as repeated flags. Without --topology, the logs of nccl-tests name the hosts and GPUs. With --cluster, or from a log over several hosts, writes a whole fleet file. Needs no connection.",
    )
    .option(
      "--topology <files>",
      "output of `nvidia-smi topo -m`, or NCCL's topology XML",
      nameList,
    )
    .option(
      "--fabric <files>",
      "output of ibnetdiscover, Slurm's topology.conf or topology.yaml, or `nvidia-smi -q` of each host",
      nameList,
    )
    .option(
      "--gpus <count>",
      "GPUs of each host, where only the fabric is known",
      wholeNumber("--gpus", 1),
    )
    .option("--type <type>", "GPU type, e.g. H100 (default: the device in the logs)")
    .option(
      "--name <names>",
      "names of the hosts, or a range like h100-[1-4] (default: as in the topology file or the log)",
      nameList,
    )
    .option(
      "--bandwidth <files>",
      "output of nccl-tests (all runs of a host in one file, or over several hosts), or BandPilot's CSV",
      nameList,
    )
    .option("--cluster <name>", "write a whole fleet file with this cluster")
    .option("--site <name>", "site of the cluster (default: the cluster's name)")
    .option("--jurisdiction <name>", "jurisdiction of the site, e.g. EU")
    .option("-o, --output <file>", "write to this file (default: standard output)")
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
        [
          "orbweaver fleet import --bandwidth all_reduce_2_hosts.log --cluster eu-1 --jurisdiction EU",
          "a cluster from one log over its hosts",
        ],
        [
          "orbweaver fleet import --fabric topology.conf --type H100 --gpus 8 --cluster eu-1 --jurisdiction EU",
          "hosts and racks as Slurm knows them",
        ],
        [
          "orbweaver fleet import --topology n1.txt,n2.txt --type H100 --fabric ibnetdiscover.out",
          "hosts with the racks of their leaf switches",
        ],
        [
          "orbweaver fleet import --fabric n1-q.txt,n2-q.txt --name n1,n2",
          "NVLink domains from `nvidia-smi -q`",
        ],
      ]),
    )
    .action((values: ImportValues) => {
      const found = importedFrom(context.io.cwd, values);
      for (const note of found.notes) context.say(note);
      const { hosts } = found;
      const isWhole = values.cluster !== undefined || found.bandwidth.length > 0;
      const file = checked(context.io.cwd, values, found);
      for (const type of ownTypesOf(hosts)) {
        context.say(
          `${type} is no well-known GPU type: describe it under gpuTypes in the fleet file`,
        );
      }
      if (isWhole && (values.cluster === undefined || values.jurisdiction === undefined)) {
        context.say(
          `a log over several hosts is of a cluster: it is called ${UNNAMED} until you give --cluster and --jurisdiction`,
        );
      }
      const text = isWhole ? fleetYaml(file) : hostYaml(hosts);
      if (values.output !== undefined) {
        writeFileSync(resolve(context.io.cwd, values.output), text);
        context.say(
          `${values.output}: ${counted(hosts.length, "host entry").replace(/entrys$/, "entries")}`,
        );
      }
      if (values.json === true) context.printJson(isWhole ? file : { hosts });
      else if (values.output === undefined) context.io.stdout.write(text);
    });
}

const UNNAMED = "imported";

type ClusterBandwidth = string | { readonly file: string; readonly hosts: string[] };

interface Imported {
  readonly hosts: readonly HostEntry[];
  /** Files with measurements over several hosts. */
  readonly bandwidth: readonly ClusterBandwidth[];
  /** The user's names of the files, by their names in the result. */
  readonly givenByPath: ReadonlyMap<string, string>;
  /** What was left out, for people. */
  readonly notes: readonly string[];
}

function importedFrom(cwd: string, values: ImportValues): Imported {
  const { topology, bandwidth = [], fabric = [] } = values;
  if (topology === undefined && bandwidth.length === 0 && fabric.length === 0) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "nothing to import. Give --topology, --bandwidth, --fabric or several of them.",
    );
  }
  const isOfFabric = topology === undefined && bandwidth.length === 0;
  if (values.gpus !== undefined && !isOfFabric) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--gpus is for --fabric alone: the other files say how many GPUs there are. Leave it out.",
    );
  }
  const surveys = surveyFiles(cwd, bandwidth);
  const folder = folderOf(cwd, values);
  const asSeen = (file: string): string => relative(folder, resolve(cwd, file));
  const files = [...(topology ?? []), ...bandwidth];
  const givenByPath = new Map(files.map((file) => [asSeen(file), file]));
  if (isOfFabric) {
    const fabrics = readFabrics(cwd, fabric, values.name);
    const notes = notesOf(fabrics);
    return { hosts: hostsOfFabrics(fabrics, values), bandwidth: [], givenByPath, notes };
  }
  const made =
    topology === undefined
      ? entriesOfLogs(surveys, values, asSeen)
      : entriesOfTopologies({ cwd, topology, surveys, asSeen }, values);
  if (fabric.length === 0) return { ...made, givenByPath, notes: [] };
  const fabrics = readFabrics(
    cwd,
    fabric,
    made.hosts.map(({ name }) => name),
  );
  return { ...made, hosts: withRacks(made.hosts, fabrics), givenByPath, notes: notesOf(fabrics) };
}

const notesOf = (fabrics: readonly FabricFile[]): readonly string[] =>
  fabrics.flatMap(({ file, notes }) => notes.map((note) => `${harmless(file)}: ${note}`));

const folderOf = (cwd: string, { output }: ImportValues): string =>
  output === undefined ? cwd : dirname(resolve(cwd, output));

/** Hosts as the logs name them, or renamed in order of appearance. */
function entriesOfLogs(
  surveys: readonly SurveyedFile[],
  { type, name }: ImportValues,
  asSeen: (file: string) => string,
): Pick<Imported, "hosts" | "bandwidth"> {
  const found = hostsOf(surveys, type === undefined ? undefined : gpuTypeName(type));
  if (name !== undefined && name.length !== found.length) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${counted(name.length, "name")} for ${counted(found.length, "host")} of the logs (${namesText(found.map((host) => host.name))}). Give one name for each, in the same order.`,
    );
  }
  const newNames = new Map(found.map((host, index) => [host.name, name?.[index] ?? host.name]));
  const hosts = found.map(({ name: own, gpus, type: gpuType, insideFile }): HostEntry => {
    const entry = { name: newNames.get(own) ?? own, gpus, type: gpuType };
    if (insideFile === undefined) return entry;
    const file = asSeen(insideFile);
    const insides = surveys
      .filter((survey) => survey.file === insideFile)
      .flatMap((survey) => survey.hosts.filter((host) => host.isInside));
    return { ...entry, bandwidth: insides.length > 1 ? { file, host: own } : file };
  });
  const bandwidth = surveys
    .filter((survey) => survey.isOverHosts)
    .map(({ file, hosts: own }) =>
      name === undefined
        ? asSeen(file)
        : { file: asSeen(file), hosts: own.map((host) => newNames.get(host.name) ?? host.name) },
    );
  return { hosts, bandwidth };
}

interface TopologySources {
  readonly cwd: string;
  readonly topology: readonly string[];
  readonly surveys: readonly SurveyedFile[];
  readonly asSeen: (file: string) => string;
}

function entriesOfTopologies(
  { cwd, topology, surveys, asSeen }: TopologySources,
  { name, type }: ImportValues,
): Pick<Imported, "hosts" | "bandwidth"> {
  if (type === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "a topology does not say what its GPUs are. Give --type, e.g. --type H100.",
    );
  }
  if (name !== undefined && name.length !== topology.length) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${counted(name.length, "name")} for ${counted(topology.length, "topology file")}. Give one name for each, in the same order.`,
    );
  }
  const ofHosts = surveys.filter((survey) => !survey.isOverHosts);
  if (ofHosts.length > 0 && ofHosts.length !== topology.length) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${counted(ofHosts.length, "bandwidth file")} of one host for ${counted(topology.length, "topology file")}. Give one for each host, or none.`,
    );
  }
  const hosts = topology.map((file, index): HostEntry => {
    const measured = ofHosts[index];
    return {
      name: name?.[index] ?? basename(file, extname(file)),
      gpus: gpuCountIn(resolve(cwd, file), file),
      type: gpuTypeName(type),
      topology: asSeen(file),
      ...(measured !== undefined && { bandwidth: asSeen(measured.file) }),
    };
  });
  const overHosts = surveys.filter((survey) => survey.isOverHosts);
  return { hosts, bandwidth: overHosts.map((survey) => asSeen(survey.file)) };
}

function gpuCountIn(path: string, name: string): number {
  const text = readText(path);
  if (text.kind === "missing") {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${name} ${text.reason}. Name the output of \`nvidia-smi topo -m\`, or NCCL's topology XML.`,
    );
  }
  const parsed = parseTopology(text.text, { source: name });
  if (parsed.kind === "refused") {
    const problems = parsed.problems.map((problem) => problemText(name, problem));
    throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
  }
  return parsed.topology.gpuCount;
}

const ownTypesOf = (hosts: readonly HostEntry[]): string[] => [
  ...new Set(hosts.map(({ type }) => type).filter((type) => knownGpuType(type) === undefined)),
];

/** The whole fleet file, as the parser has accepted it; of entries alone with a made-up cluster around them. */
function checked(cwd: string, values: ImportValues, found: Imported): FleetFile {
  const { cluster = UNNAMED, site = cluster, jurisdiction = "unknown" } = values;
  if (values.cluster !== undefined && values.jurisdiction === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--cluster needs --jurisdiction: whose law holds there, e.g. --jurisdiction EU.",
    );
  }
  const { hosts } = found;
  const [first, ...others] = found.bandwidth;
  const file: FleetFile = {
    clusters: [
      {
        name: cluster,
        site,
        jurisdiction,
        hosts: [...hosts],
        ...(first !== undefined && { bandwidth: others.length === 0 ? first : [first, ...others] }),
      },
    ],
  };
  const stand = ownTypesOf(hosts).map((name) => ({ name, memory: "1 GiB", watts: "1 W" }));
  const folder = folderOf(cwd, values);
  const parsed = parseFleetYaml(
    fleetYaml(stand.length === 0 ? file : { ...file, gpuTypes: stand }),
    { file: UNWRITTEN, read: (path) => readText(resolve(folder, path)) },
  );
  if (parsed.kind === "parsed") return file;
  const problems = parsed.problems.map((problem) => formatProblem(asGiven(problem, file, found)));
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}

/** The parser's name of the result, which users do not see. */
const UNWRITTEN = "the import";

/** A problem in a result that is not written is reported about the user's input: a file, or a host with its key. */
function asGiven(
  { file, line, column, path, value, message, remedy }: FileProblem,
  { clusters }: FleetFile,
  { givenByPath }: Imported,
): FileProblem {
  if (file !== undefined && file !== UNWRITTEN) {
    const place = { ...(line !== undefined && { line }), ...(column !== undefined && { column }) };
    return { file: givenByPath.get(file) ?? file, ...place, path: "", value, message, remedy };
  }
  const [, index, key = ""] = /hosts\[(\d+)\]\.?(\w*)/.exec(path) ?? [];
  const host = index === undefined ? undefined : clusters[0]?.hosts[Number(index)];
  const named =
    key === "topology" ? host?.topology : key === "bandwidth" ? host?.bandwidth : undefined;
  const source = typeof named === "string" ? named : named?.file;
  if (source !== undefined) {
    return { file: givenByPath.get(source) ?? source, path: "", value, message, remedy };
  }
  if (host !== undefined) return { path: `host ${host.name}, ${key}`, value, message, remedy };
  const flag = /^clusters\[0\]\.(name|site|jurisdiction)$/.exec(path)?.[1];
  const asFlag = flag === "name" ? "--cluster" : flag === undefined ? "" : `--${flag}`;
  return { path: asFlag, value, message: withGiven(message, givenByPath), remedy };
}

/** A cluster's measurements are named at the start of the message, by the path in the result. */
function withGiven(message: string, givenByPath: ReadonlyMap<string, string>): string {
  for (const [path, given] of givenByPath) {
    if (message.startsWith(`${shown(path)}: `)) {
      return `${harmless(given)}: ${message.slice(shown(path).length + 2)}`;
    }
  }
  return message;
}
