/** @file Shares of classes and tenants: held against due, and owed. */

import { h, type ComponentChildren } from "preact";
import type { Store } from "../store.ts";
import { tenths } from "../text.ts";
import type { FlowRow } from "../wire.ts";
import { SharesOverTime } from "./shares.ts";

const COLUMNS: readonly (readonly [title: string, classes: string])[] = [
  ["Class / tenant", ""],
  ["Weight", "right wide-only"],
  ["Waiting", "right"],
  ["Held", "right"],
  ["Due", "right"],
  ["Held against due", "wide-only"],
  ["Owed GPU-h", "right wide-only"],
  ["Standing", ""],
];

export function TenantsView({ store }: { readonly store: Store }): ComponentChildren {
  const rows = [...store.tables.flows].sort(([a], [b]) => (a < b ? -1 : 1));
  const most = (isTenant: boolean): number =>
    Math.max(
      1,
      ...rows
        .filter(([, { tenant }]) => (tenant !== undefined) === isTenant)
        .map(([, row]) => Math.max(row.runningGpus, row.dueGpus)),
    );
  const scales = { class: most(false), tenant: most(true) };
  return h(
    "section",
    { class: "wide", "aria-label": "Tenants" },
    rows.length === 0
      ? h("p", { class: "quiet" }, "No job waits or runs, so nobody is owed anything.")
      : h(
          "table",
          null,
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              COLUMNS.map(([title, names]) =>
                h("th", { key: title, scope: "col", class: names }, title),
              ),
            ),
          ),
          h(
            "tbody",
            null,
            rows.map(([key, row]) =>
              h(FlowLine, {
                key,
                row,
                most: row.tenant === undefined ? scales.class : scales.tenant,
              }),
            ),
          ),
        ),
    h(SharesOverTime, null),
  );
}

function FlowLine({
  row,
  most,
}: {
  readonly row: FlowRow;
  readonly most: number;
}): ComponentChildren {
  const word = wordFor(row);
  const { tenant, weight, waiting, runningGpus, dueGpus, deficitGpuHours } = row;
  return h(
    "tr",
    { class: tenant === undefined ? "class-line" : "tenant-line" },
    h("th", { scope: "row" }, tenant ?? row.class),
    h("td", { class: "right wide-only" }, String(weight)),
    h("td", { class: "right" }, waiting.toLocaleString("en")),
    h("td", { class: "right" }, runningGpus.toLocaleString("en")),
    h("td", { class: "right" }, tenths(dueGpus)),
    h(
      "td",
      { class: "wide-only" },
      h(
        "svg",
        {
          width: BAR,
          height: 14,
          role: "img",
          "aria-label": `holds ${runningGpus} GPUs, due ${dueGpus.toFixed(1)}`,
        },
        h("rect", { class: "held", y: 2, width: (BAR * runningGpus) / most, height: 10 }),
        h("rect", {
          class: "due",
          x: Math.max(0, (BAR * dueGpus) / most - 2),
          width: 2,
          height: 14,
        }),
      ),
    ),
    h("td", { class: "right wide-only" }, tenths(deficitGpuHours)),
    h("td", { class: word.startsWith("over") ? "words-over" : "words-owed" }, word),
  );
}

const BAR = 240;

/** Over: holds more than its due. Owed: has had less than its due and waits. */
function wordFor({ runningGpus, dueGpus, waiting, deficitGpuHours }: FlowRow): string {
  if (runningGpus > dueGpus + 0.5) return "over its share";
  if (waiting > 0 && deficitGpuHours > 0) return "owed";
  return waiting > 0 && runningGpus < dueGpus - 0.5 ? "under its share" : "";
}
