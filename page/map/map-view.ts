/** @file The map: every GPU of the fleet on one canvas, with its modes, legend, and what the pointer is on; a click outlines a gang. */

import { h, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted, durationText, shareText } from "../text.ts";
import type { Go } from "../place.ts";
import type { Store } from "../store.ts";
import { UNTOLD, type HostRow } from "../wire.ts";
import type { ViewProps } from "../views/view-props.ts";
import { MODES, paint, type Mode, type Painting, type Theme } from "./colours.ts";
import { draw } from "./draw.ts";
import { GPU_STATES, isGpuDrained, readGpus, summaryText, type GpuBook } from "./gpus.ts";
import { at, layOut, type Layout } from "./layout.ts";

/** Redraws are told here, for those who measure. */
declare global {
  interface Window {
    orbweaverDrawn?: {
      count: number;
      firstAtMs: number;
      lastMs: number;
      mostMs: number;
      atMs: number;
    };
  }
}

interface Pointed {
  readonly x: number;
  readonly y: number;
  readonly host: number;
  readonly gpu: number;
}

export function MapView({ store, place, go }: ViewProps): ComponentChildren {
  const { tables } = store;
  const revision = store.revision();
  const book = useMemo(() => readGpus(tables.hosts, tables.leases, tables), [revision]);
  const mode = MODES.find((name) => name === place.get("mode")) ?? "state";
  const job = place.get("job");
  const theme = useTheme();
  const frame = useRef<HTMLDivElement>(null);
  const size = useSize(frame);
  const zoom = ZOOMS.find((one) => String(one) === place.get("zoom")) ?? 1;
  const layout = useMemo(
    () => layOut(book.hosts, { ...size, zoom }),
    [size.width, size.height, zoom, book.hosts.length, hostsKey(book)],
  );
  const painting = useMemo(() => paint(mode, book, theme), [mode, book, theme]);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<Pointed>();

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || size.width === 0) return;
    const beganMs = performance.now();
    fit(context, size.width, layout.height);
    draw(context, { book, layout, painting, theme, job });
    const drawn = (window.orbweaverDrawn ??= {
      ...{ count: 0, firstAtMs: performance.now(), lastMs: 0, mostMs: 0, atMs: 0 },
    });
    drawn.atMs = store.facts().atMs;
    drawn.count += 1;
    drawn.lastMs = performance.now() - beganMs;
    drawn.mostMs = Math.max(drawn.mostMs, drawn.lastMs);
  }, [book, layout, painting, theme, job, size.width]);

  const find = (event: MouseEvent): Pointed | undefined => {
    const { offsetX: x, offsetY: y } = event;
    const found = at(layout, (host) => book.hosts[host]?.row.gpus ?? 0, { x, y });
    return found && { ...found, x, y };
  };
  return h(
    "section",
    { class: "map", "aria-label": "Fleet map" },
    h(Numbers, { book, store }),
    h(
      "div",
      { class: "bar" },
      h(ModeButtons, { mode, go }),
      h(ZoomButtons, { zoom, go }),
      job !== "" &&
        h(
          "span",
          { class: "segments" },
          h("button", { onClick: () => go({ view: "job" }) }, `Open ${job}`),
          h(
            "button",
            { "aria-label": `outline ${job} no more`, onClick: () => go({ job: "" }) },
            "✕",
          ),
        ),
    ),
    h(LegendLine, { painting, book }),
    h(
      "div",
      { class: "frame", ref: frame },
      h("canvas", {
        ref: canvas,
        role: "img",
        "aria-label": summaryText(book),
        onMouseMove: (event: MouseEvent) => setPointed(find(event)),
        onMouseLeave: () => setPointed(undefined),
        onClick: (event: MouseEvent) => {
          const found = find(event);
          const chosen = found && jobOf(book, found);
          if (found !== undefined && chosen === undefined)
            go({ view: "host", host: book.hosts[found.host]?.id });
          else go({ job: chosen === job ? "" : (chosen ?? "") });
        },
      }),
      pointed && h(Tip, { book, pointed, layout, width: size.width, nowMs: store.nowMs() }),
    ),
    h(
      "p",
      { class: "quiet" },
      "A click outlines a gang, or opens a host with free GPUs. For keyboards and screen readers: ",
      h("button", { class: "link", onClick: () => go({ view: "hosts" }) }, "the hosts as a table"),
    ),
  );
}

