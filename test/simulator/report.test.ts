/** @file The HTML report: one file that needs nothing else, with every plot, of one policy and of several. */
import { describe, expect, it, test } from "vitest";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { chartSvg } from "../../simulator/report/chart.ts";
import { figuresOf } from "../../simulator/report/figures.ts";
import { reportHtml } from "../../simulator/report/page.ts";
import { shortNumber, timeSpanText, unitFor } from "../../simulator/report/amounts.ts";
import type { SimulationResult } from "../../simulator/result.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import { job, optionsFor, workloadOf } from "./fixtures.ts";

const CLASSES = ["inference", "interactive", "training"] as const;

function simulated(policy: string, name = "by hand"): SimulationResult {
  const jobs = Array.from({ length: 40 }, (_, at) =>
    job(`j${String(at)}`, {
      submittedAtMs: at * 1_000,
      gpus: [1, 2, 8][at % 3] ?? 1,
      durationMs: 9_000,
      class: CLASSES[at % 3] ?? "training",
      tenant: at % 2 === 0 ? "a" : "b",
    }),
  );
  const options = optionsFor(jobs, { fleet: fleetOf([16]), policy });
  return runSimulation({ ...options, workload: { ...workloadOf(jobs), name } });
}

const ONE = simulated("tawfq");
const TWO = [ONE, simulated("fifo")];

describe("the report", () => {
  it.each([
    ["one policy", [ONE]],
    ["two policies", TWO],
  ])("of %s is one well-formed file that loads nothing", (_name, results) => {
    const html = reportHtml(results);
    expect(html).not.toMatch(/https?:|\/\/|url\(|<script|<link|<img|<iframe|@import|\bon\w+=/);
    expect(html).toContain("default-src 'none'");
    expect(html).not.toMatch(/NaN|Infinity|undefined|null/);
    expectBalanced(html);
  });

  it("of one policy has every plot, with a line for each class where classes differ", () => {
    const figures = figuresOf([ONE]);
    expect(figures.map(({ heading }) => heading)).toEqual([
      "Utilisation",
      "Waits by class",
      "Queue length",
      "Preemptions",
      "Share against due share",
      "Fragmentation",
    ]);
    const lines = new Map(figures.map(({ heading, chart }) => [heading, chart.series.length]));
    expect([...lines.values()]).toEqual([1, 3, 3, 1, 6, 1]);
  });

  it("of several policies has a line for each policy, and a plot for each class and share", () => {
    const figures = figuresOf(TWO);
    expect(figures.map(({ heading }) => heading)).toEqual([
      "Utilisation",
      "Waits, inference",
      "Waits, interactive",
      "Waits, training",
      "Queue length",
      "Preemptions",
      "Share against due share, tawfq",
      "Share against due share, fifo",
      "Fragmentation",
    ]);
    expect(figures[0]?.chart.series.map(({ name }) => name)).toEqual(["tawfq", "fifo"]);
  });

  it("says each policy's figures and what was charged", () => {
    const html = reportHtml(TWO, { remarks: ["3 rows could not be read"] });
    for (const text of ['<td class="word">tawfq</td>', '<td class="word">fifo</td>', "40 of 40"])
      expect(html).toContain(text);
    expect(html).toContain("3 rows could not be read");
    expect(html).toContain("Steady window");
  });

  it("shows names from outside as text", () => {
    const html = reportHtml([simulated("tawfq", "<script>alert('x')</script>")]);
    expect(html).toContain("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
    expect(html).not.toContain("<script");
  });

  it("is the same from the same results", () => {
    expect(reportHtml([simulated("tawfq")])).toBe(reportHtml([ONE]));
  });
});

/** Every element that is opened is closed, in order. */
function expectBalanced(html: string): void {
  const open: string[] = [];
  for (const [, slash, name = "", rest = ""] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>/gi)) {
    if (name === "meta" || rest.endsWith("/")) continue;
    if (slash === "") open.push(name);
    else expect(open.pop()).toBe(name);
  }
  expect(open).toEqual([]);
}

test("a chart keeps its lines inside its frame, whatever the values", () => {
  const axis = { label: "v", from: 0, to: 10, text: String };
  const svg = chartSvg({
    title: "t",
    x: axis,
    y: axis,
    series: [
      {
        name: "s",
        colour: 9,
        points: [
          [-5, 3],
          [2, 99],
          [4, NaN],
          [50, -7],
        ],
      },
    ],
  });
  const numbers = [...svg.matchAll(/ d="([^"]+)"/g)].flatMap(([, path = ""]) =>
    [...path.matchAll(/-?\d+(\.\d+)?/g)].map(([text]) => Number(text)),
  );
  expect(numbers.length).toBeGreaterThan(0);
  for (const value of numbers) {
    expect(value).toBeGreaterThanOrEqual(0);
    expect(value).toBeLessThanOrEqual(640);
  }
  expect(svg).toContain("s1");
});

test.each([
  [0, "0"],
  [5, "5 ms"],
  [1_234, "1.23 s"],
  [59_990, "60 s"],
  [90_000, "1.5 min"],
  [5_400_000, "1.5 h"],
  [200_000_000, "2.31 d"],
])("%i ms is %s", (ms, wantText) => {
  expect(timeSpanText(ms)).toBe(wantText);
});

test.each([
  [12_345.6, "12,346"],
  [99.96, "100"],
  [0.012_345, "0.0123"],
])("%f is %s", (value, wantText) => {
  expect(shortNumber(value)).toBe(wantText);
});

test.each([
  [2_000, "milliseconds"],
  [60_000, "seconds"],
  [600_000, "minutes"],
  [20_000_000, "hours"],
  [900_000_000, "days"],
])("an axis of %i ms counts %s", (spanMs, wantUnit) => {
  expect(unitFor(spanMs).name).toBe(wantUnit);
});
