/** @file Quantities: what is read exactly, what is refused with which remedy, and that print and parse agree. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  durationText,
  latencyText,
  memoryText,
  parseDuration,
  parseLatency,
  parseMemory,
  parsePower,
  parsePrice,
  parseRate,
  powerText,
  priceText,
  rateText,
} from "../../../domain/values/dimensions.ts";
import type { Reading } from "../../../domain/values/quantity.ts";

const read = (reading: Reading<number>): number | string =>
  reading.kind === "read" ? reading.value : `${reading.message}; ${reading.remedy}`;

describe("quantities are read into one unit", () => {
  it.each([
    ["30s", 30_000],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["1h 30m", 5_400_000],
    ["250ms", 250],
    ["2d", 172_800_000],
    ["1.5s", 1_500],
    ["0.001s", 1],
    ["1.005s", 1_005],
    ["0s", 0],
    [" 7 m ", 420_000],
    ["3650d", 315_360_000_000],
    ["1000us", 1],
  ])("duration %s is %d ms", (text, wantMs) => {
    expect(read(parseDuration(text))).toBe(wantMs);
  });

  it.each([
    ["16 GiB", 16],
    ["80GiB", 80],
    ["80GB", 80e9 / 2 ** 30],
    ["512 MiB", 0.5],
    ["0.5 TiB", 512],
    ["1073741824 B", 1],
    ["0.1 GB", 1e8 / 2 ** 30],
  ])("memory %s is %d GiB", (text, wantGiB) => {
    expect(read(parseMemory(text))).toBe(wantGiB);
  });

  it.each([
    ["400 Gbps", 400],
    ["400Gbit/s", 400],
    ["100 MB/s", 0.8],
    ["50 GB/s", 400],
    ["1.6 Tbps", 1600],
    ["4.318 Gbps", 4.318],
  ])("bandwidth %s is %d Gbps", (text, wantGbps) => {
    expect(read(parseRate(text))).toBe(wantGbps);
  });

  it("power, latency and price have their units too", () => {
    expect(read(parsePower("10 kW"))).toBe(10_000);
    expect(read(parsePower("700 W"))).toBe(700);
    expect(read(parsePower("1.2MW"))).toBe(1_200_000);
    expect(read(parseLatency("84.936ms"))).toBe(84.936);
    expect(read(parseLatency("250 µs"))).toBe(0.25);
    expect(read(parsePrice("0.02 USD/GB"))).toBe(0.02);
  });
});

describe("what is no quantity is refused with a remedy", () => {
  it.each([
    [30, "30 has no unit; write 30s"],
    ["30", '"30" has no unit; write 30s'],
    [-5, "-5 is negative; write a duration such as 30s or 1h30m"],
    ["-5s", '"-5s" is negative; write a duration such as 30s or 1h30m'],
    ["5 min", 'unit "min" is unknown; write 5m'],
    ["90 sec", 'unit "sec" is unknown; write 90s'],
    ["20 msec", 'unit "msec" is unknown; write 20ms'],
    ["1H", 'unit "H" is unknown; write 1h'],
    ["3 weeks", 'unit "weeks" is unknown; units of duration are d, h, m, s, ms, us, ns'],
    ["soon", '"soon" is not a duration; write a duration such as 30s or 1h30m'],
    ["", '"" is not a duration; write a duration such as 30s or 1h30m'],
    [
      "30m1h",
      '"30m1h" does not go from larger to smaller units; write a duration such as 30s or 1h30m',
    ],
    [
      "1m1m",
      '"1m1m" does not go from larger to smaller units; write a duration such as 30s or 1h30m',
    ],
    ["0.5ms", '"0.5ms" is finer than 1ms; write a multiple of 1ms'],
    ["3651d", '"3651d" is more than 3650d; write at most 3650d'],
    ["1e3s", 'unit "e" is unknown; units of duration are d, h, m, s, ms, us, ns'],
    [null, "null is not a duration; write a duration such as 30s or 1h30m"],
    [true, "true is not a duration; write a duration such as 30s or 1h30m"],
    [{}, "a map is not a duration; write a duration such as 30s or 1h30m"],
    [[1], "a list of 1 is not a duration; write a duration such as 30s or 1h30m"],
    [NaN, "NaN has no unit; write a duration such as 30s or 1h30m"],
  ])("duration %j", (value, want) => {
    expect(read(parseDuration(value))).toBe(want);
  });

  it.each([
    [80, "80 has no unit; write 80 GiB"],
    ["80 gib", 'unit "gib" is unknown; write 80 GiB'],
    ["80 Gi", 'unit "Gi" is unknown; write 80 GiB'],
    ["80G", 'unit "G" is unknown; write 80 GiB'],
    ["80 Gb", 'unit "Gb" is unknown; write 80 GB'],
    ["0.3 B", '"0.3 B" is finer than 1 B; write a multiple of 1 B'],
    [
      "1GiB 2MiB",
      '"1GiB 2MiB" is not an amount of memory; write an amount of memory such as 80 GiB',
    ],
  ])("memory %j", (value, want) => {
    expect(read(parseMemory(value))).toBe(want);
  });

  it("no text takes long or throws, however odd it is", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        for (const parse of [
          parseDuration,
          parseLatency,
          parseMemory,
          parseRate,
          parsePower,
          parsePrice,
        ]) {
          expect(["read", "refused"]).toContain(parse(value).kind);
        }
      }),
    );
    expect(read(parseDuration("1s".repeat(1_000_000)))).toContain("is not a duration");
    expect(read(parseDuration("9".repeat(59) + "d"))).toContain("is more than 3650d");
  });
});

describe("what is printed reads back as the same number", () => {
  const wholeUpTo = (max: number) => fc.integer({ min: 0, max });

  it("durations", () => {
    fc.assert(
      fc.property(wholeUpTo(315_360_000_000), (ms) => {
        expect(read(parseDuration(durationText(ms)))).toBe(ms);
      }),
    );
  });

  it("latencies, to the nanosecond", () => {
    fc.assert(
      fc.property(wholeUpTo(60_000_000_000), (ns) => {
        expect(read(parseLatency(latencyText(ns / 1e6)))).toBe(ns / 1e6);
      }),
    );
  });

  it("memory, to the byte", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          wholeUpTo(2 ** 50),
          wholeUpTo(1024).map((gib) => gib * 2 ** 30),
        ),
        (bytes) => {
          expect(read(parseMemory(memoryText(bytes / 2 ** 30)))).toBe(bytes / 2 ** 30);
        },
      ),
    );
  });

  it("bandwidths, to the bit a second", () => {
    fc.assert(
      fc.property(wholeUpTo(1e15), (bps) => {
        expect(read(parseRate(rateText(bps / 1e9)))).toBe(bps / 1e9);
      }),
    );
  });

  it("power, to the milliwatt, and prices, to the millionth", () => {
    fc.assert(
      fc.property(wholeUpTo(1e13), wholeUpTo(1e9), (milliwatts, microUsd) => {
        expect(read(parsePower(powerText(milliwatts / 1e3)))).toBe(milliwatts / 1e3);
        expect(read(parsePrice(priceText(microUsd / 1e6)))).toBe(microUsd / 1e6);
      }),
    );
  });

  it.each([
    [durationText(5_400_000), "1h30m"],
    [durationText(250), "250ms"],
    [durationText(0), "0s"],
    [latencyText(84.936), "84.936ms"],
    [memoryText(80), "80 GiB"],
    [memoryText(80e9 / 2 ** 30), "80 GB"],
    [memoryText(0.5), "512 MiB"],
    [rateText(400), "400 Gbps"],
    [rateText(4.6), "4.6 Gbps"],
    [powerText(700), "700 W"],
    [powerText(10_000), "10 kW"],
    [priceText(0.02), "0.02 USD/GB"],
  ])("%s is written as people do", (text, want) => {
    expect(text).toBe(want);
  });
});
