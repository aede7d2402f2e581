/** @file `orbweaver backup`: copies all that `up` keeps of a fleet into a new folder, while the fleet goes on. */

import type { Command } from "commander";
import { resolve } from "node:path";
import { fleetStateDir } from "../../../workers/state.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { counted } from "../../terminal/duration.ts";
import { oneAtATime } from "../../up/one-at-a-time.ts";
import { takeBackup } from "../../up/backup.ts";

interface BackupValues {
  readonly fleet?: string;
  readonly json?: boolean;
}

export function backupVerb(context: CommandContext): Command {
  return context
    .verb("backup")
    .summary("copy a fleet's state into a folder")
    .description(
      "Copies what `orbweaver up` keeps of a fleet on this machine into a new folder, while the fleet goes on: the database of its own Temporal server with all jobs and histories, the history database, measured tables, the fleet file. Private keys, logs and checkpoints are not copied; nor is the database of a Temporal server of yours.",
    )
    .argument("<folder>", "a new folder")
    .option("--fleet <name>", "name of the fleet")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver backup /mnt/backups/2026-11-24", "a folder with all of the fleet"],
        ["orbweaver restore /mnt/backups/2026-11-24", "the fleet as it was then"],
      ]),
    )
    .action(async (name: string, values: BackupValues) => {
      const { io } = context;
      const fleet = fleetNamed(values, io.env);
      const folder = resolve(io.cwd, name);
      const stateDir = fleetStateDir(io.env, fleet);
      const { manifest, left, problems, elsewhere } = await oneAtATime(context, stateDir, () =>
        takeBackup({ fleet, stateDir, folder, nowMs: io.nowMs() }),
      );
      const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
      if (values.json === true)
        return context.printJson({
          ...{ fleet, folder, bytes, left, problems },
          takenAt: new Date(manifest.takenAtMs).toISOString(),
          files: manifest.files.length,
          ...(elsewhere !== undefined && { temporal: elsewhere }),
        });
      context.print(
        `${folder}: fleet ${fleet}, ${counted(manifest.files.length, "file")}, ${(bytes / 2 ** 20).toFixed(1)} MiB`,
      );
      if (elsewhere !== undefined)
        context.say(
          `jobs and histories are in the Temporal server at ${elsewhere}; back up its database as well`,
        );
      for (const each of problems) context.say(each);
      for (const file of left) context.say(`not in it, because it is elsewhere or secret: ${file}`);
      context.say("not in it: private keys, logs, checkpoints");
    });
}
