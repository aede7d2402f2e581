/** @file `orbweaver fleet show`: clusters, hosts, each GPU's state, tenants with what they hold of their quota. */

import type { Command } from "commander";
import type { Ledger } from "../../client/index.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { drainedHosts, drainedLines } from "../drained-hosts.ts";
import { fleetCounts, fleetText } from "../fleet-map.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";

export function fleetShowVerb(kit: Kit): Command {
  const verb = kit
    .verb("show")
    .summary("show clusters, hosts, GPUs and tenants")
    .description(
      "Shows which GPUs are held, free, drained or without an agent, what each tenant holds,\n" +
        "and why hosts are drained.",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver fleet show", "the whole fleet on a screen"]]))
    .action(async (values: ConnectionOptionValues & { readonly json?: boolean }) => {
      await kit.withSession(values, async ({ client, fleet }) => {
        const ledger = await client.fleet();
        if (values.json === true) kit.printJson(documentOf(fleet, ledger));
        else {
          const layout = { width: widthOf(kit.io.stdout), colours: kit.colours };
          const drained = drainedLines(drainedHosts(ledger), MAX_DRAINED).map(
            (line) => `  ${line}`,
          );
          kit.print(fleetText(fleet, ledger, layout));
          if (drained.length > 0) kit.print(["\nDrained hosts:", ...drained].join("\n"));
        }
      });
    });
  return addConnectionOptions(verb);
}

const MAX_DRAINED = 20;

function documentOf(name: string, ledger: Ledger): object {
  const { shape, hosts, leases, requests, reasons, deadLetters } = ledger;
  return {
    fleet: name,
    gpus: fleetCounts(ledger),
    clusters: shape.clusters.map((cluster) => ({
      ...cluster,
      hosts: cluster.hosts.map((host) => ({ ...host, ...hosts.get(host.id) })),
    })),
    links: shape.links,
    tenants: shape.tenants,
    leases: [...leases.values()],
    waiting: [...requests.values()].map((request) => ({
      ...request,
      reason: reasons.get(request.jobId),
    })),
    deadLetters,
  };
}
