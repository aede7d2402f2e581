/** @file A chart's file stands alone: its legend is drawn outside HTML, its title may hold any sign. */

import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { writeChart } from "../../bench/chart-file.ts";
import { chartSvg, type Series } from "../../simulator/report/chart.ts";

it("is one SVG file with title, legend and lines", () => {
  const dir = join(mkdtempSync(join(tmpdir(), "orbweaver-chart-")), "made");
  const series: readonly Series[] = ["ours", "a & b"].map((name, colour) => ({
    name,
    colour,
    points: [
      [0, 1],
      [1, 2],
    ],
  }));
  const axis = { label: "x", from: 0, to: 2, text: String };
  const title = "loads < 1 & more";
  writeChart(dir, "figure", { title, svg: chartSvg({ title, x: axis, y: axis, series }), series });
  const text = readFileSync(join(dir, "figure.svg"), "utf8");
  expect(text).toContain("<strong>loads &lt; 1 &amp; more</strong>");
  const [, legend = ""] = /<ul class="legend">(.*?)<\/ul>/s.exec(text) ?? [];
  expect(legend.match(/<svg /g)).toHaveLength(2);
  expect(legend.match(/<svg xmlns=/g)).toHaveLength(2);
  expect(legend).toContain("a &amp; b");
});
