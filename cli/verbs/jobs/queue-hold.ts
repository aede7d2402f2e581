/** @file `orbweaver queue hold`: nothing of a tenant, of a class or of the fleet starts until `orbweaver queue release`. */

import type { Command } from "commander";
import type { Ledger } from "../../../client/index.ts";
import { queueName, type QueuePart } from "../../../domain/lease/queue-part.ts";
import { holdOf } from "../../../scheduling/ledger/rules/queue-holds.ts";
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
import { counted } from "../../terminal/duration.ts";

interface HoldValues extends ConnectionOptionValues, QueuePartValues {
  readonly drain?: boolean;
  readonly reason?: string;
  readonly json?: boolean;
}

export function queueHoldVerb(context: CommandContext): Command {
  const verb = addQueuePartOptions(context.verb("hold"))
    .summary("let nothing of a tenant, a class or the fleet start")
    .description(
      "Holds a part of the queue: nothing of it starts until `orbweaver queue release`, not even again after a failure. Jobs may still be submitted, and keep their age. What runs goes on; it may be preempted for jobs of others, and then waits. With --drain it is not preempted, moved or resized either. `explain`, `queue` and `fleet show` say who holds what, and since when.",
    )
    .option("--drain", "let what runs there finish undisturbed")
    .option("--reason <text>", "reason that `explain` and `fleet show` give")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ['orbweaver queue hold --tenant research --reason "over budget"', "one tenant"],
        ["orbweaver queue hold --class training", "one class"],
        ["orbweaver queue hold --drain", "the whole fleet, before an upgrade"],
      ]),
    )
    .action(async (values: HoldValues) => {
      const queue = queuePartOf(values);
      const { drain = false, reason } = values;
      await context.withFleet(values, async ({ client }) => {
        await client.holdQueue(queue, {
          isDraining: drain,
          ...(reason !== undefined && { reason }),
        });
        const { waiting, running } = jobsOf(await client.fleet(), queue);
        if (values.json === true)
          context.printJson({ queue, name: queueName(queue), isDraining: drain, waiting, running });
        else
          context.print(
            `${queueName(queue)}  held; ${counted(waiting, "job")} of it ${waiting === 1 ? "waits" : "wait"}, ${counted(running, "lease")} ${running === 1 ? "goes" : "go"} on`,
          );
      });
    });
  return addServiceOptions(verb);
}

/** What waits and runs of a part of the queue. */
function jobsOf(
  { requests, leases }: Ledger,
  queue: QueuePart,
): { readonly waiting: number; readonly running: number } {
  const only = new Map([[queueName(queue), { queue, by: "", atMs: 0 }]]);
  const isOfIt = (each: Parameters<typeof holdOf>[1]): boolean => holdOf(only, each) !== undefined;
  return {
    waiting: [...requests.values()].filter(isOfIt).length,
    running: [...leases.values()].filter(isOfIt).length,
  };
}
