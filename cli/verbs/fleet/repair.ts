/** @file `orbweaver fleet repair`: lists what the ledger holds that nobody confirms, and frees what all deny. */

import type { Command } from "commander";
import type { Doubt } from "../../../client/index.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { counted } from "../../terminal/duration.ts";
import { doubtText, formerRepairs, noteText } from "../../text/repair-text.ts";

interface RepairValues extends ConnectionOptionValues {
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const MAX_LISTED = 20;

export function fleetRepairVerb(context: CommandContext): Command {
  const verb = context
    .verb("repair")
    .summary("free what no job, host or agent confirms")
    .description(
      "Lists what the fleet's ledger holds that no job, host or agent confirms: leases of jobs whose run is over or that run elsewhere, requests of ended jobs, reservations of jobs that are gone. With --yes the fleet asks jobs and agents again, and frees what all have denied; the agents stop whatever still runs under such a lease. A host that does not answer denies nothing. The fleet keeps a note of each repair.",
    )
    .argument("[fleet]", "name of the fleet, as with --fleet")
    .option("--yes", "ask again, and free what all deny")
    .option("--dry-run", "only list; the default")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet repair", "list what nobody confirms; change nothing"],
        ["orbweaver fleet repair --yes", "ask everybody again, and free what all deny"],
      ]),
    )
    .action(async (name: string | undefined, values: RepairValues) => {
      const named = name === undefined ? values : { ...values, fleet: name };
      await context.withSession(named, async ({ client, fleet }) => {
        const { doubts, ledger } = await client.doubts();
        const isAsked = values.yes === true && values.dryRun !== true && doubts.length > 0;
        if (values.json !== true) sayDoubts(context, fleet, doubts);
        if (!isAsked) {
          if (values.json === true) context.printJson({ fleet, doubts, repairs: ledger.repairs });
          else sayEnd(context, doubts, formerRepairs(ledger));
          return;
        }
        context.say("Asking jobs and agents; silent ones take half a minute …");
        const by = context.io.env["USER"] ?? context.io.env["LOGNAME"] ?? "an operator";
        const repair = await client.repair(doubts, by);
        if (values.json === true) context.printJson({ fleet, doubts, repair });
        else context.print(noteText(repair));
      });
    });
  return addConnectionOptions(verb);
}

function sayDoubts(context: CommandContext, fleet: string, doubts: readonly Doubt[]): void {
  if (doubts.length === 0) {
    context.print(`Fleet ${fleet}: everything that the ledger holds is confirmed.`);
    return;
  }
  context.print(`Fleet ${fleet}: ${counted(doubts.length, "thing")} not confirmed by everybody\n`);
  for (const doubt of doubts.slice(0, MAX_LISTED)) context.print(`${doubtText(doubt)}\n`);
  const more = doubts.length - MAX_LISTED;
  if (more > 0) context.print(`… and ${String(more)} more; --json lists all\n`);
}

function sayEnd(
  context: CommandContext,
  doubts: readonly Doubt[],
  former: readonly string[],
): void {
  if (doubts.length > 0) {
    context.print(
      "Nothing was changed. Jobs that have just ended free themselves within seconds.\nTo ask everybody again and free what all deny: orbweaver fleet repair --yes",
    );
  }
  if (former.length > 0)
    context.print(["\nFormer repairs:", ...former.map((line) => `  ${line}`)].join("\n"));
}
