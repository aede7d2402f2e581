/** @file `orbweaver queue release`: ends what `orbweaver queue hold` began. */

import type { Command } from "commander";
import { queueFlags, queueName } from "../../../domain/lease/queue-part.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import {
  addQueuePartOptions,
  queuePartOf,
  type QueuePartValues,
} from "../../command/queue-part.ts";

interface ReleaseValues extends ConnectionOptionValues, QueuePartValues {
  readonly json?: boolean;
}

export function queueReleaseVerb(context: CommandContext): Command {
  const verb = addQueuePartOptions(context.verb("release"))
    .summary("let jobs of a held part of the queue start again")
    .description(
      "Ends one hold, which is named as it was made: without a flag, that of the whole fleet. Holds of tenants and classes stay until they are released themselves.",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver queue release --tenant research", "one tenant"],
        ["orbweaver queue release", "the whole fleet"],
      ]),
    )
    .action(async (values: ReleaseValues) => {
      const queue = queuePartOf(values);
      await context.withFleet(values, async ({ client, fleet }) => {
        const { holds } = await client.fleet();
        if (holds?.has(queueName(queue)) !== true) {
          const others = [...(holds?.values() ?? [])].map(
            (hold) => `\`orbweaver queue release${queueFlags(hold.queue)}\``,
          );
          const found = others.length === 0 ? "nothing of it is" : `held: ${others.join(", ")}`;
          throw new OrbweaverError(
            "NOT_FOUND",
            `${queueName(queue)} is not held in fleet ${fleet}; ${found}${others.length === 0 ? "" : " ends that"}`,
          );
        }
        await client.releaseQueue(queue);
        if (values.json === true) context.printJson({ queue, name: queueName(queue) });
        else context.print(`${queueName(queue)}  released`);
      });
    });
  return addServiceOptions(verb);
}