/** The fleet in a few numbers. */
function Numbers({
  book,
  store,
}: {
  readonly book: GpuBook;
  readonly store: Store;
}): ComponentChildren {
  const { states, hosts, count } = book;
  const unused = states.reduce((sum, state) => sum + (state === DRAINED ? 1 : 0), 0);
  const drained = hosts.reduce((sum, { row }) => sum + drainedOf(row), 0);
  const free = states.reduce((sum, state) => sum + (state === 0 ? 1 : 0), 0);
  const reserved = states.reduce((sum, state) => sum + (state === RESERVED ? 1 : 0), 0);
  const { idle = [] } = store.facts();
  const used = count - free - reserved - unused;
  const troubled = hosts.filter(({ row }) => row.condition !== undefined).length;
  const facts: readonly (readonly [name: string, value: string, note: string])[] = [
    ["GPUs", count.toLocaleString("en"), `on ${counted(hosts.length, "host")}`],
    ["In use", shareText(used, count), `${used.toLocaleString("en")} of them`],
    [
      "Free",
      free.toLocaleString("en"),
      reserved === 0 ? "" : `${reserved.toLocaleString("en")} more reserved`,
    ],
    ["Jobs", store.tables.leases.size.toLocaleString("en"), "hold GPUs"],
    ["Waiting", store.tables.requests.size.toLocaleString("en"), "in the queue"],
    ...(idle.length === 0
      ? []
      : ([["Idle jobs", idle.length.toLocaleString("en"), "use none of their GPUs"]] as const)),
    ...(drained === 0
      ? []
      : ([
          [
            "Drained",
            drained.toLocaleString("en"),
            `${counted(drained, "GPU").replace(/^\S+ /, "")}${drained === unused ? "" : `, ${(drained - unused).toLocaleString("en")} still held`}`,
          ],
        ] as const)),
    ["Not ready", troubled.toLocaleString("en"), troubled === 1 ? "host" : "hosts"],
  ];
  return h(
    "dl",
    { class: "strip-of-numbers" },
    facts.map(([name, value, note]) =>
      h(
        "div",
        { key: name },
        h("dt", null, name),
        h("dd", null, value, note !== "" && h("small", null, ` ${note}`)),
      ),
    ),
  );
}

const drainedOf = (row: HostRow): number =>
  Array.from({ length: row.gpus }, (_, gpu) => isGpuDrained(row, gpu)).filter(Boolean).length;

const RESERVED = GPU_STATES.indexOf("reserved");
const DRAINED = GPU_STATES.indexOf("drained");
const ZOOMS = [1, 1.5, 2, 3, 4, 6] as const;

function ZoomButtons({ zoom, go }: { readonly zoom: number; readonly go: Go }): ComponentChildren {
  const at = ZOOMS.findIndex((one) => one === zoom);
  const button = (label: string, text: string, next: number | undefined): ComponentChildren =>
    h(
      "button",
      {
        "aria-label": label,
        title: label,
        disabled: next === undefined,
        onClick: () => go({ zoom: next === 1 ? "" : String(next) }, true),
      },
      text,
    );
  return h(
    "div",
    { class: "segments", role: "group", "aria-label": "Size" },
    button("Smaller", "−", ZOOMS[at - 1]),
    button("Larger: with names of hosts and jobs", "+", ZOOMS[at + 1]),
  );
}

function ModeButtons({ mode, go }: { readonly mode: Mode; readonly go: Go }): ComponentChildren {
  return h(
    "div",
    { class: "segments", role: "group", "aria-label": "Colour by" },
    MODES.map((name) =>
      h(
        "button",
        { key: name, "aria-pressed": name === mode, onClick: () => go({ mode: name }) },
        name,
      ),
    ),
  );
}

/** What each colour means, and how many GPUs have it. */
function LegendLine({
  painting: { legend, colourOf },
  book: { hosts },
}: {
  readonly painting: Painting;
  readonly book: GpuBook;
}): ComponentChildren {
  const counts = new Map<string, number>();
  hosts.forEach(({ row, first }, host) => {
    for (let gpu = first; gpu < first + row.gpus; gpu += 1) {
      const colour = colourOf(gpu, host);
      counts.set(colour, (counts.get(colour) ?? 0) + 1);
    }
  });
  return h(
    "ul",
    { class: "legend" },
    legend.map(({ name, colour }) =>
      h(
        "li",
        { key: name },
        h(
          "svg",
          { width: 12, height: 12, "aria-hidden": true },
          h("rect", { width: 12, height: 12, rx: 2, fill: colour }),
        ),
        `${name} `,
        h("b", null, (counts.get(colour) ?? 0).toLocaleString("en")),
      ),
    ),
  );
}

