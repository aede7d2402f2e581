/** @file `orbweaver fleet show`: clusters, hosts, each GPU's state, and tenants with their use of quotas. */

import { Option, type Command } from "commander";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { harmless, shown } from "../../../domain/values/file-problem.ts";
import type { Ledger } from "../../../client/index.ts";
import { fleetRules } from "../../../client/rules/upgrade-fleet.ts";
import { MODES, type Mode } from "../../../page/map/colours.ts";
import { membersOf } from "../../../lib/bits.ts";
import type { HostStatus } from "../../../scheduling/ledger/ledger.ts";
import { isMassSilence } from "../../../scheduling/ledger/apply/host-silence.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { formerRepairs } from "../../text/repair-text.ts";
import {
  drainedGpuLines,
  drainedGpus,
  drainedHosts,
  drainedLines,
  plannedLines,
} from "../../text/drained-hosts.ts";
import { heldQueueDocuments, heldQueueLines } from "../../text/held-queues.ts";
import { fleetCounts, fleetText } from "../../text/fleet-map.ts";
import { rulesDocument, rulesLines } from "../../text/rules-text.ts";
import { containmentLines } from "../../text/containment-text.ts";
import { imageLines } from "../../text/image-text.ts";
import { weightsLines } from "../../text/weights-text.ts";
import { leftLines } from "../../text/left-in-service.ts";
import { keptHostDocuments, keptHostLines } from "../../text/kept-hosts.ts";
import { differenceLines } from "../../text/machine-differences.ts";
import { trustLines } from "../../text/trust-text.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import type { FleetPicture } from "../../picture/fleet-picture.ts";
import { isGoneHere } from "./upgrade.ts";
import {
  massSilenceLines,
  quietDocument,
  quietHosts,
  quietLines,
} from "../../command/quiet-hosts.ts";

export function fleetShowVerb(context: CommandContext): Command {
  const verb = context
    .verb("show")
    .summary("show clusters, hosts, GPUs and tenants")
    .description(
      "Shows which GPUs are leased, free, drained or without an agent, and the GPUs of each tenant. Also shows which free GPUs are reserved for jobs that wait for more, which are kept for gangs that have lost a host, why hosts and GPUs are drained, which ones stay in service though launches fail there, who holds which part of the queue, which hosts are silent or differ from the fleet file, when silent hosts are fenced, which rules the fleet follows, whose jobs the hosts start, and how surely they end all processes of a job.",
    )
    .option("--json", "answer with one JSON document")
    .option("--plot <file.svg>", "write a picture of the map and the queue")
    .addOption(new Option("--by <mode>", "colours of the picture (default: tenant)").choices(MODES))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet show", "all clusters and tenants"],
        [
          "orbweaver fleet show --plot fleet.svg --by class",
          "a picture, for a browser or a report",
        ],
      ]),
    )
    .action(async (values: ShowValues) => {
      if (values.by !== undefined && values.plot === undefined)
        throw new OrbweaverError(
          "BAD_INPUT",
          "--by is of a picture, and none is asked for. Add --plot FILE.svg.",
        );
      await context.withFleet(values, async ({ client, direct, fleet }) => {
        const ledger = await client.fleet();
        const nowMs = context.io.nowMs();
        if (values.plot !== undefined)
          await plot(context, {
            ...{ file: values.plot, fleet, ledger, nowMs },
            mode: values.by ?? "tenant",
          });
        const trust = await client.trust(ledger);
        const planned = await client.plannedDrains();
        const rules =
          direct &&
          (await fleetRules(direct.temporal, { fleet, ledger, nowMs, isGone: isGoneHere }));
        if (values.json === true)
          context.printJson({
            ...documentOf(fleet, ledger, nowMs),
            trust,
            ...(planned.length > 0 && { plannedDrains: planned }),
            ...(rules !== undefined && { rules: rulesDocument(rules) }),
          });
        else {
          const layout = { width: widthOf(context.io.stdout), colours: context.colours };
          const drained = drainedLines(drainedHosts(ledger), MAX_LISTED);
          const quiet = quietLines(quietHosts(ledger, nowMs), MAX_LISTED);
          context.print(fleetText(fleet, ledger, layout));
          const agents = [...trustLines(trust), ...containmentLines(trust), ...imageLines(trust)];
          context.print(
            ["", ...(rules === undefined ? [] : rulesLines(rules, nowMs)), ...agents].join("\n"),
          );
          printList(context, "Silent hosts:", [...quiet, ...massSilenceLines(ledger)]);
          printList(context, "Hosts that differ from the fleet file:", differenceLines(trust));
          printList(context, "Weights of served models in memory:", weightsLines(trust));
          printList(context, "Kept for gangs that have lost a host:", keptHostLines(ledger));
          printList(context, "Drained hosts:", drained);
          printList(context, "Drained GPUs:", drainedGpuLines(drainedGpus(ledger), MAX_LISTED));
          printList(context, "In service though launches fail there:", leftLines(trust));
          printList(context, "Planned drains:", plannedLines(planned, MAX_LISTED));
          printList(context, "Held queues:", heldQueueLines(ledger, nowMs));
          printList(context, "Repairs:", formerRepairs(ledger));
          printList(context, "Last dead letters:", letterLines(ledger));
        }
      });
    });
  return addServiceOptions(verb);
}

interface ShowValues extends ConnectionOptionValues {
  readonly json?: boolean;
  readonly plot?: string;
  readonly by?: Mode;
}

async function plot(
  context: CommandContext,
  { file, ...shown }: FleetPicture & { readonly file: string },
): Promise<void> {
  const { fleetPicture } = await import("../../picture/fleet-picture.ts");
  try {
    writeFileSync(resolve(context.io.cwd, file), fleetPicture(shown));
  } catch (error) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `--plot: ${file} cannot be written: ${error instanceof Error ? error.message : String(error)}. Name a file in a folder of yours.`,
    );
  }
  context.say(`${file}: a picture of fleet ${shown.fleet}`);
}

const MAX_LISTED = 20;
const MAX_LETTERS = 5;

/** Newest first. They are written by whoever signals the fleet. */
const letterLines = ({ deadLetters }: Ledger): readonly string[] =>
  deadLetters
    .slice(-MAX_LETTERS)
    .reverse()
    .map(({ code, message, sender, times = 1 }) => {
      const from = sender === undefined ? "" : ` from ${shown(sender)}`;
      return `${times} × ${code}${from}: ${harmless(message)}`;
    });

function printList(context: CommandContext, title: string, lines: readonly string[]): void {
  if (lines.length > 0)
    context.print([`\n${title}`, ...lines.map((line) => `  ${line}`)].join("\n"));
}

/** GPUs by their numbers, as people name them. */
function statusDocument({ gpuDrains, ...status }: Partial<HostStatus> = {}): object {
  const drains = gpuDrains?.map(({ mask, ...drain }) => ({ gpus: membersOf(mask), ...drain }));
  return { ...status, ...(drains !== undefined && { gpuDrains: drains }) };
}

function documentOf(name: string, ledger: Ledger, nowMs: number): object {
  const { shape, hosts, leases, requests, reasons, deadLetters, repairs = [] } = ledger;
  return {
    fleet: name,
    gpus: fleetCounts(ledger),
    keptHosts: keptHostDocuments(ledger),
    clusters: shape.clusters.map((cluster) => ({
      ...cluster,
      hosts: cluster.hosts.map((host) => ({ ...host, ...statusDocument(hosts.get(host.id)) })),
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
    repairs,
    holds: heldQueueDocuments(ledger),
  };
}
