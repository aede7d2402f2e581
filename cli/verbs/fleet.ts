/** @file `orbweaver fleet …`: look at a fleet, check or apply its description, make a part of one from measurements. */

import type { Command } from "commander";
import { helpEnd, type Kit } from "../kit.ts";
import { fleetApplyVerb } from "./fleet-apply.ts";
import { fleetCheckVerb } from "./fleet-check.ts";
import { fleetImportVerb } from "./fleet-import.ts";
import { fleetLinksVerb } from "./fleet-links.ts";
import { fleetMeasureVerb } from "./fleet-measure.ts";
import { fleetShowVerb } from "./fleet-show.ts";

export function fleetVerb(kit: Kit): Command {
  return kit
    .verb("fleet")
    .summary("look at a fleet and describe it")
    .description(
      "Shows a fleet, and works on its description: clusters, hosts, GPUs, links, tenants.",
    )
    .addCommand(fleetShowVerb(kit))
    .addCommand(fleetLinksVerb(kit))
    .addCommand(fleetImportVerb(kit))
    .addCommand(fleetMeasureVerb(kit))
    .addCommand(fleetCheckVerb(kit))
    .addCommand(fleetApplyVerb(kit))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet show", "which GPUs are free, held, drained"],
        ["orbweaver fleet links", "what each link is worth, as measured"],
        ["orbweaver fleet check fleet.yaml", "every problem of a description at once"],
      ]),
    );
}