interface TipProps {
  readonly book: GpuBook;
  readonly pointed: Pointed;
  readonly layout: Layout;
  readonly width: number;
  readonly nowMs: number;
}

const TIP_WIDTH = 280;

/** The place of the tip is set by script: the policy of the page allows no style in its markup. */
function Tip({ book, pointed, layout, width, nowMs }: TipProps): ComponentChildren {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!box.current) return;
    box.current.style.left = `${Math.max(0, Math.min(pointed.x + 14, width - TIP_WIDTH))}px`;
    box.current.style.top = `${pointed.y + 16 + layout.cellHeight}px`;
  });
  const host = book.hosts[pointed.host];
  if (host === undefined) return null;
  const gpu = host.first + pointed.gpu;
  const lease = book.leases[book.leaseOf[gpu] ?? -1];
  const claim = book.claimants[book.claimOf[gpu] ?? -1];
  const { row } = host;
  return h(
    "div",
    { class: "tip", ref: box, role: "status" },
    h("b", null, `${host.id} GPU ${pointed.gpu}`),
    h(
      "div",
      null,
      `${row.gpuType} · ${row.cluster}${row.rack === "" ? "" : ` · rack ${row.rack}`}`,
    ),
    h("div", null, GPU_STATES[book.states[gpu] ?? 0]),
    lease &&
      h(
        "div",
        null,
        `${lease.job} (${lease.class}, ${lease.tenant}) for ${durationText(nowMs - lease.sinceMs)}`,
      ),
    lease?.predictedGbs !== undefined &&
      h("div", null, `gang expected at ${lease.predictedGbs.toFixed(1)} GB/s`),
    book.use[gpu] !== UNTOLD && h("div", null, `in use ${String(book.use[gpu])} % of the time`),
    lease?.forJob !== undefined && h("div", null, `makes room for ${lease.forJob}`),
    claim !== undefined &&
      h("div", null, `${book.bereft.has(claim) ? "kept" : "reserved"} for ${claim}`),
    row.gpuDrains?.map(
      ({ mask, reason }) =>
        ((mask >>> pointed.gpu) & 1) === 1 && h("div", { key: mask }, `GPU drained: ${reason}`),
    ),
    row.condition !== undefined &&
      h("div", null, `host ${row.condition}${row.drainReason ? `: ${row.drainReason}` : ""}`),
  );
}

function jobOf(book: GpuBook, { host, gpu }: Pointed): string | undefined {
  const at_ = (book.hosts[host]?.first ?? 0) + gpu;
  return book.leases[book.leaseOf[at_] ?? -1]?.job ?? book.claimants[book.claimOf[at_] ?? -1];
}

/** Changes when a host comes, goes or moves. */
const hostsKey = ({ hosts }: GpuBook): string =>
  `${hosts[0]?.id ?? ""} ${hosts.at(-1)?.id ?? ""} ${hosts.reduce((sum, { row }) => sum + row.gpus, 0)}`;

function fit(context: CanvasRenderingContext2D, width: number, height: number): void {
  const { canvas } = context;
  const scale = window.devicePixelRatio;
  const [wide, high] = [Math.round(width * scale), Math.round(Math.max(1, height) * scale)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${Math.max(1, height)}px`;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, Math.max(1, height));
}

/** Of the line below the map. */
const BELOW = 46;

function useSize(frame: { readonly current: HTMLElement | null }): {
  width: number;
  height: number;
} {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const measure = (): void => {
      const width = Math.floor(frame.current?.clientWidth ?? 0);
      const top = frame.current?.getBoundingClientRect().top ?? 0;
      const height = Math.max(300, Math.floor(window.innerHeight - top - window.scrollY - BELOW));
      setSize((former) =>
        former.width === width && former.height === height ? former : { width, height },
      );
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (frame.current) observer.observe(frame.current);
    addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, []);
  return size;
}

/** The page's colours, as its style sheet has them now. */
export function useTheme(): Theme {
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const change = (): void => setTheme(readTheme());
    dark.addEventListener("change", change);
    return () => dark.removeEventListener("change", change);
  }, []);
  return theme;
}

function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  return {
    isDark: matchMedia("(prefers-color-scheme: dark)").matches,
    text: colour("--text"),
    quiet: colour("--quiet"),
    back: colour("--back"),
  };
}
