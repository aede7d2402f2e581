/** @file The plainer views: shares of classes and tenants, hosts as a table, and the last decisions. */

import { h, type ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { readGpus } from "../map/gpus.ts";
import type { Go } from "../place.ts";
import type { Store } from "../store.ts";
import { durationText, timeText } from "../text.ts";
import type { DecisionRow, FlowRow, HostRow } from "../wire.ts";
import { List, type Column } from "./list.ts";

export function TenantsView({ store }: { readonly store: Store }): ComponentChildren {
  const rows = [...store.tables.flows].sort(([a], [b]) => (a < b ? -1 : 1));
  const most = Math.max(1, ...rows.map(([, row]) => Math.max(row.runningGpus, row.dueGpus)));
  if (rows.length === 0)
    return h("p", { class: "quiet wide" }, "No job waits or runs, so nobody is owed anything.");
  return h(
    "section",
    { class: "wide", "aria-label": "Tenants" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Class / tenant", "Weight", "Waiting", "Held", "Due", "", "Owed GPU-h", ""].map(
            (title, at) => h("th", { key: at, scope: "col" }, title),
          ),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map(([key, row]) => h(FlowLine, { key, row, most })),
      ),
    ),
  );
}

function FlowLine({
  row,
  most,
}: {
  readonly row: FlowRow;
  readonly most: number;
}): ComponentChildren {
  const { tenant, weight, waiting, runningGpus, dueGpus, deficitGpuHours } = row;
  return h(
    "tr",
    { class: tenant === undefined ? "class-line" : "tenant-line" },
    h("th", { scope: "row" }, tenant ?? row.class),
    h("td", { class: "right" }, String(weight)),
    h("td", { class: "right" }, String(waiting)),
    h("td", { class: "right" }, String(runningGpus)),
    h("td", { class: "right" }, dueGpus.toFixed(1)),
    h(
      "td",
      null,
      h(
        "svg",
        {
          width: 120,
          height: 14,
          role: "img",
          "aria-label": `holds ${runningGpus} GPUs, due ${dueGpus.toFixed(1)}`,
        },
        h("rect", { class: "held", y: 2, width: (120 * runningGpus) / most, height: 10 }),
        h("rect", {
          class: "due",
          x: Math.max(0, (120 * dueGpus) / most - 2),
          width: 2,
          height: 14,
        }),
      ),
    ),
    h("td", { class: "right" }, deficitGpuHours.toFixed(2)),
    h("td", null, wordFor(row)),
  );
}

/** Over: holds more than its due. Owed: has had less than its due and waits. */
function wordFor({ runningGpus, dueGpus, waiting, deficitGpuHours }: FlowRow): string {
  if (runningGpus > dueGpus + 0.5) return "over its share";
  if (waiting > 0 && deficitGpuHours > 0) return "owed";
  return waiting > 0 && runningGpus < dueGpus - 0.5 ? "under its share" : "";
}

const HOST_COLUMNS: readonly Column[] = [
  { id: "host", title: "Host" },
  { id: "type", title: "Type" },
  { id: "rack", title: "Rack" },
  { id: "free", title: "Free", isRight: true },
  { id: "held", title: "Held", isRight: true },
  { id: "health", title: "Health" },
  { id: "jobs", title: "Jobs" },
];

interface HostLine {
  readonly id: string;
  readonly row: HostRow;
  readonly free: number;
  readonly jobs: readonly string[];
}

/** The table twin of the map. */
export function HostsView({
  store,
  go,
}: {
  readonly store: Store;
  readonly go: Go;
}): ComponentChildren {
  const { tables } = store;
  const rows = useMemo(() => {
    const book = readGpus(tables.hosts, tables.leases, tables.reservations);
    return book.hosts.map(({ id, row, first }): HostLine => {
      const jobs = new Set<string>();
      let free = 0;
      for (let gpu = first; gpu < first + row.gpus; gpu += 1) {
        const lease = book.leases[book.leaseOf[gpu] ?? -1];
        if (lease !== undefined) jobs.add(lease.job);
        else if (book.states[gpu] === 0) free += 1;
      }
      return { id, row, free, jobs: [...jobs] };
    });
  }, [store.revision()]);
  return h(
    "section",
    { "aria-label": "Hosts", class: "hosts" },
    h(List<HostLine>, {
      label: "Hosts",
      columns: HOST_COLUMNS,
      rows,
      rowHeight: 34,
      keyOf: ({ id }) => id,
      cell: ({ id, row, free, jobs }, column) => {
        switch (column) {
          case "host":
            return id;
          case "type":
            return `${row.gpus} × ${row.gpuType}`;
          case "rack":
            return row.rack;
          case "free":
            return String(free);
          case "held":
            return String(row.gpus - free);
          case "health":
            return healthText(row, store.nowMs());
          default:
            return jobs.map((job) =>
              h(
                "button",
                { key: job, class: "link", onClick: () => go({ view: "job", job }) },
                job,
              ),
            );
        }
      },
    }),
  );
}

function healthText({ condition, drainReason, silentSinceMs }: HostRow, nowMs: number): string {
  if (condition === undefined) return "ready";
  if (condition === "drained")
    return drainReason === undefined ? "drained" : `drained: ${drainReason}`;
  if (condition === "agentless") return "no agent";
  return silentSinceMs === undefined
    ? condition
    : `${condition}, silent for ${durationText(nowMs - silentSinceMs)}`;
}

export function DecisionsView({ store }: { readonly store: Store }): ComponentChildren {
  const rows = [...store.tables.decisions].sort(([a], [b]) => Number(b) - Number(a));
  if (rows.length === 0)
    return h(
      "p",
      { class: "quiet wide" },
      "Nothing has been decided since the console started reading.",
    );
  return h(
    "section",
    { class: "wide", "aria-label": "Decisions" },
    rows.map(([key, row]) => h(Decision, { key, row })),
  );
}

function Decision({ row }: { readonly row: DecisionRow }): ComponentChildren {
  const { atMs, method, candidates, waiting, grants, evictions, reservations, refusals } = row;
  const parts = [
    ["granted", grants],
    ["evicted", evictions],
    ["reserved", reservations],
    ["refused", refusals],
  ] as const;
  return h(
    "article",
    { class: "card" },
    h(
      "p",
      null,
      h("time", null, timeText(atMs)),
      ` · ${method}, ${candidates.toLocaleString("en")} candidates · ${waiting} left waiting`,
    ),
    parts
      .filter(([, lines]) => lines.length > 0)
      .map(([name, lines]) =>
        h(
          "div",
          { key: name, class: "part" },
          h("b", null, name),
          h(
            "ul",
            null,
            lines.map((line) => h("li", { key: line }, line)),
          ),
        ),
      ),
  );
}
