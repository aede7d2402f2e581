/** @file `orbweaver undrain HOST…`: allows new grants on drained hosts again. */

import { Option, type Command } from "commander";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { gpuList } from "../../command/option-values.ts";
import { gpusText } from "../../text/drained-hosts.ts";

interface UndrainValues extends ConnectionOptionValues {
  readonly gpu?: readonly number[];
  readonly json?: boolean;
}

export function undrainVerb(context: CommandContext): Command {
  const verb = context
    .verb("undrain")
    .summary("grant hosts, or GPUs of them, again")
    .description(
      "Ends `orbweaver drain`, calls off a drain that is planned with --at, and ends the drains by which agents took these hosts out of service: the scheduler grants their GPUs again. GPUs that are drained by themselves stay so until they are named with --gpu.",
    )
    .argument("<host...>", "hosts as <cluster>/<host>")
    .addOption(
      new Option("--gpu <numbers>", "these GPUs of each host alone, e.g. 3 or 3,5").argParser(
        gpuList,
      ),
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver undrain eu-1/host-3", "use a host again after the repair"],
        ["orbweaver undrain eu-1/host-3 --gpu 3,5", "use two of its GPUs again"],
      ]),
    )
    .action(async (hosts: readonly string[], values: UndrainValues) => {
      const { gpu: gpus, json } = values;
      const undrained = await context.withFleet(values, async ({ client }) => {
        if (gpus === undefined) return await client.undrain(hosts);
        await client.undrainGpus({ hosts, gpus });
        return hosts;
      });
      if (json === true) context.printJson({ undrained, ...(gpus !== undefined && { gpus }) });
      else
        for (const host of undrained)
          context.print(`${host}${gpus === undefined ? "" : ` ${gpusText(gpus)}`}  in service`);
    });
  return addServiceOptions(verb);
}
