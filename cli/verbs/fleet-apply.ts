/** @file `orbweaver fleet apply FILE`: gives a running fleet another description; what runs goes on. */

import type { Command } from "commander";
import { fleetStateDir } from "../../workers/state.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted } from "../duration.ts";
import { readFleet } from "../fleet-files.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { tellModels } from "../measuring/tell-model.ts";
import { configureFleet, discardOldDetails, storeDetails } from "../up/fleet-start.ts";

export function fleetApplyVerb(kit: Kit): Command {
  const verb = kit
    .verb("apply")
    .summary("describe a running fleet anew")
    .description(
      "Replaces the description of a running fleet. Leases stay, also on hosts that the new description lacks;\n" +
        "a limit that was lowered shows as over-use. New hosts are used once their agents say hello.",
    )
    .argument("<fleet.yaml>", "the fleet file")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver fleet apply fleet.yaml", "after a change of quotas or hosts"]]),
    )
    .action(async (file: string, values: ConnectionOptionValues & { readonly json?: boolean }) => {
      const description = readFleet(file, kit.io.cwd);
      await kit.withSession(values, async ({ temporal, fleet }) => {
        const stateDir = fleetStateDir(kit.io.env, fleet);
        const detailsHash = await storeDetails(description, stateDir);
        await configureFleet(temporal, { name: fleet, fleet: description, detailsHash });
        await tellModels(temporal, fleet, description.interHost);
        await discardOldDetails(stateDir, detailsHash, kit.io.nowMs());
        const clusters = description.shape.clusters.length;
        const hosts = description.shape.clusters.flatMap((cluster) => cluster.hosts).length;
        if (values.json === true) kit.printJson({ fleet, file, clusters, hosts });
        else
          kit.print(`fleet ${fleet}: ${counted(clusters, "cluster")}, ${counted(hosts, "host")}`);
      });
    });
  return addConnectionOptions(verb);
}
