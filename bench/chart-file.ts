/** @file A chart as one SVG file that a browser shows alone: with its style, its title and its legend. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { legendHtml, type Series } from "../simulator/report/chart.ts";
import { escaped } from "../simulator/report/escaped.ts";
import { STYLE } from "../simulator/report/style.ts";

export interface ChartFile {
  readonly title: string;
  /** Of `chartSvg`. */
  readonly svg: string;
  readonly series: readonly Series[];
}

/** Writes `name`.svg into `dir`, which is made. */
export function writeChart(dir: string, name: string, { title, svg, series }: ChartFile): void {
  const inner = svg.replace("<svg ", '<svg x="0" y="70" width="640" height="300" ');
  // Outside a page of HTML a legend's lines are drawn only where they say that they are SVG.
  const marked = legendHtml(series).replaceAll(
    "<svg ",
    '<svg xmlns="http://www.w3.org/2000/svg" width="24" height="10" ',
  );
  const legend = `<foreignObject x="0" y="0" width="640" height="70"><div xmlns="http://www.w3.org/1999/xhtml"><strong>${escaped(title)}</strong>${marked}</div></foreignObject>`;
  const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 370"><style>${STYLE}</style>${legend}${inner}</svg>\n`;
  writeFigure(dir, `${name}.svg`, text);
}

/** Into `dir`, which is made. */
export function writeFigure(dir: string, file: string, text: string): void {
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, file), text);
}
