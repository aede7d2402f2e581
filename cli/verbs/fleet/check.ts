/**
 * @file `orbweaver fleet check FILE`: lists all problems of a fleet file, each with its place; exits with 2 when there is one.
 */

import type { Command } from "commander";
import { formatProblem } from "../../../domain/values/file-problem.ts";
import type { Fleet } from "../../../domain/fleet/fleet.ts";
import { counted } from "../../terminal/duration.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { parseFleetAt } from "../../command/fleet-files.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

export function fleetCheckVerb(context: CommandContext): Command {
  return context
    .verb("check")
    .summary("check a fleet file")
    .description(
      "Reads a fleet file and the measurements that it names, and lists every problem as file:line:column. Needs no connection. Exits with status 2 when there is a problem.",
    )
    .argument("<fleet.yaml>", "the fleet file")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver fleet check fleet.yaml", "before `orbweaver up` or a review"]]),
    )
    .action((file: string, values: { readonly json?: boolean }) => {
      const parsed = parseFleetAt(file, context.io.cwd);
      if (parsed.kind === "refused") {
        const { problems } = parsed;
        if (values.json === true) context.printJson({ file, isFine: false, problems });
        else {
          context.print(problems.map(formatProblem).join("\n"));
          context.say(`${file}: ${counted(problems.length, "problem")}`);
        }
        context.exitWith(EXIT.usage);
        return;
      }
      const found = foundIn(parsed.fleet);
      if (values.json === true) context.printJson({ file, isFine: true, ...found });
      else context.print(`${file}: fine; ${foundText(found)}`);
    });
}

interface Found {
  readonly name: string;
  readonly clusters: number;
  readonly hosts: number;
  readonly gpus: number;
  readonly links: number;
  readonly tenants: number;
  readonly hostsWithTopology: number;
  readonly hostsWithBandwidth: number;
}

function foundIn({ name, shape, details }: Fleet): Found {
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts);
  const measured = [...details.values()];
  return {
    name,
    clusters: shape.clusters.length,
    hosts: hosts.length,
    gpus: hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0),
    links: shape.links.length,
    tenants: shape.tenants.length,
    hostsWithTopology: measured.filter(({ topology }) => topology !== undefined).length,
    hostsWithBandwidth: measured.filter(({ bandwidth }) => bandwidth !== undefined).length,
  };
}

function foundText(found: Found): string {
  return [
    counted(found.clusters, "cluster"),
    counted(found.hosts, "host"),
    counted(found.gpus, "GPU"),
    counted(found.links, "directed link"),
    counted(found.tenants, "tenant"),
    `topology of ${counted(found.hostsWithTopology, "host")}`,
    `bandwidth of ${counted(found.hostsWithBandwidth, "host")}`,
  ].join(", ");
}
