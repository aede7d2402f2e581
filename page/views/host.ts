/** @file One host: its GPUs and which job has each, its health, orders about it, and its leases over time. */

import { h, type ComponentChildren } from "preact";
import { useAnswer, useTicks } from "../asked.ts";
import { hueOf } from "../map/colours.ts";
import { GPU_STATES, isGpuDrained, readGpus, type GpuBook, type GpuState } from "../map/gpus.ts";
import type { Go } from "../place.ts";
import type { Store } from "../store.ts";
import { counted, durationText, healthText, timeText } from "../text.ts";
import { UNTOLD, type HostPast, type HostRow, type UseRow } from "../wire.ts";
import { hostOrders, Orders } from "./orders.ts";

const LOOK_EVERY_MS = 5_000;

export function HostView({
  store,
  host,
  go,
}: {
  readonly store: Store;
  readonly host: string;
  readonly go: Go;
}): ComponentChildren {
  const tick = useTicks(LOOK_EVERY_MS);
  const past = useAnswer<HostPast>(`/api/host?host=${encodeURIComponent(host)}`, tick);
  const row = store.tables.hosts.get(host);
  if (row === undefined)
    return h(
      "p",
      { class: "quiet wide" },
      `The fleet has no host ${host === "" ? "of that name" : host}.`,
    );
  const isReady = row.condition === undefined && row.gpuDrains === undefined;
  const book = readGpus(new Map([[host, row]]), store.tables.leases, store.tables);
  return h(
    "section",
    { class: "wide", "aria-label": `Host ${host}` },
    h("h2", null, host),
    h(
      "p",
      { class: "quiet" },
      `${row.gpus} × ${row.gpuType} · cluster ${row.cluster}${row.site === "" ? "" : ` in ${row.site}`}${row.rack === "" ? "" : ` · rack ${row.rack}`}`,
    ),
    h("p", { class: isReady ? "good" : "bad" }, isReady ? "Ready" : healthText(row, store.nowMs())),
    !store.isPast() &&
      store.facts().mayAct &&
      h(Orders, { buttons: hostOrders(host, row.condition === "drained") }),
    h(Gpus, { book, row, used: store.tables.use.get(host), nowMs: store.nowMs(), go }),
    past && h(Spans, { past, row, nowMs: store.nowMs(), go }),
  );
}

const TITLES = ["GPU", "State", "Job", "Class", "Tenant", "For"] as const;

const told = (value: number | undefined, unit: string): string =>
  value === undefined || value === UNTOLD ? "" : `${value}${unit}`;

function Gpus({
  book,
  row,
  used,
  nowMs,
  go,
}: {
  readonly book: GpuBook;
  readonly row: HostRow;
  /** What the host's agent tells of them; absent: nothing. */
  readonly used: UseRow | undefined;
  readonly nowMs: number;
  readonly go: Go;
}): ComponentChildren {
  return h(
    "table",
    { class: "gpus" },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        [...TITLES, ...(used === undefined ? [] : ["Use", "Memory", "Power"])].map((title, at) =>
          h("th", { key: title, scope: "col", class: classOf(at) }, title),
        ),
      ),
    ),
    h(
      "tbody",
      null,
      Array.from(book.states, (state, gpu) => {
        const lease = book.leases[book.leaseOf[gpu] ?? -1];
        const job = lease?.job ?? book.claimants[book.claimOf[gpu] ?? -1];
        return h(
          "tr",
          { key: gpu },
          h("th", { scope: "row" }, String(gpu)),
          h("td", null, stateText(GPU_STATES[state] ?? "free", isGpuDrained(row, gpu))),
          h(
            "td",
            null,
            job !== undefined &&
              h("button", { class: "link", onClick: () => go({ view: "job", job }) }, job),
          ),
          h("td", { class: "wide-only" }, lease?.class),
          h("td", { class: "wide-only" }, lease?.tenant),
          h("td", null, lease && durationText(nowMs - lease.sinceMs)),
          used && [
            h("td", { key: "use", class: "right" }, told(used.use[gpu], " %")),
            h("td", { key: "memory", class: "right" }, told(used.memory[gpu], " %")),
            h("td", { key: "watts", class: "right" }, told(used.watts[gpu], " W")),
          ],
        );
      }),
    ),
  );
}

/** A job keeps its GPUs when they are drained. */
const stateText = (state: GpuState, isDrained: boolean): string =>
  isDrained && state !== "drained" ? `${state}, drained` : state;

/** Of the titles: class and tenant where there is room, figures to the right. */
const classOf = (at: number): string =>
  at >= TITLES.length ? "right" : at > 2 && at < 5 ? "wide-only" : "";

const WIDTH = 1_000;
const LINE = 16;

/** A line for each GPU, a box for each lease. */
function Spans({
  past: { spans, sinceMs },
  row,
  nowMs,
  go,
}: {
  readonly past: HostPast;
  readonly row: HostRow;
  readonly nowMs: number;
  readonly go: Go;
}): ComponentChildren {
  const fromMs = Math.min(nowMs - 60_000, Math.max(sinceMs, nowMs - LONGEST_MS));
  const x = (ms: number): number => (WIDTH * (Math.max(ms, fromMs) - fromMs)) / (nowMs - fromMs);
  const shown = spans.filter(({ toMs = nowMs }) => toMs >= fromMs);
  return h(
    "div",
    { class: "card" },
    h("h3", null, "Leases over time"),
    h(
      "p",
      { class: "quiet" },
      `${counted(shown.length, "lease")} from ${timeText(fromMs)} to ${timeText(nowMs)}, a line for each GPU`,
    ),
    h(
      "svg",
      {
        class: "spans",
        viewBox: `0 0 ${WIDTH} ${row.gpus * LINE}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": shown
          .map(
            ({ job, fromMs: from, toMs }) => `${job} for ${durationText((toMs ?? nowMs) - from)}`,
          )
          .join(", "),
      },
      Array.from({ length: row.gpus }, (_, gpu) =>
        h("rect", { key: gpu, class: "free", y: gpu * LINE, width: WIDTH, height: LINE - 2 }),
      ),
      shown.flatMap(({ job, lease, tenant, mask, fromMs: from, toMs = nowMs }) =>
        Array.from({ length: row.gpus }, (_, gpu) =>
          ((mask >>> gpu) & 1) === 0
            ? null
            : h(
                "rect",
                {
                  key: `${lease} ${gpu}`,
                  class: "span",
                  fill: hueOf(job),
                  x: x(from),
                  y: gpu * LINE,
                  width: Math.max(1, x(toMs) - x(from) - 0.5),
                  height: LINE - 2,
                  onClick: () => go({ view: "job", job }),
                },
                h("title", null, `${job} (${tenant}), ${durationText(toMs - from)}`),
              ),
        ),
      ),
    ),
    h(
      "ul",
      { class: "legend" },
      [...new Set(shown.map(({ job }) => job))]
        .slice(-12)
        .map((job) =>
          h(
            "li",
            { key: job },
            h(
              "svg",
              { width: 12, height: 12, "aria-hidden": true },
              h("rect", { width: 12, height: 12, rx: 2, fill: hueOf(job) }),
            ),
            h("button", { class: "link", onClick: () => go({ view: "job", job }) }, job),
          ),
        ),
    ),
  );
}

const LONGEST_MS = 24 * 3_600_000;
