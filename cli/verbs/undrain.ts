/** @file `orbweaver undrain HOST…`: hosts are offered to jobs again. */

import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { helpEnd, type Kit } from "../kit.ts";

export function undrainVerb(kit: Kit): Command {
  const verb = kit
    .verb("undrain")
    .summary("grant GPUs of hosts again")
    .description("Ends `orbweaver drain`: the hosts are offered to jobs again.")
    .argument("<host...>", "hosts as <cluster>/<host>")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver undrain eu-1/host-3", "after the repair"]]))
    .action(
      async (
        hosts: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean },
      ) => {
        const undrained = await kit.withSession(values, ({ client }) => client.undrain(hosts));
        if (values.json === true) kit.printJson({ undrained });
        else for (const host of undrained) kit.print(`${host}  in service`);
      },
    );
  return addConnectionOptions(verb);
}
