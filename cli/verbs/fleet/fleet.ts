/** @file `orbweaver fleet …`: shows a fleet, checks or applies its description, and makes parts of one from measurements. */

import type { Command } from "commander";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { fleetApplyVerb } from "./apply.ts";
import { fleetCheckVerb } from "./check.ts";
import { fleetDiscoverVerb } from "./discover.ts";
import { fleetImportVerb } from "./import.ts";
import { fleetLinksVerb } from "./links.ts";
import { fleetMeasureVerb } from "./measure.ts";
import { fleetRepairVerb } from "./repair.ts";
import { fleetShowVerb } from "./show.ts";
import { fleetUpgradeVerb } from "./upgrade.ts";

export function fleetVerb(context: CommandContext): Command {
  return context
    .verb("fleet")
    .summary("show, check, change and upgrade a fleet")
    .description(
      "Shows a fleet, and reads, checks and applies its description: clusters, hosts, GPUs, links and tenants.",
    )
    .addCommand(fleetShowVerb(context))
    .addCommand(fleetLinksVerb(context))
    .addCommand(fleetDiscoverVerb(context))
    .addCommand(fleetImportVerb(context))
    .addCommand(fleetMeasureVerb(context))
    .addCommand(fleetCheckVerb(context))
    .addCommand(fleetApplyVerb(context))
    .addCommand(fleetRepairVerb(context))
    .addCommand(fleetUpgradeVerb(context))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet show", "free, leased and drained GPUs"],
        ["orbweaver fleet links", "the measured bandwidth of each link"],
        ["orbweaver fleet check fleet.yaml", "all problems of a fleet file"],
      ]),
    );
}
