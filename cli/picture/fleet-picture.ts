/**
 * @file A picture of a fleet as SVG: the console's map, its legend, and the head of the queue with the reasons. Needs no browser. Pure.
 *
 * Names and reasons come from whoever submits, so they are escaped and cut.
 */

import { stillOf } from "../../console/view/still.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { paint, type Mode, type Theme } from "../../page/map/colours.ts";
import { draw } from "../../page/map/draw.ts";
import { readGpus, summaryText } from "../../page/map/gpus.ts";
import { layOut } from "../../page/map/layout.ts";
import { createStore } from "../../page/store.ts";
import { counted, durationText } from "../../page/text.ts";
import { timeText } from "../../domain/values/wall-time.ts";
import { codeOf, queueRows, type QueueRow } from "../../page/views/queue-rows.ts";
import { createSvgBrush, type SvgBrush } from "./svg-brush.ts";

export interface FleetPicture {
  readonly fleet: string;
  readonly ledger: Ledger;
  readonly mode: Mode;
  readonly nowMs: number;
}

const WIDTH = 1_200;
const MARGIN = 28;
const MOST_MAP = 640;
const LEGEND_TOP = 74;
const MAP_TOP = 104;
const LINE = 20;
const MOST_ROWS = 15;
const THEME: Theme = { isDark: false, text: "#1c2430", quiet: "#5b6675", back: "#ffffff" };
const EVERY_ROW = { text: "", class: "", tenant: "", code: "", sort: "" };

export function fleetPicture({ fleet, ledger, mode, nowMs }: FleetPicture): string {
  const { tables, order } = createStillStore(ledger, { fleet, nowMs });
  const book = readGpus(tables.hosts, tables.leases, tables);
  const layout = layOut(book.hosts, { width: WIDTH - 2 * MARGIN, height: MOST_MAP });
  const painting = paint(mode, book, THEME);
  const rows = queueRows(tables, order(), EVERY_ROW);
  const map = createSvgBrush();
  draw(map, { book, layout, painting, theme: THEME, job: "" });

  const words = createSvgBrush();
  write(words, { text: `fleet ${fleet}`, x: 0, y: 42, font: "600 20px" });
  write(words, {
    text: `${summaryText(book)} · ${timeText(nowMs)}`,
    x: 0,
    y: 62,
    colour: THEME.quiet,
  });
  writeLegend(words, painting.legend);
  const top = MAP_TOP + layout.height + 24;
  writeQueue(words, { rows, top, nowMs });
  const height = top + (Math.min(rows.length, MOST_ROWS) + 3) * LINE;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, 'DejaVu Sans', sans-serif">`,
    `<rect width="${WIDTH}" height="${height}" fill="${THEME.back}"/>`,
    words.group(MARGIN, 0),
    map.group(MARGIN, MAP_TOP),
    "</svg>\n",
  ].join("\n");
}

/** The ledger as the console's page knows it. */
function createStillStore(
  ledger: Ledger,
  { fleet, nowMs }: { readonly fleet: string; readonly nowMs: number },
): ReturnType<typeof createStore> {
  const store = createStore(nowMs);
  store.take(stillOf({ ledger, decisions: [], facts: { fleet, atMs: nowMs }, nowMs }));
  return store;
}

interface Words {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly font?: string;
  readonly colour?: string;
}

function write(brush: SvgBrush, { text, x, y, font = "12px", colour = THEME.text }: Words): void {
  brush.font = font;
  brush.fillStyle = colour;
  brush.fillText(text, x, y);
}

function writeLegend(
  brush: SvgBrush,
  legend: readonly { readonly name: string; readonly colour: string }[],
): void {
  let x = 0;
  for (const { name, colour } of legend) {
    const shown = cut(name, 24);
    brush.fillStyle = colour;
    brush.beginPath();
    brush.rect(x, LEGEND_TOP, 12, 12);
    brush.fill();
    write(brush, { text: shown, x: x + 17, y: LEGEND_TOP + 10 });
    x += 17 + shown.length * 7 + 18;
  }
}

/** Where each column begins, and the characters that it has room for. */
const COLUMNS = [
  { title: "#", x: 0, room: 5 },
  { title: "Job", x: 40, room: 26 },
  { title: "Class", x: 225, room: 12 },
  { title: "Tenant", x: 310, room: 16 },
  { title: "GPUs", x: 430, room: 8 },
  { title: "Waits", x: 490, room: 9 },
  { title: "Reason", x: 560, room: 92 },
] as const;

function writeQueue(
  brush: SvgBrush,
  {
    rows,
    top,
    nowMs,
  }: { readonly rows: readonly QueueRow[]; readonly top: number; readonly nowMs: number },
): void {
  const title = rows.length === 0 ? "No job waits" : `${counted(rows.length, "waiting job")}`;
  write(brush, { text: title, x: 0, y: top, font: "600 14px" });
  if (rows.length === 0) return;
  const line = (y: number, cells: readonly string[], colour: string): void =>
    COLUMNS.forEach(({ x, room }, at) =>
      write(brush, { text: cut(cells[at] ?? "", room), x, y, colour }),
    );
  line(
    top + LINE,
    COLUMNS.map((column) => column.title),
    THEME.quiet,
  );
  rows.slice(0, MOST_ROWS).forEach(({ job, place, request, reason }, at) => {
    const { slots, gpus, submittedAtMs, tenant } = request;
    const why = reason === undefined ? codeOf(reason) : `${reason.code}: ${reason.message}`;
    const gang = slots === undefined ? String(gpus) : `${slots}×${gpus}`;
    const waits = durationText(nowMs - submittedAtMs);
    const cells = [String(place), job, request.class, tenant, gang, waits, why];
    line(top + (at + 2) * LINE, cells, THEME.text);
  });
  if (rows.length > MOST_ROWS)
    write(brush, {
      text: `and ${counted(rows.length - MOST_ROWS, "job")} more`,
      x: 40,
      y: top + (MOST_ROWS + 2) * LINE,
      colour: THEME.quiet,
    });
}

const cut = (text: string, room: number): string =>
  text.length <= room ? text : `${text.slice(0, room - 1)}…`;
