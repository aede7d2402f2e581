/**
 * @file Draws the map on a canvas, or on what draws like one: all GPUs by colour, what is special by form, and the outline of one gang. Cost: O(GPUs),
 * 1 to 2 ms for 6,000.
 */

import { visibleText } from "../../lib/visible-text.ts";
import type { Painting, Theme } from "./colours.ts";
import { isGpuDrained, type GpuBook } from "./gpus.ts";
import { SMALLEST_GPU, TOLD_FROM, type Layout } from "./layout.ts";

export interface Picture {
  readonly book: GpuBook;
  readonly layout: Layout;
  readonly painting: Painting;
  readonly theme: Theme;
  /** The job whose gang is outlined; the others are dimmed. */
  readonly job: string;
}

/** What the map needs of a canvas's context. */
export interface Brush {
  fillStyle: string | object;
  strokeStyle: string | object;
  globalAlpha: number;
  lineWidth: number;
  font: string;
  readonly beginPath: () => void;
  readonly rect: (...box: [x: number, y: number, width: number, height: number]) => void;
  readonly moveTo: (x: number, y: number) => void;
  readonly lineTo: (x: number, y: number) => void;
  readonly fill: () => void;
  readonly stroke: () => void;
  readonly fillText: (text: string, x: number, y: number) => void;
}

const DIMMED = 0.22;
const EVICTED = 3;
const VACATING = 4;
const RESERVED = 5;
const DRAINED = 6;

/** On what is empty. */
export function draw(context: Brush, picture: Picture): void {
  const { layout, theme } = picture;
  drawLabels(context, layout, theme);
  const isOfJob = gangOf(picture);
  const shown = cellsByColour(picture, isOfJob);
  for (const [colour, cells] of shown.dimmed)
    fill(context, picture, { colour, cells, alpha: DIMMED });
  for (const [colour, cells] of shown.plain) fill(context, picture, { colour, cells, alpha: 1 });
  if (layout.cellWidth >= SMALLEST_GPU + 1) drawForms(context, picture);
  if (layout.cellWidth >= TOLD_FROM) drawJobs(context, picture, isOfJob);
  drawHosts(context, picture);
  if (picture.job !== "") outline(context, picture, isOfJob);
}

type Cells = Map<string, number[]>;

/** Pairs of host and GPU number, by colour. */
function cellsByColour(
  { book, painting, job }: Picture,
  isOfJob: (gpu: number) => boolean,
): { readonly plain: Cells; readonly dimmed: Cells } {
  const plain: Cells = new Map();
  const dimmed: Cells = new Map();
  book.hosts.forEach(({ row, first }, host) => {
    for (let gpu = 0; gpu < row.gpus; gpu += 1) {
      const cells = job !== "" && !isOfJob(first + gpu) ? dimmed : plain;
      const colour = painting.colourOf(first + gpu, host);
      const list = cells.get(colour);
      if (list === undefined) cells.set(colour, [host, gpu]);
      else list.push(host, gpu);
    }
  });
  return { plain, dimmed };
}

function fill(
  context: Brush,
  { layout }: Picture,
  {
    colour,
    cells,
    alpha,
  }: { readonly colour: string; readonly cells: readonly number[]; readonly alpha: number },
): void {
  const { boxes, cellWidth, cellHeight } = layout;
  const gap = cellWidth >= 5 ? 1 : 0;
  context.globalAlpha = alpha;
  context.fillStyle = colour;
  context.beginPath();
  for (let at = 0; at < cells.length; at += 2) {
    const box = boxes[cells[at] ?? 0];
    if (box !== undefined)
      context.rect(box.x + (cells[at + 1] ?? 0) * cellWidth, box.y, cellWidth - gap, cellHeight);
  }
  context.fill();
  context.globalAlpha = 1;
}

/** Evicted and vacating GPUs are cut by a diagonal, reserved ones have a hole, drained ones a bar, at the foot while a job has them: readable without colour. */
function drawForms(context: Brush, { book, layout, theme }: Picture): void {
  const { boxes, cellWidth, cellHeight } = layout;
  context.fillStyle = theme.back;
  context.beginPath();
  book.hosts.forEach(({ row, first }, host) => {
    const box = boxes[host];
    if (box === undefined) return;
    for (let gpu = 0; gpu < row.gpus; gpu += 1) {
      const state = book.states[first + gpu];
      const x = box.x + gpu * cellWidth;
      if (state === VACATING || state === EVICTED) {
        context.moveTo(x, box.y);
        context.lineTo(x + cellWidth - 1, box.y);
        context.lineTo(x, box.y + cellHeight);
      } else if (state === RESERVED) {
        const inset = Math.max(1, Math.floor(cellWidth / 4));
        context.rect(x + inset, box.y + inset, cellWidth - 1 - 2 * inset, cellHeight - 2 * inset);
      } else if (state === DRAINED) {
        const high = Math.max(1, Math.floor(cellHeight / 5));
        context.rect(x, box.y + Math.floor((cellHeight - high) / 2), cellWidth - 1, high);
      }
      if (state !== DRAINED && isGpuDrained(row, gpu)) {
        // Beneath the job's id.
        const high = Math.max(1, Math.floor(cellHeight / 7));
        context.rect(x, box.y + cellHeight - 2 * high, cellWidth - 1, high);
      }
    }
  });
  context.fill();
}

