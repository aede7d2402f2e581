/**
 * @file The colours of the map by mode. Pure.
 *
 * The hues are those of Okabe and Ito, which readers with colour-blindness tell apart; state is also shown by form (`draw.ts`).
 */

import { UNTOLD } from "../wire.ts";
import { GPU_STATES, isGpuDrained, type GpuBook } from "./gpus.ts";

export const MODES = [
  "state",
  "class",
  "tenant",
  "health",
  "use",
  "bandwidth",
  "fragmentation",
] as const;
export type Mode = (typeof MODES)[number];

export interface Theme {
  readonly isDark: boolean;
  readonly text: string;
  readonly quiet: string;
  readonly back: string;
}

const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800"] as const;
const OTHERS = "#8a8a8a";

/** Always the same one for a name; several names share one. */
export function hueOf(name: string): string {
  let hash = 0;
  for (let at = 0; at < name.length; at += 1) hash = (hash * 31 + name.charCodeAt(at)) >>> 0;
  return HUES[hash % HUES.length] ?? OTHERS;
}

export interface Legend {
  readonly name: string;
  readonly colour: string;
}

export interface Painting {
  readonly colourOf: (gpu: number, host: number) => string;
  readonly legend: readonly Legend[];
}

const free = ({ isDark }: Theme): string => (isDark ? "#303842" : "#dfe4ea");

export function paint(mode: Mode, book: GpuBook, theme: Theme): Painting {
  switch (mode) {
    case "state":
      return byState(book, theme);
    case "class":
      return byName(book, theme, ({ class: name }) => name);
    case "tenant":
      return byName(book, theme, ({ tenant }) => tenant);
    case "health":
      return byHealth(book, theme);
    case "use":
      return byUse(book, theme);
    case "bandwidth":
      return byBandwidth(book, theme);
    case "fragmentation":
      return byFreeBlock(book, theme);
  }
}

function byState({ states }: GpuBook, theme: Theme): Painting {
  const colours = {
    free: free(theme),
    held: HUES[0],
    granted: HUES[4],
    evicted: HUES[5],
    vacating: HUES[3],
    reserved: HUES[1],
    drained: OTHERS,
  };
  return {
    colourOf: (gpu) => colours[GPU_STATES[states[gpu] ?? 0] ?? "free"],
    legend: GPU_STATES.map((name) => ({ name, colour: colours[name] })),
  };
}

type Lease = GpuBook["leases"][number];

/** The names that hold most have a hue of their own. */
function byName(book: GpuBook, theme: Theme, nameOf: (lease: Lease) => string): Painting {
  const held = new Map<string, number>();
  for (const lease of book.leases)
    held.set(nameOf(lease), (held.get(nameOf(lease)) ?? 0) + lease.gpus.length);
  const names = [...held.keys()].sort();
  const largest = [...names]
    .sort((a, b) => (held.get(b) ?? 0) - (held.get(a) ?? 0) || (a < b ? -1 : 1))
    .slice(0, HUES.length)
    .sort();
  const colours = new Map(largest.map((name, hue) => [name, HUES[hue] ?? OTHERS] as const));
  const byLease = book.leases.map((lease) => colours.get(nameOf(lease)) ?? OTHERS);
  const idle = free(theme);
  return {
    colourOf: (gpu) => byLease[book.leaseOf[gpu] ?? -1] ?? idle,
    legend: [
      ...largest.map((name) => ({ name, colour: colours.get(name) ?? OTHERS })),
      ...(names.length > largest.length ? [{ name: "others", colour: OTHERS }] : []),
      { name: "free", colour: idle },
    ],
  };
}

const isDrained = (host: GpuBook["hosts"][number] | undefined, gpu: number): boolean =>
  host !== undefined && isGpuDrained(host.row, gpu - host.first);

