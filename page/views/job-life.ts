/** @file A job's life from its own history: a strip of its phases, what happened in the order of time, and one card for each run. No hooks. */

import { h, type ComponentChildren } from "preact";
import { phasesOf } from "../job-phases.ts";
import type { AttemptRow, JobMoment, JobPage } from "../job-wire.ts";
import { bits, counted, durationText, gpuCount, timeText } from "../text.ts";
import type { GpuMask } from "../wire.ts";

export function LifeStrip({
  page,
  nowMs,
}: {
  readonly page: JobPage;
  readonly nowMs: number;
}): ComponentChildren {
  const phases = phasesOf(page, nowMs);
  const [first] = phases;
  const last = phases.at(-1);
  if (first === undefined || last === undefined || last.toMs <= first.fromMs) return null;
  const whole = last.toMs - first.fromMs;
  const label = phases
    .map(({ phase, fromMs, toMs }) => `${phase} ${durationText(toMs - fromMs)}`)
    .join(", ");
  return h(
    "div",
    { class: "strip" },
    h(
      "svg",
      { viewBox: "0 0 1000 18", preserveAspectRatio: "none", role: "img", "aria-label": label },
      phases.map(({ phase, fromMs, toMs }) =>
        h(
          "rect",
          {
            key: `${phase} ${fromMs}`,
            class: `phase-${phase}`,
            x: (1_000 * (fromMs - first.fromMs)) / whole,
            width: Math.max(1, (1_000 * (toMs - fromMs)) / whole),
            height: 18,
          },
          h("title", null, `${phase} for ${durationText(toMs - fromMs)}`),
        ),
      ),
    ),
    h(
      "ol",
      { class: "phases" },
      phases.map(({ phase, fromMs, toMs }) =>
        h(
          "li",
          { key: `${phase} ${fromMs}` },
          h(
            "svg",
            { "aria-hidden": true },
            h("rect", { class: `phase-${phase}`, width: 10, height: 10, rx: 2 }),
          ),
          `${phase} ${durationText(toMs - fromMs)}`,
        ),
      ),
    ),
  );
}

export function Timeline({
  moments,
  omitted,
}: {
  readonly moments: readonly JobMoment[];
  readonly omitted: number;
}): ComponentChildren {
  return h(
    "div",
    { class: "card" },
    h("h3", null, "Timeline"),
    omitted > 0 && h("p", { class: "quiet" }, `${counted(omitted, "moment")} left out between`),
    h(
      "ol",
      { class: "timeline" },
      moments.map(({ atMs, kind, text }, at) =>
        h(
          "li",
          { key: at },
          h("time", { title: new Date(atMs).toISOString() }, timeText(atMs)),
          " ",
          h("span", { class: `mark mark-${kind}` }, kind),
          " ",
          text,
        ),
      ),
    ),
  );
}

/** The newest first. */
export const Attempts = ({ page }: { readonly page: JobPage }): ComponentChildren =>
  [...page.attempts].reverse().map((row) => h(AttemptCard, { key: row.lease, row }));

function AttemptCard({ row }: { readonly row: AttemptRow }): ComponentChildren {
  const { lease, gpus, cause, checkpoint, extras, bandwidth, reason, lostGpuSeconds } = row;
  const end = row.end ?? (row.isUnreported ? "no host reported its end" : "not over");
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["Here because", reason],
    ["Bandwidth", bandwidth],
    ...extras.map(({ part, text }) => [part, text] as const),
    ["Failed", cause],
    ["Checkpoint", checkpoint],
    [
      "Lost",
      lostGpuSeconds === undefined ? undefined : `${lostGpuSeconds.toFixed(1)} GPU-seconds of work`,
    ],
  ];
  return h(
    "div",
    { class: "card" },
    h("h3", null, `${lease}: ${counted(gpuCount(gpus), "GPU")}, ${end}${spanText(row)}`),
    h(Bars, { row }),
    h(Gang, { gpus }),
    h(
      "dl",
      { class: "facts" },
      facts
        .filter(([, text]) => text !== undefined)
        .flatMap(([name, text]) => [
          h("dt", { key: name }, name),
          h("dd", { key: `${name}=` }, text),
        ]),
    ),
  );
}

const spanText = ({ startedAtMs, endedAtMs }: AttemptRow): string =>
  startedAtMs === undefined || endedAtMs === undefined
    ? ""
    : `, ran ${durationText(endedAtMs - startedAtMs)}`;

/** Expected and measured bandwidth on one scale. */
function Bars({ row }: { readonly row: AttemptRow }): ComponentChildren {
  const { predictedGbs, measuredGbs } = row;
  const bars = [
    ["expected", predictedGbs],
    ["measured", measuredGbs],
  ] as const;
  const most = Math.max(predictedGbs ?? 0, measuredGbs ?? 0);
  if (most === 0) return null;
  return h(
    "table",
    { class: "bars" },
    h(
      "tbody",
      null,
      bars.map(
        ([name, gbs]) =>
          gbs !== undefined &&
          h(
            "tr",
            { key: name },
            h("th", { scope: "row" }, name),
            h(
              "td",
              null,
              h(
                "svg",
                { role: "img", "aria-label": `${gbs.toFixed(1)} GB/s` },
                h("rect", { class: `bar-${name}`, width: `${(100 * gbs) / most}%`, height: 12 }),
              ),
            ),
            h("td", { class: "right" }, `${gbs.toFixed(1)} GB/s`),
          ),
      ),
    ),
  );
}

const MOST_HOSTS = 64;

/** The gang by cluster and host: each GPU of a host in its place, those of the gang filled. */
export function Gang({ gpus }: { readonly gpus: readonly GpuMask[] }): ComponentChildren {
  const clusters = new Map<string, GpuMask[]>();
  for (const part of gpus.slice(0, MOST_HOSTS)) {
    const cluster = part[0].split("/")[0] ?? "";
    clusters.set(cluster, [...(clusters.get(cluster) ?? []), part]);
  }
  return h(
    "div",
    { class: "topology" },
    [...clusters].map(([cluster, hosts]) =>
      h(
        "div",
        { key: cluster, class: "topology-cluster" },
        h("b", null, cluster),
        hosts.map(([host, mask]) =>
          h(
            "div",
            { key: host, class: "topology-host" },
            h(
              "svg",
              { width: 8 * 11, height: 12, role: "img", "aria-label": `GPUs ${maskText(mask)}` },
              Array.from({ length: Math.max(8, 32 - Math.clz32(mask)) }, (_, gpu) =>
                h("rect", {
                  key: gpu,
                  class: ((mask >>> gpu) & 1) === 1 ? "in" : "out",
                  x: gpu * 11,
                  width: 9,
                  height: 12,
                }),
              ),
            ),
            ` ${host} `,
            h("span", { class: "quiet" }, `${maskText(mask)} (${bits(mask)})`),
          ),
        ),
      ),
    ),
    gpus.length > MOST_HOSTS &&
      h("p", { class: "quiet" }, `and ${gpus.length - MOST_HOSTS} more hosts`),
  );
}

/** `0 1 5`: the numbers of the GPUs. */
const maskText = (mask: number): string =>
  Array.from({ length: 31 }, (_, gpu) => gpu)
    .filter((gpu) => ((mask >>> gpu) & 1) === 1)
    .join(" ");
