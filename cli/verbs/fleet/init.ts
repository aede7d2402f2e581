/**
 * @file `orbweaver init`: a first fleet file, for this machine, with a word about every key and about those that it leaves out.
 *
 * The file is read back by the fleet file's own parser before anything is written. What is there is never overwritten without --force.
 */

import type { Command } from "commander";
import { existsSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { driverView } from "../../../agent/system/gpu-driver.ts";
import { localGpus } from "../../command/local-gpus.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";
import {
  fleetText,
  MADE_UP,
  problemsOf,
  readable,
  TOPOLOGY,
  typeNamed,
  type FleetPlace,
} from "../../command/own-fleet.ts";

interface InitValues extends FleetPlace {
  readonly force?: boolean;
  readonly json?: boolean;
}

export function initVerb(context: CommandContext): Command {
  return context
    .verb("init")
    .summary("write a first fleet file for this machine")
    .description(
      "Writes a fleet file with this machine as its one host: its GPUs and their topology as their driver shows them, and comments about what else the file can say. On a machine without an NVIDIA driver the GPUs are made up (a simulated cluster). Needs no connection.",
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
      const found = await localGpus(driverView(io.env, packageRoot()), values);
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