function byHealth({ hosts }: GpuBook, theme: Theme): Painting {
  const colours = {
    ready: theme.isDark ? "#2f6f5b" : "#9fd5c3",
    drained: HUES[1],
    silent: HUES[3],
    fenced: HUES[5],
    agentless: OTHERS,
  };
  return {
    colourOf: (gpu, host) =>
      colours[hosts[host]?.row.condition ?? (isDrained(hosts[host], gpu) ? "drained" : "ready")],
    legend: Object.entries(colours).map(([name, colour]) => ({
      name: name === "agentless" ? "no agent" : name,
      colour,
    })),
  };
}

const scaleOf = ({ isDark }: Theme): readonly string[] =>
  isDark
    ? ["#20506b", "#1f6f93", "#3b9ac0", "#8fd0ea"]
    : ["#a8d0e4", "#5aa7cb", "#1f78a8", "#084a73"];

const IDLE_PERCENT = 5;

/** Leased GPUs that nobody uses are what the mode is for, so they have a hue of their own. */
function byUse({ use, leaseOf }: GpuBook, theme: Theme): Painting {
  const scale = scaleOf(theme);
  const colours = { idle: HUES[1], untold: OTHERS, free: free(theme) };
  return {
    colourOf(gpu) {
      const percent = use[gpu] ?? UNTOLD;
      if (percent === UNTOLD) return (leaseOf[gpu] ?? -1) < 0 ? colours.free : colours.untold;
      if (percent < IDLE_PERCENT) return (leaseOf[gpu] ?? -1) < 0 ? colours.free : colours.idle;
      return scale[Math.min(3, Math.ceil(percent / 25) - 1)] ?? "";
    },
    legend: [
      { name: "leased and idle", colour: colours.idle },
      ...["up to 25 %", "up to 50 %", "up to 75 %", "up to 100 %"].map((name, step) => ({
        name,
        colour: scale[step] ?? "",
      })),
      { name: "leased, not told", colour: colours.untold },
      { name: "free", colour: colours.free },
    ],
  };
}

/** What was expected of each gang at its grant, in quarters of the best one's. */
function byBandwidth({ leases, leaseOf }: GpuBook, theme: Theme): Painting {
  const scale = scaleOf(theme);
  const idle = free(theme);
  const best = Math.max(0, ...leases.map(({ predictedGbs = 0 }) => predictedGbs));
  const byLease = leases.map(({ predictedGbs }) =>
    predictedGbs === undefined
      ? OTHERS
      : (scale[Math.min(3, Math.max(0, Math.ceil((4 * predictedGbs) / best) - 1))] ?? ""),
  );
  return {
    colourOf: (gpu) => byLease[leaseOf[gpu] ?? -1] ?? idle,
    legend: [
      ...scale.map((colour, step) => ({
        name: `up to ${((best * (step + 1)) / 4).toFixed(0)} GB/s`,
        colour,
      })),
      { name: "one GPU, or not told", colour: OTHERS },
      { name: "free", colour: idle },
    ],
  };
}

/** The free GPUs of a host together: what a gang on one host could have there. */
function byFreeBlock({ hosts, states }: GpuBook, theme: Theme): Painting {
  const scale = theme.isDark
    ? ["#303842", "#20506b", "#1f6f93", "#3b9ac0", "#8fd0ea"]
    : ["#e4e8ec", "#a8d0e4", "#5aa7cb", "#1f78a8", "#084a73"];
  const byHost = hosts.map(({ row, first }) => {
    let count = 0;
    for (let gpu = first; gpu < first + row.gpus; gpu += 1) if (states[gpu] === 0) count += 1;
    const step = row.condition !== undefined ? 0 : Math.ceil((count / Math.max(1, row.gpus)) * 4);
    return scale[step] ?? "";
  });
  return {
    colourOf: (_gpu, host) => byHost[host] ?? "",
    legend: ["none free", "up to ¼", "up to ½", "up to ¾", "up to all"].map((name, step) => ({
      name,
      colour: scale[step] ?? "",
    })),
  };
}
