/** @file Groups of bars side by side as SVG, with round ticks; of ratios the line at 1 is drawn out. */

import { escaped } from "../../scheduling/inference/timeline.ts";

export interface Group {
  readonly name: string;
  /** By series; what is absent leaves a gap. */
  readonly values: readonly (number | undefined)[];
}

export interface BarChart {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly string[];
  readonly groups: readonly Group[];
}

const COLOURS = ["#4c78a8", "#bab0ac", "#f58518", "#54a24b", "#e45756", "#72b7b2"];
const BAR = 9;
const LEFT = 60;
const TOP = 60;
const PLOT_HEIGHT = 160;
const BOTTOM = TOP + PLOT_HEIGHT;
/** Of one letter of a name, and how far names lean downwards and out of the last group. */
const LETTER = 4.6;
const LEAN = 0.64;
const OUT = 0.77;

export function barChart({ title, unit, series, groups }: BarChart): string {
  const most = Math.max(...groups.flatMap(({ values }) => values.map((value) => value ?? 0)), 1e-9);
  const step = roundStep(most / 4);
  const top = step * Math.ceil(most / step - 1e-9);
  const groupWidth = Math.max(40, series.length * BAR + 12);
  const right = LEFT + groups.length * groupWidth;
  const yAt = (value: number): string => (BOTTOM - (value / top) * PLOT_HEIGHT).toFixed(1);
  const bars = groups.flatMap(({ name, values }, group) => {
    const x = LEFT + 6 + group * groupWidth;
    const middle = x + (series.length * BAR) / 2 - 3;
    const label = `<text transform="translate(${middle} ${BOTTOM + 12}) rotate(40)" font-size="9">${escaped(name)}</text>`;
    const rects = values.flatMap((value, at) =>
      value === undefined
        ? []
        : [
            `<rect x="${x + at * BAR}" y="${yAt(value)}" width="${BAR - 1}" height="${(BOTTOM - Number(yAt(value))).toFixed(1)}" fill="${colour(at)}"><title>${series[at] ?? ""}: ${value.toFixed(3)} ${unit}</title></rect>`,
          ],
    );
    return [label, ...rects];
  });
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => {
    const value = Number((at * step).toPrecision(6));
    const y = yAt(value);
    return `<line x1="${LEFT}" x2="${right}" y1="${y}" y2="${y}" stroke="#ddd"/><text x="${LEFT - 6}" y="${Number(y) + 3}" font-size="10" text-anchor="end">${value} ${unit}</text>`;
  });
  const one =
    unit === "×" && top > 1
      ? [`<line x1="${LEFT}" x2="${right}" y1="${yAt(1)}" y2="${yAt(1)}" stroke="#555"/>`]
      : [];
  let legendX = LEFT;
  const legend = series.map((name, at) => {
    const x = legendX;
    legendX += 34 + name.length * 6.2;
    return `<rect x="${x}" y="32" width="10" height="10" fill="${colour(at)}"/><text x="${x + 14}" y="41" font-size="11">${name}</text>`;
  });
  const longest = Math.max(...groups.map(({ name }) => name.length)) * LETTER;
  const width = Math.ceil(Math.max(right + longest * OUT, legendX, 16 + title.length * 7.2));
  const height = Math.ceil(BOTTOM + 20 + longest * LEAN);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="sans-serif">`,
    `<rect width="100%" height="100%" fill="white"/><text x="8" y="18" font-size="14">${escaped(title)}</text>`,
    ...legend,
    ...ticks,
    ...bars,
    ...one,
    "</svg>",
    "",
  ].join("\n");
}

const colour = (series: number): string => COLOURS[series % COLOURS.length] ?? "";

/** The next of 1, 2, 2.5 and 5 times a power of ten. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 2.5, 5].find((each) => each * power >= least) ?? 10);
}
