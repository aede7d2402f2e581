import { describe, expect, it } from "vitest";
import { taskAges, wallClockMs } from "../../workflows/task-age.ts";

describe("the age of a workflow task", () => {
  it("is told by the wall clock", () => {
    expect(Math.abs(wallClockMs() - Date.now())).toBeLessThan(1_000);
  });

  it("is too great after ten seconds, whatever the server's clock says", () => {
    for (const leadMs of [0, -50_000, 3_600_000]) {
      const isTooOld = taskAges();
      const at = (startedAtMs: number, nowMs: number) => isTooOld(startedAtMs, nowMs + leadMs);
      expect(at(1_000, 1_020)).toBe(false);
      expect(at(5_000, 9_000)).toBe(false);
      expect(at(5_000, 15_100)).toBe(true);
      expect(at(15_000, 15_100)).toBe(false);
    }
  });

  it("begins anew when a clock was set: nothing is refused for longer than half a minute", () => {
    const isTooOld = taskAges();
    expect(isTooOld(0, 10)).toBe(false);
    const JUMP_MS = 60_000;
    expect(isTooOld(1_000, 1_010 + JUMP_MS)).toBe(true);
    expect(isTooOld(20_000, 20_010 + JUMP_MS)).toBe(true);
    expect(isTooOld(32_000, 32_010 + JUMP_MS)).toBe(false);
    expect(isTooOld(33_000, 33_010 + JUMP_MS)).toBe(false);
    expect(isTooOld(33_000, 43_500 + JUMP_MS)).toBe(true);
  });
});
