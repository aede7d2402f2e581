import { describe, expect, it } from "vitest";
import { taskAges, wallClockMs } from "../../../workflows/runtime/task-age.ts";

/** Of tasks of ten seconds, where nothing else is said. */
function agesOfShort() {
  const { isTooOld, tick } = taskAges();
  return {
    tick,
    isTooOld: (startedAtMs: number, nowMs: number, timeoutMs = 10_000) =>
      isTooOld(startedAtMs, nowMs, timeoutMs),
  };
}

/** Ages in a thread that never stands still: it ticks every second, but where the clock is set. */
function busyThread() {
  const { isTooOld, tick } = agesOfShort();
  let tickedMs: number | undefined;
  return (startedAtMs: number, nowMs: number, timeoutMs?: number): boolean => {
    if (tickedMs !== undefined && nowMs - tickedMs < 30_000)
      for (let atMs = tickedMs; atMs < nowMs; atMs += 1_000) tick(atMs);
    tickedMs = nowMs;
    return isTooOld(startedAtMs, nowMs, timeoutMs);
  };
}

describe("the age of a workflow task", () => {
  it("is told by the wall clock", () => {
    expect(Math.abs(wallClockMs() - Date.now())).toBeLessThan(1_000);
  });

  it("is too great after ten seconds, whatever the server's clock says", () => {
    for (const leadMs of [0, -50_000, 3_600_000]) {
      const isTooOld = busyThread();
      const at = (startedAtMs: number, nowMs: number) => isTooOld(startedAtMs, nowMs + leadMs);
      expect(at(1_000, 1_020)).toBe(false);
      expect(at(5_000, 9_000)).toBe(false);
      expect(at(5_000, 15_100)).toBe(true);
      expect(at(15_000, 15_100)).toBe(false);
    }
  });

  it("is too great only after thirty seconds where a task may take so long", () => {
    const isTooOld = busyThread();
    expect(isTooOld(1_000, 1_020, 30_000)).toBe(false);
    expect(isTooOld(5_000, 20_000, 30_000)).toBe(false);
    expect(isTooOld(5_000, 20_000, 10_000)).toBe(true);
    expect(isTooOld(5_000, 35_100, 30_000)).toBe(true);
  });

  it("begins anew when a clock was set: nothing is refused for longer than half a minute", () => {
    const isTooOld = busyThread();
    expect(isTooOld(0, 10)).toBe(false);
    const JUMP_MS = 60_000;
    expect(isTooOld(1_000, 1_010 + JUMP_MS)).toBe(true);
    expect(isTooOld(20_000, 20_010 + JUMP_MS)).toBe(true);
    expect(isTooOld(32_000, 32_010 + JUMP_MS)).toBe(false);
    expect(isTooOld(33_000, 33_010 + JUMP_MS)).toBe(false);
    expect(isTooOld(33_000, 43_500 + JUMP_MS)).toBe(true);
  });

  it("is too great when it began before the thread stood still, whatever the server's clock says", () => {
    for (const leadMs of [0, -50_000, 3_600_000]) {
      const { isTooOld, tick } = agesOfShort();
      tick(900 + leadMs);
      expect(isTooOld(1_000, 1_020 + leadMs)).toBe(false);
      tick(1_100 + leadMs);
      // Stood still until 8,100.
      expect(isTooOld(7_500, 8_100 + leadMs)).toBe(true);
      expect(isTooOld(8_090, 8_120 + leadMs)).toBe(false);
      expect(isTooOld(7_500, 9_000 + leadMs)).toBe(true);
      tick(9_100 + leadMs);
      expect(isTooOld(9_000, 9_150 + leadMs)).toBe(false);
    }
  });

  it("does not tell a clock that is set back from a pause for ever", () => {
    const { isTooOld, tick } = agesOfShort();
    tick(100_000);
    expect(isTooOld(100_000, 100_010)).toBe(false);
    tick(110_000);
    tick(50_000);
    expect(isTooOld(50_100, 50_110)).toBe(false);
    expect(isTooOld(50_200, 51_000)).toBe(false);
  });
});
