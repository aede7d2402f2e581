/** @file `orbweaver fleet links`: each link as it is described and as it was measured, which of the two counts, and what is out. */

import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { openLinkMonitor, type LinkMonitorHandle } from "../../client/link-monitor.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import type { LinkMonitorView } from "../../workflows/messages.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted } from "../duration.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { LINK_COLUMNS, linkLines, linkRow, type LinkLine } from "../link-table.ts";
import { nameList } from "../option-values.ts";
import { tableText } from "../table.ts";

interface LinksValues extends ConnectionOptionValues {
  readonly probe?: boolean;
  readonly between?: readonly string[];
  readonly json?: boolean;
}

export function fleetLinksVerb(kit: Kit): Command {
  const verb = kit
    .verb("links")
    .summary("show the links between sites as described and as measured")
    .description(
      "Shows every link between clusters: what the description says, what the agents of its two sites have\n" +
        "measured (a smoothed mean and how far single probes are from it), the round trip, how old that is,\n" +
        "and which of the two decisions go by. A link on which nothing comes through is out: no gang is placed\n" +
        "over it until a probe gets through again.",
    )
    .option("--probe", "measure now, and show what came of it")
    .option("--between <sites>", "with --probe: only these two, e.g. frankfurt,oregon", nameList)
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver fleet links", "what is every link worth, and is one out?"],
        ["orbweaver fleet links --probe", "measure all of them, one after the other"],
        ["orbweaver fleet links --json", "the same for a script"],
      ]),
    )
    .action(async (values: LinksValues) => {
      const between = sitesOf(values);
      await kit.withSession(values, async ({ client, temporal, fleet }) => {
        const monitor = openLinkMonitor(temporal, fleet);
        if (values.probe === true) await probe(kit, monitor, between);
        const [ledger, view] = await Promise.all([client.fleet(), monitor.view()]);
        const nowMs = kit.io.nowMs();
        const lines = linkLines(ledger, nowMs);
        if (values.json === true) kit.printJson({ fleet, links: lines, monitor: view ?? null });
        else kit.print(text(kit, lines, { view, nowMs }));
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
    `--between ${between.join(",")} is for --probe and names two sites, e.g. --probe --between frankfurt,oregon.`,
  );
}

const LOOK_EVERY_MS = 500;
/** A probe takes seconds; one that finds no answer its whole time. */
const PER_PAIR_MS = 30_000;

/** Waits until each pair was probed once more, or has been tried. */
async function probe(
  kit: Kit,
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
  const endAtMs = kit.io.nowMs() + asked * PER_PAIR_MS;
  for (let told = ""; ;) {
    const view = await monitor.view();
    const meant = view?.links.filter(isMeant) ?? [];
    const open = meant.filter((each) => each.turns <= (before.get(pairOf(each)) ?? 0));
    if (open.length === 0 || kit.io.interrupted.aborted) return;
    if (kit.io.nowMs() > endAtMs || !open.some((each) => canProbe(view, each))) {
      kit.say(
        `not probed: ${open.map(({ a, b }) => `${a} – ${b}`).join(", ")}; a site has no agent that answers`,
      );
      return;
    }
    const line = `probing: ${String(meant.length - open.length)} of ${counted(meant.length, "link")}`;
    if (line !== told) kit.say(line);
    told = line;
    await sleep(LOOK_EVERY_MS);
  }
}

const pairOf = ({ a, b }: { readonly a: string; readonly b: string }): string => `${a} ${b}`;

/** Before the monitor has looked around it may be that it does not know yet. */
function canProbe(
  view: LinkMonitorView | undefined,
  { a, b }: { readonly a: string; readonly b: string },
): boolean {
  const endsAt = (name: string): number => view?.sites.find(({ site }) => site === name)?.ends ?? 1;
  return endsAt(a) > 0 && endsAt(b) > 0;
}

function text(
  kit: Kit,
  lines: readonly LinkLine[],
  { view, nowMs }: { readonly view: LinkMonitorView | undefined; readonly nowMs: number },
): string {
  if (lines.length === 0)
    return "no links: none is described, and none was measured (a fleet of one site has none).";
  const rows = lines.map((line) => linkRow(line, nowMs));
  const parts = [tableText(LINK_COLUMNS, rows, widthOf(kit.io.stdout))];
  if (view === undefined)
    parts.push("No link monitor runs: it starts with the next agent that comes, or by --probe.");
  const silent = view?.sites.filter(({ ends }) => ends === 0).map(({ site }) => site) ?? [];
  if (silent.length > 0) parts.push(`No agent answers at ${silent.join(", ")}.`);
  const troubles = view?.links.flatMap(({ a, b, problem }) =>
    problem === undefined ? [] : [`  ${a} – ${b}: ${problem}`],
  );
  if (troubles !== undefined && troubles.length > 0)
    parts.push(["Last probes that told nothing good:", ...troubles.slice(0, 10)].join("\n"));
  return parts.join("\n\n");
}
