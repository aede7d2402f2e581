/** @file `orbweaver drain HOST…`: no new grants on these hosts; what runs there goes on. */

import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { helpEnd, type Kit } from "../kit.ts";

interface DrainValues extends ConnectionOptionValues {
  readonly reason: string;
  readonly json?: boolean;
}

export function drainVerb(kit: Kit): Command {
  const verb = kit
    .verb("drain")
    .summary("stop granting GPUs of hosts")
    .description(
      "Takes hosts out of scheduling until `orbweaver undrain`. What runs on them goes on to its end.\n" +
        "`orbweaver fleet show` tells which hosts are drained, and why.",
    )
    .argument("<host...>", "hosts as <cluster>/<host>; `orbweaver fleet show` lists them")
    .option("--reason <text>", "why, for the next person who looks", "drained by hand")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([['orbweaver drain eu-1/host-3 --reason "bad NVLink"', "before a repair"]]),
    )
    .action(async (hosts: readonly string[], values: DrainValues) => {
      const drained = await kit.withSession(values, ({ client }) =>
        client.drain(hosts, values.reason),
      );
      if (values.json === true) kit.printJson({ drained });
      else for (const host of drained) kit.print(`${host}  drained`);
    });
  return addConnectionOptions(verb);
}
