/** @file `orbweaver undrain HOST…`: allows new grants on drained hosts again. */

import type { Command } from "commander";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

export function undrainVerb(context: CommandContext): Command {
  const verb = context
    .verb("undrain")
    .summary("grant GPUs of hosts again")
    .description(
      "Ends `orbweaver drain`, calls off a drain that is planned with --at, and ends the drains by which agents took these hosts out of service: the scheduler grants their GPUs again.",
    )
    .argument("<host...>", "hosts as <cluster>/<host>")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver undrain eu-1/host-3", "use a host again after the repair"]]),
    )
    .action(
      async (
        hosts: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean },
      ) => {
        const undrained = await context.withFleet(values, ({ client }) => client.undrain(hosts));
        if (values.json === true) context.printJson({ undrained });
        else for (const host of undrained) context.print(`${host}  in service`);
      },
    );
  return addServiceOptions(verb);
}
