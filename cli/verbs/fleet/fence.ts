/** @file `orbweaver fence HOST…`: declares that nothing runs on these hosts, so that their jobs move at once. */

import type { Command } from "commander";
import type { FencedHost, FencedLease } from "../../../client/index.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted } from "../../terminal/duration.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface FenceValues extends ConnectionOptionValues {
  readonly force?: boolean;
  readonly json?: boolean;
}

export function fenceVerb(context: CommandContext): Command {
  const verb = context
    .verb("fence")
    .summary("declare dead hosts, so that their jobs move")
    .description(
      "Declares that nothing runs on these hosts, because the machines are off or cut off for good. Their jobs move at once, instead of after the cluster's `fence` time. A fenced host is used again when its agent registers. `orbweaver fleet show` lists silent hosts. Hosts whose agents answer are refused; drain those instead.",
    )
    .argument("<host...>", "hosts as <cluster>/<host>, or a cluster for all its hosts")
    .option("--force", "fence even hosts whose agents answer")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fence eu-1/host-3", "a host whose power supply has failed"],
        ["orbweaver fence eu-1", "a whole cluster without power"],
      ]),
    )
    .action(async (hosts: readonly string[], values: FenceValues) => {
      const fenced = await context.withFleet(values, ({ client }) =>
        client.fence(hosts, { isForced: values.force === true }),
      );
      const answering = fenced.filter(({ wasAnswering }) => wasAnswering);
      if (answering.length > 0) context.say(warningText(answering));
      if (values.json === true) context.printJson({ fenced });
      else for (const host of fenced) context.print(hostText(host));
    });
  return addServiceOptions(verb);
}

function hostText({ host, wasFenced, gpus, leases }: FencedHost): string {
  if (wasFenced && leases.length === 0) return `${host}  was fenced already`;
  if (leases.length === 0) return `${host}  fenced; no job had anything there`;
  const title = `${host}  fenced: ${counted(gpus, "GPU")} of ${counted(leases.length, "lease")}`;
  return [title, ...leases.map((lease) => `  ${leaseText(lease)}`)].join("\n");
}

const leaseText = ({ jobId, lease, gpus, becomes }: FencedLease): string =>
  becomes === "moves"
    ? `${jobId} moves: its run on ${counted(gpus, "GPU")} ends (${lease})`
    : `${jobId} has ended: ${counted(gpus, "GPU")} free now (${lease})`;

function warningText(answering: readonly FencedHost[]): string {
  const hosts = answering.map(({ host }) => host);
  const named = hosts.slice(0, MAX_NAMED).join(", ");
  const more = hosts.length > MAX_NAMED ? ` and ${String(hosts.length - MAX_NAMED)} more` : "";
  return [
    `${named}${more}: the agent was still there.`,
    "What runs there may run beside its own successor until its job has stopped it, or until the",
    "agent reports again: then what is left is stopped by a sweep or a higher token. The agent",
    "reports when it is restarted; until then none of its GPUs is offered.",
  ].join("\n");
}

const MAX_NAMED = 5;
