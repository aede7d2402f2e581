/** @file The batch of a gang that got fewer GPUs than it asked for. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grantedBatch } from "../../../domain/lease/granted-batch.ts";

describe("grantedBatch", () => {
  it.each([
    { name: "the full gang", batch: 100, requested: 64, granted: 64, want: 100 },
    { name: "a part, evenly", batch: 512, requested: 64, granted: 48, want: 384 },
    { name: "a part, to the nearest multiple", batch: 100, requested: 8, granted: 6, want: 78 },
    { name: "one sample a GPU at least", batch: 8, requested: 8, granted: 6, want: 6 },
    { name: "a model over GPUs", batch: 4, requested: 64, granted: 32, want: 2 },
    { name: "a model over GPUs, one at least", batch: 1, requested: 8, granted: 2, want: 1 },
    { name: "one GPU", batch: 30, requested: 8, granted: 1, want: 4 },
  ])("$name: $want", ({ batch, requested, granted, want }) => {
    expect(grantedBatch({ batch, requested, granted })).toBe(want);
  });

  it("is a multiple of the GPUs within half a sample a GPU of the proportion, whatever the sizes", () => {
    const gang = fc
      .tuple(fc.integer({ min: 2, max: 5_000 }), fc.integer({ min: 1, max: 1_000_000 }))
      .chain(([requested, batch]) =>
        fc.record({
          requested: fc.constant(requested),
          batch: fc.constant(Math.max(batch, requested)),
          granted: fc.integer({ min: 1, max: requested - 1 }),
        }),
      );
    fc.assert(
      fc.property(gang, ({ batch, requested, granted }) => {
        const given = grantedBatch({ batch, requested, granted });
        expect(given % granted).toBe(0);
        expect(Math.abs(given - (batch * granted) / requested)).toBeLessThanOrEqual(
          granted / 2 + 1e-6,
        );
      }),
    );
  });
});
