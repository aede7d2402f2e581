/** @file Amounts as the report writes them: times from milliseconds to days, shares, counts, and the unit that fits a whole axis. */

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

export interface TimeUnit {
  readonly name: string;
  readonly ms: number;
}

/** The largest unit of which a span has at least three. */
export function unitFor(spanMs: number): TimeUnit {
  const units: readonly TimeUnit[] = [
    { name: "days", ms: DAY_MS },
    { name: "hours", ms: HOUR_MS },
    { name: "minutes", ms: MINUTE_MS },
    { name: "seconds", ms: 1_000 },
  ];
  return units.find(({ ms }) => spanMs >= 3 * ms) ?? { name: "milliseconds", ms: 1 };
}

/** `0`, `5 ms`, `1.2 s`, `3 min`, `4.5 h`, `12 d`: at most three digits. */
export function timeSpanText(ms: number): string {
  if (ms === 0) return "0";
  const [name, unit] =
    ms < 999.5
      ? (["ms", 1] as const)
      : ms < MINUTE_MS
        ? (["s", 1_000] as const)
        : ms < HOUR_MS
          ? (["min", MINUTE_MS] as const)
          : ms < DAY_MS
            ? (["h", HOUR_MS] as const)
            : (["d", DAY_MS] as const);
  return `${shortNumber(ms / unit)} ${name}`;
}

/** `61.2 %`. */
export const shareText = (share: number): string => `${(share * 100).toFixed(1)} %`;

/** Three digits at most below a thousand, groups of three above: `0.123`, `4.5`, `12,345`. */
export function shortNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return grouped(Math.round(value));
  if (size >= 10) return String(Math.round(value * 10) / 10);
  return String(Number(value.toPrecision(3)));
}

export const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ",");

/** Marks of a logarithmic time axis, as clocks count. */
export const WAIT_TICKS: readonly (readonly [ms: number, text: string])[] = [
  [1, "1 ms"],
  [10, "10 ms"],
  [100, "0.1 s"],
  [1_000, "1 s"],
  [10_000, "10 s"],
  [MINUTE_MS, "1 min"],
  [10 * MINUTE_MS, "10 min"],
  [HOUR_MS, "1 h"],
  [10 * HOUR_MS, "10 h"],
  [4 * DAY_MS, "4 d"],
  [40 * DAY_MS, "40 d"],
  [400 * DAY_MS, "400 d"],
];
