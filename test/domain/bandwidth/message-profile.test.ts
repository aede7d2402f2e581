/** @file Bandwidth between two sizes of messages follows α–β, and beyond them nothing impossible. */

import { describe, expect, test } from "vitest";
import fc from "fast-check";
import {
  bandwidthAt,
  messagesText,
  roundMessages,
} from "../../../domain/bandwidth/message-profile.ts";

const MIB = 2 ** 20;

/** GB/s of a set with so much fixed time (ns of size ÷ bandwidth) and so many GB/s of the links. */
const law = (fixedNs: number, linkGbs: number) => (bytes: number) =>
  bytes / (fixedNs + bytes / linkGbs);

describe("bandwidth at a size between measured ones", () => {
  test("is exact where α–β holds, between two sizes and beyond them", () => {
    const gbs = law(60_000, 400);
    const points = [16 * MIB, 2_048 * MIB].map((bytes) => ({ bytes, gbs: gbs(bytes) }));
    for (const bytes of [1, 16, 64, 256, 1_024, 2_048, 4_096].map((size) => size * MIB))
      expect(bandwidthAt(points, bytes)).toBeCloseTo(gbs(bytes), 6);
  });

  test("is the only one known where one size was measured", () => {
    expect(bandwidthAt([{ bytes: 16 * MIB, gbs: 140 }], 2_048 * MIB)).toBe(140);
  });

  test("never falls with the size beyond the measured ones, and no message becomes faster by being larger", () => {
    const size = fc.integer({ min: 10, max: 31 });
    const gbs = fc.double({ min: 1, max: 500, noNaN: true });
    fc.assert(
      fc.property(size, size, gbs, gbs, (from, to, low, high) => {
        fc.pre(from < to);
        const points = [
          { bytes: 2 ** from, gbs: low },
          { bytes: 2 ** to, gbs: high },
        ];
        expect(bandwidthAt(points, 2 ** from)).toBeCloseTo(low, 6);
        expect(bandwidthAt(points, 2 ** to)).toBeCloseTo(high, 6);
        const beyond = [2 ** to, 2 ** (to + 1), 2 ** (to + 5)];
        const before = [2 ** (from - 5), 2 ** (from - 1), 2 ** from];
        for (const sizes of [beyond, before])
          for (const [at, bytes] of sizes.slice(1).entries()) {
            const smaller = sizes[at] ?? bytes;
            const [a, b] = [bandwidthAt(points, smaller), bandwidthAt(points, bytes)];
            expect(b).toBeGreaterThanOrEqual(a * (1 - 1e-9));
            expect(bytes / b).toBeGreaterThanOrEqual((smaller / a) * (1 - 1e-9));
          }
      }),
    );
  });
});

test.each([
  { messages: { collective: "all_reduce", bytes: 2 ** 31 }, want: "2 GiB" },
  { messages: { collective: "alltoall", bytes: 16 * MIB }, want: "16 MiB alltoall" },
] as const)("$want", ({ messages, want }) => {
  expect(messagesText(messages)).toBe(want);
});

test("what jobs report is rounded to a power of two", () => {
  expect(roundMessages({ collective: "all_reduce", bytes: 12_582_912 }).bytes).toBe(16 * MIB);
});
