/**
 * @file The dimensions of job and fleet files, each with its units and limits, and their readers and printers.
 *
 * Limits are there to catch slips: they are far above anything sensible and keep every result an exact double.
 */

import { quantityText, readQuantity, type Dimension, type Reading } from "./quantity.ts";
import { gbps, gib, ms, watts, type Gbps, type GiB, type Ms, type Watts } from "./units.ts";

const NS_PER_MS = 1_000_000;
const BYTES_PER_GIB = 2 ** 30;

/** Base unit: a nanosecond. */
const TIME_UNITS: ReadonlyMap<string, bigint> = new Map([
  ["d", 86_400_000_000_000n],
  ["h", 3_600_000_000_000n],
  ["m", 60_000_000_000n],
  ["s", 1_000_000_000n],
  ["ms", 1_000_000n],
  ["us", 1_000n],
  ["ns", 1n],
]);

/** Whole milliseconds: what timers count. */
export const DURATION: Dimension = {
  what: "a duration",
  baseByUnit: TIME_UNITS,
  printUnits: ["d", "h", "m", "s", "ms"],
  usualUnit: "s",
  example: "30s or 1h30m",
  most: "3650d",
  step: "1ms",
  isCompound: true,
  gap: "",
};

/** Like a duration, but finer than a millisecond. */
export const LATENCY: Dimension = {
  what: "a latency",
  baseByUnit: TIME_UNITS,
  printUnits: ["ms"],
  usualUnit: "ms",
  example: "67.5ms",
  most: "60s",
  isCompound: false,
  gap: "",
};

/** Base unit: a byte. */
export const MEMORY: Dimension = {
  what: "an amount of memory",
  baseByUnit: new Map([
    ["TiB", 2n ** 40n],
    ["GiB", 2n ** 30n],
    ["MiB", 2n ** 20n],
    ["KiB", 2n ** 10n],
    ["TB", 10n ** 12n],
    ["GB", 10n ** 9n],
    ["MB", 10n ** 6n],
    ["kB", 10n ** 3n],
    ["B", 1n],
  ]),
  printUnits: ["GiB", "MiB", "GB", "B"],
  usualUnit: "GiB",
  example: "80 GiB",
  most: "1024 TiB",
  isCompound: false,
  gap: " ",
};

/** Base unit: a byte. */
export const MESSAGE_SIZE: Dimension = {
  ...MEMORY,
  what: "a message size",
  printUnits: ["GiB", "MiB", "KiB", "B"],
  usualUnit: "MiB",
  example: "256 MiB",
  most: "1 TiB",
};

/** Base unit: a bit a second. */
export const RATE: Dimension = {
  what: "a bandwidth",
  baseByUnit: new Map([
    ["Tbps", 10n ** 12n],
    ["Gbps", 10n ** 9n],
    ["Mbps", 10n ** 6n],
    ["kbps", 10n ** 3n],
    ["bps", 1n],
    ["Tbit/s", 10n ** 12n],
    ["Gbit/s", 10n ** 9n],
    ["Mbit/s", 10n ** 6n],
    ["TB/s", 8n * 10n ** 12n],
    ["GB/s", 8n * 10n ** 9n],
    ["MB/s", 8n * 10n ** 6n],
  ]),
  printUnits: ["Gbps", "Mbps"],
  usualUnit: "Gbps",
  example: "400 Gbps",
  most: "1000 Tbps",
  isCompound: false,
  gap: " ",
};

/** Base unit: a milliwatt. */
export const POWER: Dimension = {
  what: "a power",
  baseByUnit: new Map([
    ["MW", 10n ** 9n],
    ["kW", 10n ** 6n],
    ["W", 10n ** 3n],
    ["mW", 1n],
  ]),
  printUnits: ["kW", "W"],
  usualUnit: "W",
  example: "700 W or 10 kW",
  most: "10000 MW",
  isCompound: false,
  gap: " ",
};

