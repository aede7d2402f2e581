/** @file `orbweaver restore`: a fleet's state as a backup has it; `orbweaver up` starts it. */

import type { Command } from "commander";
import { resolve } from "node:path";
import { fleetStateDir } from "../../../workers/state.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { oneAtATime } from "../../up/one-at-a-time.ts";
import { readManifest, restoreBackup } from "../../up/restore.ts";

interface RestoreValues {
  readonly fleet?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export function restoreVerb(context: CommandContext): Command {
  return context
    .verb("restore")
    .summary("bring a fleet's state back from a backup")
    .description(
      "Puts what `orbweaver backup` has copied back into place, after checking every file. `orbweaver up` then starts the fleet: jobs that waited wait again, jobs that ran then go on where their processes or checkpoints are still there, and start anew elsewhere. Jobs that were submitted since are lost, and those that have ended since run again.",
    )
    .argument("<folder>", "a folder that `orbweaver backup` has written")
    .option("--fleet <name>", "refuse a backup of another fleet")
    .option("--force", "move databases and tables that are there aside")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver restore /mnt/backups/2026-11-24", "then `orbweaver up`"],
        ["orbweaver restore --force /mnt/backups/2026-11-24", "over the present state"],
      ]),
    )
    .action(async (name: string, { fleet, force, json }: RestoreValues) => {
      const { io } = context;
      const folder = resolve(io.cwd, name);
      const manifest = await readManifest(folder, fleet);
      const stateDir = fleetStateDir(io.env, manifest.fleet);
      const { aside, fleetFile, elsewhere } = await oneAtATime(context, stateDir, () =>
        restoreBackup({
          ...{ folder, manifest, stateDir, isForced: force === true },
          nowMs: io.nowMs(),
        }),
      );
      const takenAt = new Date(manifest.takenAtMs).toISOString();
      if (json === true)
        return context.printJson({
          ...{ fleet: manifest.fleet, takenAt, fleetFile, stateDir },
          ...(aside !== undefined && { aside }),
          ...(elsewhere !== undefined && { temporal: elsewhere }),
        });
      context.print(`fleet ${manifest.fleet} is as it was at ${takenAt}`);
      if (aside !== undefined) context.say(`its former databases and tables are in ${aside}`);
      if (elsewhere !== undefined)
        context.say(
          `its jobs are in the Temporal server at ${elsewhere}, as that has them; none of them was restored`,
        );
      context.say(`its fleet file: ${fleetFile}`);
      context.say(`start it with: orbweaver up --fleet ${manifest.fleet}`);
    });
}
