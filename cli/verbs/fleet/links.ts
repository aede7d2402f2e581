/** @file `orbweaver fleet links`: each link as described and as measured, the value in use, and links that are down. */

import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { openLinkMonitor, type LinkMonitorHandle } from "../../../client/link-monitor.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { LinkMonitorView } from "../../../protocol/messages.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted } from "../../terminal/duration.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { LINK_COLUMNS, linkLines, linkRow, type LinkLine } from "../../text/link-table.ts";
import { nameList } from "../../command/option-values.ts";
import { tableText } from "../../terminal/table.ts";

interface LinksValues extends ConnectionOptionValues {
  readonly probe?: boolean;
  readonly between?: readonly string[];
  readonly json?: boolean;
}

export function fleetLinksVerb(context: CommandContext): Command {
  const verb = context
    .verb("links")
    .summary("show the links between sites, as described and as measured")
    .description(
      "Shows every link between clusters: its described bandwidth, the bandwidth that agents at both sites measured (a smoothed mean and the deviation of single probes), the round trip, the age of the measurement, and which value the scheduler uses. A link on which probes fail is down: no gang is placed across it until a probe succeeds.",
    )
    .option("--probe", "measure now, and show the results")
    .option(
      "--between <sites>",
      "with --probe: only the link between these two, e.g. frankfurt,oregon",
      nameList,
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet links", "bandwidth and state of every link"],
        ["orbweaver fleet links --probe", "measure all links, one after the other"],
        ["orbweaver fleet links --json", "the same for a script"],
      ]),
    )
    .action(async (values: LinksValues) => {
      const between = sitesOf(values);
      await context.withSession(values, async ({ client, temporal, fleet }) => {
        const monitor = openLinkMonitor(temporal, fleet);
        if (values.probe === true) await probe(context, monitor, between);
        const [ledger, view] = await Promise.all([client.fleet(), monitor.view()]);
        const nowMs = context.io.nowMs();
        const lines = linkLines(ledger, nowMs);
        if (values.json === true) context.printJson({ fleet, links: lines, monitor: view ?? null });
        else context.print(text(context, lines, { view, nowMs }));
      });
    });
  return addConnectionOptions(verb);
}

function sitesOf({ between, probe }: LinksValues): readonly [string, string] | undefined {
  if (between === undefined) return undefined;
  const [a, b, ...more] = between;
  if (probe === true && a !== undefined && b !== undefined && more.length === 0) return [a, b];
  throw new OrbweaverError(
    "BAD_INPUT",
    `--between ${between.join(",")} needs --probe and two sites, e.g. --probe --between frankfurt,oregon.`,
  );
}

const LOOK_EVERY_MS = 500;
/** A probe takes seconds; one without an answer takes its whole time limit. */
const PER_PAIR_MS = 30_000;

/** Waits until each pair was probed again, or the attempt failed. */
async function probe(
  context: CommandContext,
  monitor: LinkMonitorHandle,
  between: readonly [string, string] | undefined,
): Promise<void> {
  const before = new Map((await monitor.view())?.links.map((each) => [pairOf(each), each.turns]));
  const asked = await monitor.probe(between);
  if (asked === 0) {
    const what = between === undefined ? "two sites" : `sites ${between.join(" and ")}`;
    throw new OrbweaverError(
      "NOT_FOUND",
      `the fleet has no ${what} to probe between. \`orbweaver fleet show --json\` lists its clusters with their sites.`,
    );
  }
  const isMeant = ({ a, b }: { readonly a: string; readonly b: string }): boolean =>
    between === undefined || (between.includes(a) && between.includes(b));
  const endAtMs = context.io.nowMs() + asked * PER_PAIR_MS;
  for (let lastLine = ""; ;) {
    const view = await monitor.view();
    const meant = view?.links.filter(isMeant) ?? [];
    const open = meant.filter((each) => each.turns <= (before.get(pairOf(each)) ?? 0));
    if (open.length === 0 || context.io.interrupted.aborted) return;
    if (context.io.nowMs() > endAtMs || !open.some((each) => canProbe(view, each))) {
      context.say(
        `not probed: ${open.map(({ a, b }) => `${a} – ${b}`).join(", ")}; a site has no agent that answers`,
      );
      return;
    }
    const line = `probing: ${String(meant.length - open.length)} of ${counted(meant.length, "link")}`;
    if (line !== lastLine) context.say(line);
    lastLine = line;
    await sleep(LOOK_EVERY_MS);
  }
}

const pairOf = ({ a, b }: { readonly a: string; readonly b: string }): string => `${a} ${b}`;

/** The monitor may not know the links before its first look. */
function canProbe(
  view: LinkMonitorView | undefined,
  { a, b }: { readonly a: string; readonly b: string },
): boolean {
  const endsAt = (name: string): number => view?.sites.find(({ site }) => site === name)?.ends ?? 1;
  return endsAt(a) > 0 && endsAt(b) > 0;
}

function text(
  context: CommandContext,
  lines: readonly LinkLine[],
  { view, nowMs }: { readonly view: LinkMonitorView | undefined; readonly nowMs: number },
): string {
  if (lines.length === 0)
    return "no links are described or measured; a fleet with one site has none";
  const rows = lines.map((line) => linkRow(line, nowMs));
  const parts = [tableText(LINK_COLUMNS, rows, widthOf(context.io.stdout))];
  if (view === undefined)
    parts.push("No link monitor runs. It starts when an agent registers, or with --probe.");
  const silent = view?.sites.filter(({ ends }) => ends === 0).map(({ site }) => site) ?? [];
  if (silent.length > 0) parts.push(`No agent answers at ${silent.join(", ")}.`);
  const troubles = view?.links.flatMap(({ a, b, problem }) =>
    problem === undefined ? [] : [`  ${a} – ${b}: ${problem}`],
  );
  if (troubles !== undefined && troubles.length > 0)
    parts.push(["Failed probes:", ...troubles.slice(0, 10)].join("\n"));
  return parts.join("\n\n");
}
