/** @file The hosts as a table: the twin of the map for keyboards and screen readers. */

import { h, type ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { readGpus } from "../map/gpus.ts";
import type { Go } from "../place.ts";
import type { Store } from "../store.ts";
import { healthText } from "../text.ts";
import { UNTOLD, type HostRow } from "../wire.ts";
import { List, type Column } from "./list.ts";

const HOST_COLUMNS: readonly Column[] = [
  { id: "host", title: "Host" },
  { id: "type", title: "Type" },
  { id: "rack", title: "Rack" },
  { id: "free", title: "Free", isRight: true },
  { id: "held", title: "Held", isRight: true },
  { id: "use", title: "Use", isRight: true },
  { id: "health", title: "Health" },
  { id: "jobs", title: "Jobs" },
];

interface HostLine {
  readonly id: string;
  readonly row: HostRow;
  readonly free: number;
  readonly held: number;
  /** Percent, mean over its GPUs; absent where its agent does not say. */
  readonly use?: number;
  readonly jobs: readonly string[];
}

export function HostsView({
  store,
  go,
}: {
  readonly store: Store;
  readonly go: Go;
}): ComponentChildren {
  const { tables } = store;
  const rows = useMemo(() => {
    const book = readGpus(tables.hosts, tables.leases, tables);
    return book.hosts.map(({ id, row, first }): HostLine => {
      const jobs = new Set<string>();
      let free = 0;
      let held = 0;
      for (let gpu = first; gpu < first + row.gpus; gpu += 1) {
        const lease = book.leases[book.leaseOf[gpu] ?? -1];
        if (lease !== undefined) {
          jobs.add(lease.job);
          held += 1;
        }
        if (book.states[gpu] === 0) free += 1;
      }
      const told = [...book.use.subarray(first, first + row.gpus)].filter((one) => one !== UNTOLD);
      const use = told.reduce((sum, one) => sum + one, 0) / told.length;
      return { id, row, free, held, jobs: [...jobs], ...(told.length > 0 && { use }) };
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
      onOpen: ({ id }) => go({ view: "host", host: id }),
      cell: ({ id, row, free, held, use, jobs }, column) => {
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
            return String(held);
          case "use":
            return use === undefined ? "" : `${Math.round(use)} %`;
          case "health":
            return healthText(row, store.nowMs());
          default:
            return jobs.map((job) =>
              h(
                "button",
                {
                  key: job,
                  class: "link",
                  onClick: (event: Event) => {
                    event.stopPropagation();
                    go({ view: "job", job });
                  },
                },
                job,
              ),
            );
        }
      },
    }),
  );
}
