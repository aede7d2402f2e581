/** @file The slots of SortingHat's MILP: the order of figure 7. */

import { describe, expect, it } from "vitest";
import { slotsFor } from "../../../planning/inference/milp-slots.ts";

describe("the slots of figure 7", () => {
  it("are served in turn: slot 5 copies after slot 1, slot 2 after slot 5", () => {
    const slots = slotsFor([0, 0, 1, 1], 4);
    expect(slots.parentDt.get(5)).toBe(1);
    expect(slots.parentDt.get(2)).toBe(5);
    expect(slots.parentDt.has(1)).toBe(false);
    expect(slots.parentDt.has(9)).toBe(false);
    expect(slots.parentDt.get(13)).toBe(9);
    expect(slots.gpuOf(9)).toBe(2);
    expect(slots.busOf(16)).toBe(1);
  });
});
