/** @file The clocks of a bus: by hand, and against the wires of the executor, which share no code with them. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { busClocks } from "../../../planning/inference/bus-clocks.ts";
import { clock, wires } from "../../../planning/inference/transfers.ts";

describe("on a bus", () => {
  it("copies queue, and other buses do not wait", () => {
    const clocks = busClocks(2);
    clocks.begin(Float64Array.of(10, 3));
    expect([clocks.copy(0, 4), clocks.copy(0, 6), clocks.copy(1, 3)]).toEqual([4, 10, 3]);
  });

  it("the clocks of two planners do not disturb each other", () => {
    const [one, other] = [busClocks(1), busClocks(1)];
    one.begin(Float64Array.of(10));
    other.begin(Float64Array.of(3));
    expect([one.copy(0, 4), other.copy(0, 3), one.copy(0, 6)]).toEqual([4, 3, 10]);
  });

  it.each([
    { what: "after the copies takes its own time", fromMs: 12, wantMs: 3, wantEndMs: 10 },
    { what: "beside copies takes its shared time", fromMs: 0, wantMs: 6, wantEndMs: 13 },
    { what: "that outlasts them is alone at the end", fromMs: 9, wantMs: 4, wantEndMs: 11 },
  ])("a use $what", ({ fromMs, wantMs, wantEndMs }) => {
    const clocks = busClocks(1);
    clocks.begin(Float64Array.of(10));
    expect(clocks.use(0, fromMs, { aloneMs: 3, sharedMs: 6 })).toBeCloseTo(wantMs, 9);
    expect(clocks.copy(0, 10)).toBeCloseTo(wantEndMs, 9);
    expect(clocks.isInfeasible()).toBe(false);
  });

  it("a large use of which earlier copies did not know asks for a second round", () => {
    const clocks = busClocks(1);
    const work = Float64Array.of(10);
    clocks.begin(work);
    expect(clocks.copy(0, 10)).toBe(10);
    expect(clocks.use(0, 4, { aloneMs: 2, sharedMs: 4 })).toBe(4);
    expect(clocks.isInfeasible()).toBe(true);
    clocks.beginAgain(work);
    expect(clocks.copy(0, 10)).toBe(12);
    clocks.begin(work);
    expect(clocks.isInfeasible()).toBe(false);
    expect(clocks.copy(0, 10)).toBe(10);
  });

  it("a small use asks for none, and delays later copies alone", () => {
    const clocks = busClocks(1);
    clocks.begin(Float64Array.of(1000));
    clocks.copy(0, 600);
    clocks.use(0, 100, { aloneMs: 2, sharedMs: 4 });
    expect(clocks.isInfeasible()).toBe(false);
    expect(clocks.copy(0, 400)).toBe(1002);
  });

  it("one use beside copies takes as long as on the wires of the executor", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 1, maxLength: 5 });
    const use = fc.record({
      fromMs: fc.nat({ max: 40 }),
      aloneMs: fc.integer({ min: 1, max: 30 }),
    });
    fc.assert(
      fc.property(sizes, use, (copies, { fromMs, aloneMs }) => {
        const clocks = busClocks(1);
        const work = Float64Array.of(copies.reduce((sum, ms) => sum + ms, 0));
        const pass = () => ({
          ends: copies.map((ms) => clocks.copy(0, ms)),
          tookMs: clocks.use(0, fromMs, { aloneMs, sharedMs: 2 * aloneMs }),
        });
        clocks.begin(work);
        let found = pass();
        if (clocks.isInfeasible()) {
          clocks.beginAgain(work);
          found = pass();
        }
        const want = onWires(copies, { fromMs, aloneMs });
        expect(found.tookMs).toBeCloseTo(want.tookMs, 9);
        for (const [at, end] of found.ends.entries())
          expect(end).toBeCloseTo(want.ends[at] ?? NaN, 9);
      }),
      { seed: Number(process.env["ORBWEAVER_SEED"] ?? 1) },
    );
  });
});

/** Copies one after the other over a wire of one byte a millisecond, and one other use of it. */
function onWires(
  copies: readonly number[],
  { fromMs, aloneMs }: { readonly fromMs: number; readonly aloneMs: number },
): { readonly ends: readonly number[]; readonly tookMs: number } {
  const time = clock();
  const net = wires(time, () => 1);
  const ends: number[] = [];
  let tookMs = 0;
  const send = (bytes: number, done: () => void): void =>
    net.start({ bytes, bytesPerMs: 1, wires: ["bus"], done });
  const next = (): void => {
    const bytes = copies[ends.length];
    if (bytes === undefined) return;
    send(bytes, () => {
      ends.push(time.nowMs());
      next();
    });
  };
  time.after(0, next);
  time.after(fromMs, () => send(aloneMs, () => (tookMs = time.nowMs() - fromMs)));
  time.run();
  return { ends, tookMs };
}
