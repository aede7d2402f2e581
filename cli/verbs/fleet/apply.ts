/** @file `orbweaver fleet apply FILE`: replaces the description of a running fleet; its leases are kept. */

import type { Command } from "commander";
import { fleetStateDir } from "../../../workers/state.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted } from "../../terminal/duration.ts";
import { answerInSession } from "../../command/answer.ts";
import { fleetChanges, fleetChangesText } from "../../text/fleet-changes.ts";
import { readFleet } from "../../command/fleet-files.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { tellModels } from "../../measuring/tell-model.ts";
import { configureFleet, storeDetails } from "../../up/fleet-start.ts";

interface ApplyValues extends ConnectionOptionValues {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export function fleetApplyVerb(context: CommandContext): Command {
  const verb = context
    .verb("apply")
    .summary("apply a fleet file to a running fleet")
    .description(
      "Replaces the description of a running fleet. Leases are kept, also on hosts that the new description lacks. When a limit is lowered below the present use, the use is shown as over the limit. New hosts are used once their agents register. With --dry-run nothing is applied; measured tables are not compared.",
    )
    .argument("<fleet.yaml>", "the fleet file")
    .option("--dry-run", "apply nothing; show what would change, and for whom")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet apply fleet.yaml --dry-run", "show what would change, and for whom"],
        ["orbweaver fleet apply fleet.yaml", "apply changed quotas or hosts"],
      ]),
    )
    .action(async (file: string, values: ApplyValues) => {
      const description = readFleet(file, context.io.cwd);
      if (values.dryRun === true) {
        await answerInSession(context, values, async ({ client, fleet }) => {
          const changes = fleetChanges(await client.fleet(), description.shape);
          const document = { fleet, file, isApplied: false, changes };
          return { document, text: () => fleetChangesText(changes) };
        });
        return;
      }
      await context.withSession(values, async ({ temporal, fleet }) => {
        const stateDir = fleetStateDir(context.io.env, fleet);
        const detailsHash = await storeDetails(description, stateDir);
        await configureFleet(temporal, { name: fleet, fleet: description, detailsHash });
        await tellModels(temporal, fleet, description.interHost);
        const clusters = description.shape.clusters.length;
        const hosts = description.shape.clusters.flatMap((cluster) => cluster.hosts).length;
        if (values.json === true) context.printJson({ fleet, file, clusters, hosts });
        else
          context.print(
            `fleet ${fleet}: ${counted(clusters, "cluster")}, ${counted(hosts, "host")}`,
          );
      });
    });
  return addConnectionOptions(verb);
}
