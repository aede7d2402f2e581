/**
 * @file Grouped bars as one SVG picture: a group for each name on the axis, a bar for each series, a legend inside the picture.
 *
 * The picture is as wide as its groups want. Where bars are wide their values stand above them; names that are wider than their group
 * lean. d3-scale makes the scale and its ticks; colours are those of the simulator's report, readable in light and in dark.
 */

import { scaleLinear } from "d3-scale";
import { COLOURS } from "../simulator/report/chart.ts";
import { escaped } from "../simulator/report/escaped.ts";
import { STYLE } from "../simulator/report/style.ts";

export interface BarGroup {
  readonly name: string;
  /** One for each series; what is absent leaves a gap. */
  readonly values: readonly (number | undefined)[];
}

interface BarsFigure {
  readonly title: string;
  /** Of the axis of values. */
  readonly label: string;
  /** Where that axis ends; above the largest value when absent. */
  readonly top?: number;
  /** A value at which a line is drawn out. */
  readonly markedAt?: number;
  readonly series: readonly string[];
  readonly groups: readonly BarGroup[];
}

const [LEFT, RIGHT, TOP, FLOOR] = [58, 14, 52, 286];
const LEAST_WIDTH = 640;
const LEAST_BAR = 11;
/** Narrower ones have no room for their value. */
const LABELLED_BAR = 26;
/** Of a group's width, what its bars fill. */
const FILLED = 0.66;
/** Of a letter, at the size of the style sheet. */
const LETTER = 6.2;
const LEAN = { degrees: 40, across: 0.77, down: 0.64 };

/** Bars are filled; the report's classes colour lines. */
const FILLS = Array.from({ length: COLOURS }, (_, at) => `.f${at}{fill:var(--s${at})}`).join("");

export function barsSvg({ title, label, top, markedAt, series, groups }: BarsFigure): string {
  const widest = Math.max(...groups.map(({ name }) => name.length)) * LETTER;
  const plotWidth = Math.max(
    LEAST_WIDTH - LEFT - RIGHT,
    (groups.length * series.length * LEAST_BAR) / FILLED,
  );
  const groupWidth = plotWidth / groups.length;
  const barWidth = (groupWidth * FILLED) / series.length;
  const isLeaning = widest > groupWidth;
  const right = LEFT + plotWidth;
  const largest = Math.max(...groups.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const y = scaleLinear()
    .domain([0, top ?? largest * 1.1])
    .range([FLOOR, TOP]);
  const across = (kind: string, value: number): string =>
    `<line class="${kind}" x1="${LEFT}" x2="${px(right)}" y1="${px(y(value))}" y2="${px(y(value))}"/>`;
  const grid = y.ticks(5).map((value) => {
    const text = `<text x="${LEFT - 6}" y="${px(y(value))}" dy="0.32em" text-anchor="end">${value}</text>`;
    return across("grid", value) + text;
  });
  const bars = groups.flatMap(({ name, values }, group) => {
    const middle = LEFT + (group + 0.5) * groupWidth;
    const first = middle - (barWidth * series.length) / 2;
    const at = isLeaning
      ? `transform="translate(${px(middle - 4)} ${FLOOR + 14}) rotate(${LEAN.degrees})"`
      : `x="${px(middle)}" y="${FLOOR + 18}" text-anchor="middle"`;
    return [
      `<text ${at}>${escaped(name)}</text>`,
      ...values.flatMap((value, own) => {
        if (value === undefined) return [];
        const x = first + own * barWidth;
        const rect =
          `<rect class="f${own % COLOURS}" x="${px(x + 0.5)}" y="${px(y(value))}" width="${px(barWidth - 1)}" height="${px(y(0) - y(value))}">` +
          `<title>${escaped(`${name}, ${series[own] ?? ""}: ${short(value)}`)}</title></rect>`;
        const text = `<text x="${px(x + barWidth / 2)}" y="${px(y(value) - 4)}" text-anchor="middle">${short(value)}</text>`;
        return barWidth < LABELLED_BAR ? [rect] : [rect, text];
      }),
    ];
  });
  let legendX = LEFT;
  const legend = series.map((name, at) => {
    const x = legendX;
    legendX += 34 + name.length * LETTER;
    return (
      `<rect class="f${at % COLOURS}" x="${px(x)}" y="30" width="12" height="12"/>` +
      `<text x="${px(x + 18)}" y="40">${escaped(name)}</text>`
    );
  });
  const width = Math.ceil(
    Math.max(right + RIGHT + (isLeaning ? widest * LEAN.across - groupWidth / 2 : 0), legendX),
  );
  const height = Math.ceil(FLOOR + 34 + (isLeaning ? widest * LEAN.down : 0));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}${FILLS}text{font-family:system-ui,sans-serif}</style><rect width="100%" height="100%" fill="var(--back)"/>`,
    `<text class="name" x="${LEFT}" y="18">${escaped(title)}</text>`,
    series.length > 1 ? legend.join("") : "",
    ...grid,
    ...bars,
    across("axis", 0),
    markedAt === undefined ? "" : across("axis dashed", markedAt),
    `<text class="name" transform="translate(14 ${(TOP + FLOOR) / 2}) rotate(-90)" text-anchor="middle">${escaped(label)}</text>`,
    "</svg>\n",
  ].join("");
}

const px = (value: number): string => String(Math.round(value * 10) / 10);

const short = (value: number): string => String(Number(value.toPrecision(3)));
