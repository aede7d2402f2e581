/**
 * @file The events of an execution as a Chrome trace and as an SVG: a lane for each GPU, bus and link (SortingHat's figure 10).
 *
 * The trace opens in chrome://tracing and Perfetto; its times are microseconds.
 */

import type { InferenceHost } from "../../domain/model/inference-host.ts";
import type { Span } from "./executor.ts";

export function chromeTrace(host: InferenceHost, spans: readonly Span[]): string {
  const lanes = laneNames(host, spans);
  const names = lanes.map((name, tid) => ({
    ph: "M",
    name: "thread_name",
    pid: 1,
    tid,
    args: { name },
  }));
  const events = spans.map((span) => ({
    ph: "X",
    name: span.name,
    cat: span.lane.kind,
    pid: 1,
    tid: lanes.indexOf(laneName(host, span)),
    ts: round(span.startMs * 1000),
    dur: round((span.endMs - span.startMs) * 1000),
  }));
  return `${JSON.stringify({ displayTimeUnit: "ms", traceEvents: [...names, ...events] })}\n`;
}

const WIDTH = 960;
const LEFT = 110;
const LANE = 22;
const COLOUR = { gpu: "#4c78a8", bus: "#f58518", link: "#54a24b" } as const;

export function timelineSvg(host: InferenceHost, spans: readonly Span[], title: string): string {
  const lanes = laneNames(host, spans);
  const endMs = spans.reduce((latest, span) => Math.max(latest, span.endMs), 0);
  const scale = (WIDTH - LEFT - 24) / Math.max(endMs, Number.MIN_VALUE);
  const bottom = 34 + lanes.length * LANE;
  const height = bottom + 28;
  const bars = spans.map((span) => {
    const y = 34 + lanes.indexOf(laneName(host, span)) * LANE;
    const width = Math.max(0.2, (span.endMs - span.startMs) * scale);
    const x = LEFT + span.startMs * scale;
    return `<rect x="${x.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${LANE - 5}" fill="${COLOUR[span.lane.kind]}"><title>${escaped(span.name)}: ${span.startMs.toFixed(3)} to ${span.endMs.toFixed(3)} ms</title></rect>`;
  });
  const labels = lanes.map(
    (name, at) => `<text x="8" y="${47 + at * LANE}" font-size="12">${escaped(name)}</text>`,
  );
  const ticks = tickMs(endMs).map((ms) => {
    const x = (LEFT + ms * scale).toFixed(2);
    return `<line x1="${x}" x2="${x}" y1="30" y2="${bottom}" stroke="#ddd"/><text x="${x}" y="${bottom + 14}" font-size="11" text-anchor="middle">${ms} ms</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="sans-serif">`,
    `<rect width="${WIDTH}" height="${height}" fill="white"/>`,
    `<text x="8" y="20" font-size="14">${escaped(title)}, ${endMs.toFixed(2)} ms</text>`,
    ...ticks,
    ...labels,
    ...bars,
    "</svg>",
    "",
  ].join("\n");
}

/** Four to ten round times from 0 on. */
function tickMs(endMs: number): number[] {
  if (endMs <= 0) return [0];
  const power = 10 ** Math.floor(Math.log10(endMs / 5));
  const step = power * ([1, 2, 5].find((each) => each * power >= endMs / 8) ?? 10);
  return Array.from({ length: Math.floor(endMs / step) + 1 }, (_, at) =>
    Number((at * step).toPrecision(6)),
  );
}

function laneNames(host: InferenceHost, spans: readonly Span[]): string[] {
  const rank = { gpu: 0, bus: 1, link: 2 } as const;
  const seen = new Map<string, Span>();
  for (const span of spans) {
    const name = laneName(host, span);
    if (!seen.has(name)) seen.set(name, span);
  }
  return [...seen]
    .sort(
      ([, { lane: a }], [, { lane: b }]) =>
        rank[a.kind] - rank[b.kind] || a.index - b.index || (a.to ?? 0) - (b.to ?? 0),
    )
    .map(([name]) => name);
}

function laneName(host: InferenceHost, { lane }: Span): string {
  const gpu = (index: number): string => host.gpus[index]?.name ?? String(index);
  switch (lane.kind) {
    case "gpu":
      return gpu(lane.index);
    case "bus":
      return host.buses[lane.index]?.name ?? `bus ${lane.index}`;
    case "link":
      return `${gpu(lane.index)} → ${gpu(lane.to ?? 0)}`;
  }
}

const round = (value: number): number => Math.round(value * 1000) / 1000;

/** For text in SVG. */
export const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
