/** @file `orbweaver fleet show`: clusters, hosts, each GPU's state, tenants with what they hold of their quota. */

import type { Command } from "commander";
import type { Ledger } from "../../client/index.ts";
import { isMassSilence } from "../../scheduling/silence.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { drainedHosts, drainedLines } from "../drained-hosts.ts";
import { fleetCounts, fleetText } from "../fleet-map.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { massSilenceLines, quietDocument, quietHosts, quietLines } from "../quiet-hosts.ts";

export function fleetShowVerb(kit: Kit): Command {
  const verb = kit
    .verb("show")
    .summary("show clusters, hosts, GPUs and tenants")
    .description(
      "Shows which GPUs are held, free, drained or without an agent, what each tenant holds,\n" +
        "why hosts are drained, which are silent, and what becomes of those.",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver fleet show", "the whole fleet on a screen"]]))
    .action(async (values: ConnectionOptionValues & { readonly json?: boolean }) => {
      await kit.withSession(values, async ({ client, fleet }) => {
        const ledger = await client.fleet();
        const nowMs = kit.io.nowMs();
        if (values.json === true) kit.printJson(documentOf(fleet, ledger, nowMs));
        else {
          const layout = { width: widthOf(kit.io.stdout), colours: kit.colours };
          const drained = drainedLines(drainedHosts(ledger), MAX_LISTED);
          const quiet = quietLines(quietHosts(ledger, nowMs), MAX_LISTED);
          kit.print(fleetText(fleet, ledger, layout));
          printList(kit, "Hosts that do not answer:", [...quiet, ...massSilenceLines(ledger)]);
          printList(kit, "Drained hosts:", drained);
        }
      });
    });
  return addConnectionOptions(verb);
}

const MAX_LISTED = 20;

function printList(kit: Kit, title: string, lines: readonly string[]): void {
  if (lines.length > 0) kit.print([`\n${title}`, ...lines.map((line) => `  ${line}`)].join("\n"));
}

function documentOf(name: string, ledger: Ledger, nowMs: number): object {
  const { shape, hosts, leases, requests, reasons, deadLetters } = ledger;
  return {
    fleet: name,
    gpus: fleetCounts(ledger),
    clusters: shape.clusters.map((cluster) => ({
      ...cluster,
      hosts: cluster.hosts.map((host) => ({ ...host, ...hosts.get(host.id) })),
    })),
    silence: {
      isMass: isMassSilence(hosts),
      hosts: quietHosts(ledger, nowMs).map(quietDocument),
    },
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
