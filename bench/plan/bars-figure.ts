/**
 * @file Grouped bars as one SVG file: a group for each name on the axis, a bar for each series, its value above it and a legend inside the picture.
 *
 * d3-scale makes the scale and its ticks; colours are those of the simulator's report, so that a picture is readable in light and in dark.
 */

import { scaleLinear } from "d3-scale";
import { COLOURS } from "../../simulator/report/chart.ts";
import { escaped } from "../../simulator/report/escaped.ts";
import { STYLE } from "../../simulator/report/style.ts";

export interface BarGroup {
  readonly name: string;
  /** One for each series. */
  readonly values: readonly number[];
}

export interface BarsFigure {
  readonly title: string;
  /** Of the axis of values. */
  readonly label: string;
  /** Where that axis ends; above the largest value when absent. */
  readonly top?: number;
  readonly series: readonly string[];
  readonly groups: readonly BarGroup[];
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 320, 58, 14, 52, 34];
/** Of a group's width, what its bars fill. */
const FILLED = 0.66;

/** Bars are filled; the report's classes colour lines. */
const FILLS = Array.from({ length: COLOURS }, (_, at) => `.f${at}{fill:var(--s${at})}`).join("");

export function barsSvg({ title, label, top, series, groups }: BarsFigure): string {
  const largest = Math.max(...groups.flatMap(({ values }) => values));
  const scale = scaleLinear().domain([0, top ?? largest * 1.1]);
  const y = scale.range([HEIGHT - BOTTOM, TOP]);
  const groupWidth = (WIDTH - LEFT - RIGHT) / groups.length;
  const barWidth = (groupWidth * FILLED) / series.length;
  const grid = y.ticks(5).map((value) => {
    const at = px(y(value));
    return (
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}"/>` +
      `<text x="${LEFT - 6}" y="${at}" dy="0.32em" text-anchor="end">${value}</text>`
    );
  });
  const bars = groups.flatMap(({ name, values }, group) => {
    const middle = LEFT + (group + 0.5) * groupWidth;
    const first = middle - (barWidth * series.length) / 2;
    return [
      `<text x="${px(middle)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${escaped(name)}</text>`,
      ...values.map((value, at) => {
        const x = first + at * barWidth;
        return (
          `<rect class="f${at % COLOURS}" x="${px(x + 1)}" y="${px(y(value))}" width="${px(barWidth - 2)}" height="${px(y(0) - y(value))}">` +
          `<title>${escaped(`${name}, ${series[at] ?? ""}: ${short(value)}`)}</title></rect>` +
          `<text x="${px(x + barWidth / 2)}" y="${px(y(value) - 4)}" text-anchor="middle">${short(value)}</text>`
        );
      }),
    ];
  });
  const legend = series.map(
    (name, at) =>
      `<rect class="f${at % COLOURS}" x="${LEFT + at * 130}" y="30" width="12" height="12"/>` +
      `<text x="${LEFT + at * 130 + 18}" y="40">${escaped(name)}</text>`,
  );
  const floor = HEIGHT - BOTTOM;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escaped(title)}">`,
    `<style>${STYLE}${FILLS}text{font-family:system-ui,sans-serif}</style><rect width="100%" height="100%" fill="var(--back)"/>`,
    `<text class="name" x="${LEFT}" y="18">${escaped(title)}</text>`,
    series.length > 1 ? legend.join("") : "",
    ...grid,
    ...bars,
    `<line class="axis" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${floor}" y2="${floor}"/>`,
    `<text class="name" transform="translate(14 ${(TOP + floor) / 2}) rotate(-90)" text-anchor="middle">${escaped(label)}</text>`,
    "</svg>\n",
  ].join("");
}

const px = (value: number): string => String(Math.round(value * 10) / 10);

const short = (value: number): string => String(Number(value.toPrecision(3)));
