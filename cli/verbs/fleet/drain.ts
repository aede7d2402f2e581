/** @file `orbweaver drain HOST…`: stops new grants on these hosts; their runs continue. */

import type { Command } from "commander";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface DrainValues extends ConnectionOptionValues {
  readonly reason: string;
  readonly json?: boolean;
}

export function drainVerb(context: CommandContext): Command {
  const verb = context
    .verb("drain")
    .summary("stop granting GPUs of hosts")
    .description(
      "Takes hosts out of scheduling until `orbweaver undrain`. Running jobs continue to their end. `orbweaver fleet show` lists drained hosts with their reasons.",
    )
    .argument("<host...>", "hosts as <cluster>/<host>; `orbweaver fleet show` lists them")
    .option("--reason <text>", "reason that `orbweaver fleet show` lists", "drained by hand")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ['orbweaver drain eu-1/host-3 --reason "bad NVLink"', "drain a host before a repair"],
      ]),
    )
    .action(async (hosts: readonly string[], values: DrainValues) => {
      const drained = await context.withFleet(values, ({ client }) =>
        client.drain(hosts, values.reason),
      );
      if (values.json === true) context.printJson({ drained });
      else for (const host of drained) context.print(`${host}  drained`);
    });
  return addServiceOptions(verb);
}
