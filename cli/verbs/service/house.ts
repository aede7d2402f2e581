/** @file `orbweaver house`: what a fleet keeps on this machine, how large it is, and who removes it. */

import type { Command } from "commander";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { houseOf, type House } from "../../support/house.ts";
import { counted, timeText } from "../../terminal/duration.ts";
import { widthOf } from "../../terminal/io.ts";
import { tableText } from "../../terminal/table.ts";

interface HouseValues {
  readonly fleet?: string;
  readonly json?: boolean;
}

/** In the text; the document has all. */
const MOST_SHOWN = 5;

export function houseVerb(context: CommandContext): Command {
  return context
    .verb("house")
    .summary("show what a fleet keeps on this machine")
    .description(
      "Shows what `orbweaver up` and the agents of this machine keep for a fleet: databases, archived runs, the store, the output of launches, checkpoints, logs; how large each is, who removes it by which rule, and what is due by that rule. It looks at files alone, asks no server, and removes nothing.",
    )
    .option("--fleet <name>", "name of the fleet")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver house", "what lies where, and the largest checkpoints"],
        ["orbweaver house --json", "the same with the checkpoints of every job, for a script"],
      ]),
    )
    .action((values: HouseValues) => {
      const { io } = context;
      const fleet = fleetNamed(values, io.env);
      const stateDir = fleetStateDir(io.env, fleet);
      if (!existsSync(stateDir))
        throw new OrbweaverError(
          "NOT_FOUND",
          `there is no fleet ${fleet} in ${dirname(stateDir)}. Run this where \`orbweaver up\` or an agent was run, or name the fleet with --fleet.`,
        );
      const house = houseOf(stateDir, io.nowMs());
      if (values.json === true) context.printJson({ fleet, stateDir, ...house });
      else context.print(houseText(stateDir, house, widthOf(io.stdout)));
    });
}

function houseText(stateDir: string, { holdings, checkpoints }: House, width: number): string {
  const rows = holdings.map(({ what, files, bytes, due, keptBy }) => [
    what,
    String(files),
    sizeText(bytes),
    due === undefined ? "-" : sizeText(due.bytes),
    keptBy,
  ]);
  const columns = [
    { title: "WHAT" },
    { title: "FILES", isRight: true },
    { title: "SIZE", isRight: true },
    { title: "DUE", isRight: true },
    { title: "KEPT", least: 20 },
  ];
  const unread = holdings.reduce((sum, holding) => sum + holding.unread, 0);
  const largest = checkpoints
    .slice(0, MOST_SHOWN)
    .map(
      ({ folder, bytes, changedAtMs }) =>
        `  ${sizeText(bytes)}  ${folder}, changed ${timeText(changedAtMs)}`,
    );
  return [
    `in ${stateDir}`,
    tableText(columns, rows, width),
    ...(largest.length > 0 ? ["largest checkpoints", ...largest] : []),
    ...(unread > 0 ? [`not counted: ${counted(unread, "file")} that you may not read`] : []),
  ].join("\n");
}

const sizeText = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;
