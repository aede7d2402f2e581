/** @file The last decisions: what each cycle granted, evicted, reserved and refused, and why. */

import { h, type ComponentChildren } from "preact";
import type { Store } from "../store.ts";
import { counted, timeText } from "../text.ts";
import type { DecisionRow } from "../wire.ts";

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
      ` · ${method}, ${counted(candidates, "candidate")} · ${waiting.toLocaleString("en")} left waiting`,
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