/** Base unit: a millionth of a dollar a gigabyte. */
export const PRICE: Dimension = {
  what: "a price",
  baseByUnit: new Map([["USD/GB", 10n ** 6n]]),
  printUnits: ["USD/GB"],
  usualUnit: "USD/GB",
  example: "0.02 USD/GB",
  most: "1000 USD/GB",
  step: "0.000001 USD/GB",
  isCompound: false,
  gap: " ",
};

/** Base unit: one GPU for one second. */
export const GPU_TIME: Dimension = {
  what: "an amount of GPU time",
  baseByUnit: new Map([
    ["GPU-hours", 3_600n],
    ["GPU-hour", 3_600n],
    ["GPU-h", 3_600n],
    ["GPU-minutes", 60n],
    ["GPU-minute", 60n],
    ["GPU-min", 60n],
    ["GPU-seconds", 1n],
    ["GPU-second", 1n],
    ["GPU-s", 1n],
  ]),
  printUnits: ["GPU-hours", "GPU-seconds"],
  usualUnit: "GPU-seconds",
  example: "10 GPU-hours",
  most: "1000000 GPU-hours",
  isCompound: false,
  gap: " ",
};

export const parseDuration = (value: unknown): Reading<Ms> =>
  scaled(readQuantity(value, DURATION), (ns) => ms(Number(ns / 1_000_000n)));
export const parseLatency = (value: unknown): Reading<Ms> =>
  scaled(readQuantity(value, LATENCY), (ns) => ms(Number(ns) / NS_PER_MS));
/** Decimal units are converted exactly: 80 GB are 74.505805969… GiB. */
export const parseMemory = (value: unknown): Reading<GiB> =>
  scaled(readQuantity(value, MEMORY), (bytes) => gib(Number(bytes) / BYTES_PER_GIB));
/** In bytes. */
export const parseMessageSize = (value: unknown): Reading<number> =>
  scaled(readQuantity(value, MESSAGE_SIZE), Number);
export const parseRate = (value: unknown): Reading<Gbps> =>
  scaled(readQuantity(value, RATE), (bitsPerSecond) => gbps(Number(bitsPerSecond) / 1e9));
export const parsePower = (value: unknown): Reading<Watts> =>
  scaled(readQuantity(value, POWER), (milliwatts) => watts(Number(milliwatts) / 1e3));
export const parsePrice = (value: unknown): Reading<number> =>
  scaled(readQuantity(value, PRICE), (microUsd) => Number(microUsd) / 1e6);
export const parseGpuTime = (value: unknown): Reading<number> =>
  scaled(readQuantity(value, GPU_TIME), Number);

// What these print, the functions above read back as the same number.
export const durationText = (durationMs: number): string =>
  // Ten years in nanoseconds are more than a double counts exactly.
  quantityText(BigInt(Math.round(durationMs)) * 1_000_000n, DURATION);
export const latencyText = (latencyMs: number): string => printed(latencyMs * NS_PER_MS, LATENCY);
export const memoryText = (memoryGiB: number): string => printed(memoryGiB * BYTES_PER_GIB, MEMORY);
export const rateText = (rateGbps: number): string => printed(rateGbps * 1e9, RATE);
export const powerText = (powerWatts: number): string => printed(powerWatts * 1e3, POWER);
export const gpuTimeText = (gpuSeconds: number): string => printed(gpuSeconds, GPU_TIME);
export const priceText = (usdPerGB: number): string => printed(usdPerGB * 1e6, PRICE);

function scaled<T>(reading: Reading<bigint>, toUnit: (base: bigint) => T): Reading<T> {
  return reading.kind === "refused" ? reading : { kind: "read", value: toUnit(reading.value) };
}

/** Rounding takes back what the floating-point product of an exact amount may be off by. */
const printed = (base: number, dimension: Dimension): string =>
  quantityText(BigInt(Math.round(base)), dimension);
