/** @file A table of any length: only the rows in sight are made. Rows have one height. For keyboards: arrows move, Enter opens. */

import { h, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column {
  readonly id: string;
  readonly title: string;
  readonly isRight?: boolean;
}

export interface ListProps<Row> {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly rowHeight: number;
  readonly keyOf: (row: Row) => string;
  readonly cell: (row: Row, column: string, at: number) => ComponentChildren;
  /** A second line under the cells. */
  readonly below?: (row: Row) => ComponentChildren;
  readonly sort?: string;
  readonly onSort?: (column: string) => void;
  readonly onOpen?: (row: Row) => void;
  /** Told of the first rows in sight. */
  readonly onSeen?: (rows: readonly Row[]) => void;
}

const SPARE = 6;

export function List<Row>(props: ListProps<Row>): ComponentChildren {
  const { label, columns, rows, rowHeight, keyOf, onOpen } = props;
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [focused, setFocused] = useState(0);
  useEffect(() => {
    const { current } = box;
    if (!current) return;
    const look = (): void => setView({ top: current.scrollTop, height: current.clientHeight });
    look();
    current.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(current);
    return () => {
      current.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, []);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + SPARE);
  const shown = rows.slice(first, last);
  useEffect(() => {
    if (!inner.current) return;
    inner.current.style.height = `${rows.length * rowHeight}px`;
    inner.current.style.setProperty("--skipped", `${first * rowHeight}px`);
  });
  const seen = shown.map(keyOf).join(" ");
  useEffect(() => props.onSeen?.(shown), [seen]);
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const row = rows[focused];
    if (event.key === "Enter" && row !== undefined) onOpen?.(row);
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(rows.length - 1, focused + step));
    setFocused(next);
    const { current } = box;
    if (!current) return;
    if (next * rowHeight < current.scrollTop) current.scrollTop = next * rowHeight;
    const bottom = (next + 1) * rowHeight - current.clientHeight;
    if (bottom > current.scrollTop) current.scrollTop = bottom;
  };
  return h(
    "div",
    { class: "list", role: "grid", "aria-label": label, "aria-rowcount": rows.length + 1 },
    h(Head<Row>, props),
    h(
      "div",
      {
        class: "rows",
        ref: box,
        tabIndex: 0,
        onKeyDown: move,
        role: "rowgroup",
        "aria-label": `${label}: rows`,
      },
      h(
        "div",
        { class: "sheet", ref: inner, role: "presentation" },
        h(
          "div",
          { class: "shown", role: "presentation" },
          shown.map((row, at) =>
            h(
              "div",
              {
                key: keyOf(row),
                class: `row ${first + at === focused ? "focused" : ""}`,
                role: "row",
                "aria-rowindex": first + at + 2,
                onClick: () => {
                  setFocused(first + at);
                  onOpen?.(row);
                },
              },
              h(
                "div",
                { class: "cells", role: "presentation" },
                columns.map(({ id, isRight }) =>
                  h(
                    "div",
                    { key: id, role: "gridcell", class: `c-${id} ${isRight ? "right" : ""}` },
                    props.cell(row, id, first + at),
                  ),
                ),
              ),
              props.below && h("div", { class: "below", role: "gridcell" }, props.below(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

function Head<Row>({ columns, sort, onSort }: ListProps<Row>): ComponentChildren {
  return h(
    "div",
    { role: "rowgroup", class: "head" },
    h(
      "div",
      { role: "row", class: "cells" },
      columns.map(({ id, title, isRight }) =>
        h(
          "div",
          {
            key: id,
            role: "columnheader",
            class: `c-${id} ${isRight ? "right" : ""}`,
            "aria-sort": sort === id ? "ascending" : sort === `-${id}` ? "descending" : "none",
          },
          onSort
            ? h(
                "button",
                { class: "link", onClick: () => onSort(sort === id ? `-${id}` : id) },
                title,
                sort === id ? " ↑" : sort === `-${id}` ? " ↓" : "",
              )
            : title,
        ),
      ),
    ),
  );
}
