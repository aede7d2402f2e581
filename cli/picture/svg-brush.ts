/** @file Draws as a canvas does, into SVG. Pure. */

import { harmless } from "../../domain/values/file-problem.ts";
import type { Brush } from "../../page/map/draw.ts";
import { escaped } from "../../simulator/report/escaped.ts";

export interface SvgBrush extends Brush {
  /** What was drawn, moved by `x` and `y` pixels. */
  readonly group: (x: number, y: number) => string;
}

export function createSvgBrush(): SvgBrush {
  const drawn: string[] = [];
  let path: string[] = [];
  const brush: SvgBrush = {
    fillStyle: "",
    strokeStyle: "",
    globalAlpha: 1,
    lineWidth: 1,
    font: "",
    beginPath: () => void (path = []),
    rect: (...[x, y, width, height]) =>
      void path.push(
        `M${number(x)} ${number(y)}h${number(width)}v${number(height)}h${number(-width)}z`,
      ),
    moveTo: (x, y) => void path.push(`M${number(x)} ${number(y)}`),
    lineTo: (x, y) => void path.push(`L${number(x)} ${number(y)}`),
    fill() {
      if (path.length === 0) return;
      const alpha = brush.globalAlpha === 1 ? "" : ` fill-opacity="${number(brush.globalAlpha)}"`;
      drawn.push(`<path fill="${styleOf(brush.fillStyle)}"${alpha} d="${path.join("")}"/>`);
    },
    stroke() {
      if (path.length === 0) return;
      drawn.push(
        `<path fill="none" stroke="${styleOf(brush.strokeStyle)}" stroke-width="${number(brush.lineWidth)}" d="${path.join("")}"/>`,
      );
    },
    fillText(text, x, y) {
      const { weight = "400", size = "12" } = FONT.exec(brush.font)?.groups ?? {};
      drawn.push(
        `<text x="${number(x)}" y="${number(y)}" font-size="${size}" font-weight="${weight}" fill="${styleOf(brush.fillStyle)}">${escaped(harmless(text))}</text>`,
      );
    },
    group: (x, y) => `<g transform="translate(${number(x)} ${number(y)})">${drawn.join("\n")}</g>`,
  };
  return brush;
}

/** `600 13px system-ui`. */
const FONT = /^(?:(?<weight>\d+) )?(?<size>\d+)px/;

const number = (value: number): string => String(Math.round(value * 100) / 100);

const styleOf = (style: string | object): string =>
  typeof style === "string" ? escaped(style) : "";
