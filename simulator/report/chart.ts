/**
 * @file Line charts as inline SVG: axes, grid, legend and lines as text, without a browser.
 *
 * d3-scale makes scales and ticks, d3-shape the paths; colours are classes (`s0` … `s7`), so that the page's style sheet decides about light
 * and dark. A line breaks where a value is not finite. The `aria-label` describes the chart in one sentence for screen readers.
 */

import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { escaped } from "./escaped.ts";

export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Number of the colour; beyond `COLOURS` they come again. */
  readonly colour: number;
  readonly isDashed?: boolean;
}

export interface Axis {
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly isLog?: boolean;
  /** Marks at whole numbers only. */
  readonly isCount?: boolean;
  /** The values that get a mark; d3's own choice when absent. */
  readonly ticks?: readonly number[];
  readonly text: (value: number) => string;
}

export interface ChartParts {
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  /** A band between two x values, e.g. the steady window. */
  readonly band?: { readonly from: number; readonly to: number; readonly name: string };
}

export const COLOURS = 8;
const WIDTH = 640;
const HEIGHT = 300;
const LEFT = 58;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 46;
const Y_TICKS = 5;
const X_TICKS = 7;

export function chartSvg({ title, x, y, series, band }: ChartParts): string {
  const xAt = scaleOf(x, [LEFT, WIDTH - RIGHT]);
  const yAt = scaleOf(y, [HEIGHT - BOTTOM, TOP]);
  const bandSvg =
    band === undefined
      ? ""
      : `<rect class="band" x="${px(xAt(band.from))}" y="${px(TOP)}" width="${px(xAt(band.to) - xAt(band.from))}" height="${px(HEIGHT - TOP - BOTTOM)}"><title>${escaped(band.name)}</title></rect>`;
  return [
    `<svg viewBox="0 0 ${String(WIDTH)} ${String(HEIGHT)}" role="img" aria-label="${escaped(title)}">`,
    bandSvg,
    ticksOf(y, Y_TICKS)
      .map((value) => gridLine(value, y, yAt))
      .join(""),
    ticksOf(x, X_TICKS)
      .map((value) => tickMark(value, x, xAt))
      .join(""),
    `<line class="axis" x1="${px(LEFT)}" x2="${px(WIDTH - RIGHT)}" y1="${px(HEIGHT - BOTTOM)}" y2="${px(HEIGHT - BOTTOM)}"/>`,
    `<text class="name" x="${px((LEFT + WIDTH - RIGHT) / 2)}" y="${px(HEIGHT - 8)}" text-anchor="middle">${escaped(x.label)}</text>`,
    `<text class="name" transform="translate(14 ${px((TOP + HEIGHT - BOTTOM) / 2)}) rotate(-90)" text-anchor="middle">${escaped(y.label)}</text>`,
    series.map((one) => lineSvg(one, xAt, yAt)).join(""),
    "</svg>",
  ].join("");
}

/** What the lines are, above the chart, as text that wraps. */
export function legendHtml(series: readonly Series[]): string {
  const entries = series.map(
    ({ name, colour, isDashed }) =>
      `<li><svg viewBox="0 0 24 10" aria-hidden="true"><line class="${lineClass(colour, isDashed)}" x1="0" x2="24" y1="5" y2="5"/></svg>${escaped(name)}</li>`,
  );
  return `<ul class="legend">${entries.join("")}</ul>`;
}

type Scale = (value: number) => number;

function scaleOf({ from, to, isLog }: Axis, range: readonly [number, number]): Scale {
  const scale = isLog === true ? scaleLog() : scaleLinear();
  return scale.domain([from, to]).range(range).clamp(true);
}

function ticksOf({ ticks, from, to, isCount }: Axis, about: number): readonly number[] {
  const chosen = ticks ?? scaleLinear().domain([from, to]).ticks(about);
  return isCount === true ? chosen.filter(Number.isInteger) : chosen;
}

function gridLine(value: number, { text }: Axis, yAt: Scale): string {
  const at = px(yAt(value));
  return (
    `<line class="grid" x1="${px(LEFT)}" x2="${px(WIDTH - RIGHT)}" y1="${at}" y2="${at}"/>` +
    `<text x="${px(LEFT - 6)}" y="${at}" dy="0.32em" text-anchor="end">${escaped(text(value))}</text>`
  );
}

function tickMark(value: number, { text }: Axis, xAt: Scale): string {
  const at = px(xAt(value));
  const floor = HEIGHT - BOTTOM;
  return (
    `<line class="axis" x1="${at}" x2="${at}" y1="${px(floor)}" y2="${px(floor + 4)}"/>` +
    `<text x="${at}" y="${px(floor + 17)}" text-anchor="middle">${escaped(text(value))}</text>`
  );
}

function lineSvg({ name, points, colour, isDashed }: Series, xAt: Scale, yAt: Scale): string {
  const path = line<readonly [number, number]>()
    .defined(([x, y]) => Number.isFinite(x) && Number.isFinite(y))
    .x(([x]) => xAt(x))
    .y(([, y]) => yAt(y))
    .digits(1)(points);
  return path === null
    ? ""
    : `<path class="${lineClass(colour, isDashed)}" d="${path}"><title>${escaped(name)}</title></path>`;
}

const lineClass = (colour: number, isDashed: boolean | undefined): string =>
  `line s${String(colour % COLOURS)}${isDashed === true ? " dashed" : ""}`;

const px = (value: number): string => String(Math.round(value * 10) / 10);
