/** @file The queue: every waiting job with its place, its reason in numbers, and the cheapest change that would start it now. */

import { h, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Go } from "../place.ts";
import { counted, durationText } from "../text.ts";
import { List, type Column } from "./list.ts";
import { codeOf, queueRows, type QueueRow } from "./queue-rows.ts";
import type { ViewProps } from "./view-props.ts";

const COLUMNS: readonly Column[] = [
  { id: "place", title: "#", isRight: true },
  { id: "job", title: "Job" },
  { id: "class", title: "Class" },
  { id: "tenant", title: "Tenant" },
  { id: "gpus", title: "GPUs", isRight: true },
  { id: "age", title: "Waits", isRight: true },
  { id: "code", title: "Reason" },
];
/** As in `page.css`. On a phone the reason has two lines, and the change one of its own. */
const ROW_HEIGHT = 58;
const NARROW_ROW_HEIGHT = 96;
/** Changes are looked for on the rows in sight, one after the other, after a pause: each costs the console some cycles of scheduling. */
const LOOK_AFTER_MS = 800;
const MOST_LOOKED_FOR = 20;
const KEPT_MS = 30_000;

export function QueueView({ store, place, go }: ViewProps): ComponentChildren {
  const { tables } = store;
  const filter = {
    text: place.get("q"),
    class: place.get("class"),
    tenant: place.get("tenant"),
    code: place.get("code"),
    sort: place.get("sort"),
  };
  const rows = useMemo(
    () => queueRows(tables, store.order(), filter),
    [store.revision(), ...Object.values(filter)],
  );
  const names = useMemo(
    () => ({
      class: namesOf(tables.requests, ({ class: name }) => name),
      tenant: namesOf(tables.requests, ({ tenant }) => tenant),
      code: [...new Set([...tables.reasons.values()].map(({ code }) => code))].sort(),
    }),
    [store.revision()],
  );
  const { changeOf, look } = useChanges(store.isPast());
  const rowHeight = useIsNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const nowMs = store.nowMs();
  return h(
    "section",
    { class: "queue", "aria-label": "Queue" },
    h(
      "div",
      { class: "bar" },
      h("input", {
        type: "search",
        placeholder: "Search jobs, tenants, reasons",
        "aria-label": "Search",
        value: filter.text,
        onInput: (event: Event) => go({ q: (event.target as HTMLInputElement).value }, true),
      }),
      (["class", "tenant", "code"] as const).map((name) =>
        h(Choice, { key: name, name, names: names[name], value: filter[name], go }),
      ),
      h(
        "span",
        { class: "quiet", role: "status" },
        rows.length === tables.requests.size
          ? counted(rows.length, "waiting job")
          : `${rows.length.toLocaleString("en")} of ${counted(tables.requests.size, "waiting job")}`,
      ),
    ),
    tables.requests.size === 0
      ? h("p", { class: "quiet wide" }, "No job waits.")
      : h(List<QueueRow>, {
          label: "Waiting jobs",
          columns: COLUMNS,
          rows,
          rowHeight,
          keyOf: ({ job }) => job,
          cell: (row, column) => cellOf(row, column, nowMs),
          below: (row) => belowOf(row, changeOf(row.job)),
          sort: filter.sort === "" ? "place" : filter.sort,
          onSort: (sort) => go({ sort: sort === "place" ? "" : sort }),
          onOpen: ({ job }) => go({ view: "job", job }),
          onSeen: (seen) => look(seen.slice(0, MOST_LOOKED_FOR).map(({ job }) => job)),
        }),
  );
}

function cellOf(
  { job, place, request, reason, isReserved }: QueueRow,
  column: string,
  nowMs: number,
): ComponentChildren {
  switch (column) {
    case "place":
      return isReserved
        ? h("abbr", { title: "GPUs are reserved or kept for it" }, `${place}*`)
        : String(place);
    case "job":
      return job;
    case "class":
      return request.class;
    case "tenant":
      return request.tenant;
    case "gpus":
      return request.slots === undefined
        ? String(request.gpus)
        : `${request.slots}×${request.gpus}`;
    case "age":
      return durationText(nowMs - request.submittedAtMs);
    default:
      return h("span", { class: "code" }, codeOf(reason));
  }
}

function belowOf({ reason }: QueueRow, change: string | undefined): ComponentChildren {
  return [
    h(
      "span",
      { class: "why", title: reason?.message ?? "" },
      reason?.message ?? "not looked at yet",
    ),
    change !== undefined && h("span", { class: "change" }, change),
  ];
}

function Choice({
  name,
  names,
  value,
  go,
}: {
  readonly name: string;
  readonly names: readonly string[];
  readonly value: string;
  readonly go: Go;
}): ComponentChildren {
  return h(
    "select",
    {
      "aria-label": `Filter by ${name}`,
      value,
      onChange: (event: Event) => go({ [name]: (event.target as HTMLSelectElement).value }),
    },
    h("option", { value: "" }, `any ${name === "code" ? "reason" : name}`),
    names.map((one) => h("option", { key: one, value: one }, one)),
  );
}

function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(false);
  useEffect(() => {
    const media = matchMedia("(max-width: 700px)");
    const look = (): void => setNarrow(media.matches);
    look();
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  return isNarrow;
}

const namesOf = <Row>(table: ReadonlyMap<string, Row>, nameOf: (row: Row) => string): string[] =>
  [...new Set([...table.values()].map(nameOf))].sort();

interface FoundChange {
  readonly atMs: number;
  readonly text: string;
}

/** What the console finds for the jobs in sight, kept for a while; nothing for jobs of the past. */
function useChanges(isPast: boolean): {
  readonly changeOf: (job: string) => string | undefined;
  readonly look: (jobs: readonly string[]) => void;
} {
  const found = useRef(new Map<string, FoundChange>());
  const wanted = useRef<readonly string[]>([]);
  const [, setCount] = useState(0);
  useEffect(() => {
    if (isPast) return;
    let isOver = false;
    const timer = setInterval(() => {
      const job = wanted.current.find(
        (one) => (found.current.get(one)?.atMs ?? 0) < Date.now() - KEPT_MS,
      );
      if (job === undefined || document.hidden) return;
      found.current.set(job, { atMs: Date.now(), text: found.current.get(job)?.text ?? "" });
      void changesFor(job).then(([first]) => {
        const text = first === undefined ? "" : `Would start now: ${first.text}`;
        found.current.set(job, { atMs: Date.now(), text });
        if (!isOver) setCount((count) => count + 1);
      });
    }, LOOK_AFTER_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [isPast]);
  return {
    changeOf: (job) => (isPast ? undefined : found.current.get(job)?.text || undefined),
    look: (jobs) => void (wanted.current = jobs),
  };
}

export interface Change {
  readonly text: string;
  readonly lostGpuSeconds: number;
  readonly gpus: number;
}

/** The cheapest first. */
export async function changesFor(job: string): Promise<readonly Change[]> {
  const response = await fetch(`/api/changes?job=${encodeURIComponent(job)}`);
  if (!response.ok) return [];
  const { changes } = (await response.json()) as { readonly changes: readonly Change[] };
  return changes;
}