const SMALL_FONT = "10px system-ui, sans-serif";
/** Of a letter of a job's id; ids are cut to the room that their GPUs give. */
const JOB_LETTER = 6.2;
const LEAST_LETTERS = 4;

/** The id of a job on its GPUs of each host. */
function drawJobs(context: Brush, picture: Picture, isOfJob: (gpu: number) => boolean): void {
  const { book, layout, painting, job } = picture;
  const { boxes, cellWidth, cellHeight } = layout;
  context.font = SMALL_FONT;
  book.hosts.forEach(({ row, first }, host) => {
    const box = boxes[host];
    if (box === undefined) return;
    for (let from = 0, to = 0; from < row.gpus; from = to) {
      const lease = book.leaseOf[first + from] ?? -1;
      for (to = from + 1; to < row.gpus && book.leaseOf[first + to] === lease;) to += 1;
      const text = book.leases[lease]?.job ?? "";
      const letters = Math.floor(((to - from) * cellWidth - 8) / JOB_LETTER);
      if (text === "" || letters < LEAST_LETTERS) continue;
      context.globalAlpha = job === "" || isOfJob(first + from) ? 1 : DIMMED;
      context.fillStyle = inkOn(painting.colourOf(first + from, host));
      // Ids of one trace or sweep begin alike and end differently.
      const shown = text.length > letters ? `…${text.slice(1 - letters)}` : text;
      context.fillText(
        visibleText(shown),
        box.x + from * cellWidth + 4,
        box.y + cellHeight / 2 + 4,
      );
    }
  });
  context.globalAlpha = 1;
}

/** Black or white, whichever is read better on the colour (relative luminance of WCAG 2). */
function inkOn(colour: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

/** Drained hosts are struck through, fenced and silent ones framed. */
function drawHosts(context: Brush, { book, layout, theme }: Picture): void {
  const { boxes, cellWidth, cellHeight } = layout;
  context.lineWidth = 1;
  book.hosts.forEach(({ row }, host) => {
    const box = boxes[host];
    if (box === undefined || row.condition === undefined) return;
    const width = row.gpus * cellWidth - 1;
    context.strokeStyle = row.condition === "agentless" ? theme.quiet : theme.text;
    context.beginPath();
    if (row.condition === "drained" || row.condition === "agentless") {
      context.moveTo(box.x, box.y + cellHeight / 2);
      context.lineTo(box.x + width, box.y + cellHeight / 2);
    } else context.rect(box.x + 0.5, box.y + 0.5, width - 1, cellHeight - 1);
    context.stroke();
  });
}

function drawLabels(context: Brush, { labels }: Layout, theme: Theme): void {
  for (const { x, y, text, kind } of labels) {
    context.font = kind === "cluster" ? "600 13px system-ui, sans-serif" : SMALL_FONT;
    context.fillStyle = kind === "cluster" ? theme.text : theme.quiet;
    context.fillText(visibleText(text), x, y);
  }
}

function gangOf({ book, job }: Picture): (gpu: number) => boolean {
  if (job === "") return () => true;
  const claim = book.claimants.indexOf(job);
  return (gpu) =>
    book.leases[book.leaseOf[gpu] ?? -1]?.job === job ||
    (claim >= 0 && book.claimOf[gpu] === claim);
}

function outline(
  context: Brush,
  { book, layout, theme }: Picture,
  isOfJob: (gpu: number) => boolean,
): void {
  const { boxes, cellWidth, cellHeight } = layout;
  context.strokeStyle = theme.text;
  context.lineWidth = 1.5;
  context.beginPath();
  book.hosts.forEach(({ row, first }, host) => {
    const box = boxes[host];
    if (box === undefined) return;
    let from = -1;
    for (let gpu = 0; gpu <= row.gpus; gpu += 1) {
      const isIn = gpu < row.gpus && isOfJob(first + gpu);
      if (isIn && from < 0) from = gpu;
      if (isIn || from < 0) continue;
      const x = box.x + from * cellWidth - 1;
      context.rect(x, box.y - 1, (gpu - from) * cellWidth + 1, cellHeight + 2);
      from = -1;
    }
  });
  context.stroke();
}
