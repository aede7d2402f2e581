/** @file A plan of collection as text and as a document. */

import type { Collected } from "./collect.ts";
import { bytesOf, type DueThing, type Excess } from "./due.ts";
import type { FreeSpace } from "./free-space.ts";
import type { CollectionPlan, KindName, PlannedKind } from "./plan.ts";
import { counted, timeText } from "../terminal/duration.ts";
import { tableText } from "../terminal/table.ts";

/** Of a kind, in the text; the document has all. */
const MOST_SHOWN = 5;

const WORDS: Readonly<Record<KindName, string>> = {
  checkpoints: "checkpoints",
  output: "output of launches",
  archives: "archived runs",
  logs: "logs of processes",
  store: "store, unreferenced",
};

const THEN: Readonly<Record<FreeSpace["then"], string>> = {
  "given back": ": the collection gives them back to the disk",
  "given back while down":
    " and filled before it grows. A former release made it: `orbweaver house --collect` after `orbweaver down` writes it anew and gives them back, from then on any collection does",
  filled: " and filled before it grows",
};

export const sizeText = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;

export const isNothingDue = ({ kinds, oldRows }: CollectionPlan): boolean =>
  oldRows === 0 && kinds.every(({ due }) => due.length === 0);

export function planText(plan: CollectionPlan, width: number): string {
  const columns = [
    { title: "WHAT", least: 20 },
    { title: "SIZE", isRight: true },
    { title: "HELD BACK", isRight: true },
    { title: "DUE", isRight: true },
    { title: "THINGS", isRight: true },
  ];
  const rows = plan.kinds.map((kind) => [
    WORDS[kind.what],
    sizeText(kind.bytes),
    sizeText(kind.heldBytes),
    sizeText(bytesOf(kind.due)),
    String(kind.due.length),
  ]);
  return [
    tableText(columns, rows, width),
    ...plan.kinds.flatMap(dueLines),
    ...plan.kinds.flatMap(({ what, over }) => over.map((each) => excessLine(WORDS[what], each))),
    ...(plan.oldRows > 0 ? [`history database: ${counted(plan.oldRows, "old row")}`] : []),
    ...plan.databases.map(
      ({ what, bytes, freeBytes, then }) =>
        `${what}: ${sizeText(bytes)}, of which ${sizeText(freeBytes)} are free${THEN[then]}`,
    ),
    ...plan.skipped,
  ].join("\n");
}

function dueLines({ what, due }: PlannedKind): readonly string[] {
  if (due.length === 0) return [];
  const more = due.length - MOST_SHOWN;
  return [
    `${WORDS[what]} to remove`,
    ...due.slice(0, MOST_SHOWN).map(dueLine),
    ...(more > 0 ? [`  and ${counted(more, "more thing")}`] : []),
  ];
}

const dueLine = ({ path, bytes, tenant, endedMs, why }: DueThing): string =>
  `  ${sizeText(bytes)}  ${path}${tenant === undefined ? "" : `, of ${tenant}`}${endedMs === undefined ? "" : `, over since ${timeText(endedMs)}`}: ${why}`;

const excessLine = (what: string, { tenant, bytes, mostBytes }: Excess): string =>
  `${what} of ${tenant ?? "all"}: ${sizeText(bytes)} stay, beyond the quota of ${sizeText(mostBytes)}: it is of jobs that have not ended, may go on, ended less than a day ago, or of which nobody knows`;

export const returnedText = (returnedBytes: number): string =>
  `${sizeText(returnedBytes)} of the server's database`;

export const collectedText = ({ things, bytes, rows, needed, returnedBytes }: Collected): string =>
  `removed ${counted(things, "thing")}, ${sizeText(bytes)}${rows > 0 ? `, and ${counted(rows, "old row")}` : ""}${returnedBytes > 0 ? `; given back: ${returnedText(returnedBytes)}` : ""}${needed > 0 ? `; ${counted(needed, "thing")} stayed, needed or changed meanwhile` : ""}`;

export const planDocument = ({
  kinds,
  ends,
  ...plan
}: CollectionPlan): Readonly<Record<string, unknown>> => ({
  ...plan,
  unknownJobs: [...ends].flatMap(([job, { isProven }]) => (isProven ? [] : [job])),
  kinds: kinds.map(({ due, ...kind }) => ({
    ...kind,
    dueBytes: bytesOf(due),
    due: due.map(({ endedMs, changedAtMs: _changed, ...thing }) => ({
      ...thing,
      ...(endedMs !== undefined && { endedAt: new Date(endedMs).toISOString() }),
    })),
  })),
});
