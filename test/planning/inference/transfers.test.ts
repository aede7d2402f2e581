/** @file Copies that share wires: alone at their own pace, together at equal shares, and no byte is lost. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { clock, wires } from "../../../planning/inference/transfers.ts";

interface Sent {
  readonly atMs: number;
  readonly bytes: number;
  readonly bytesPerMs: number;
  readonly wires: readonly string[];
}

/** When each copy is done; wires carry 10 bytes a millisecond. */
function endsOf(copies: readonly Sent[]): readonly number[] {
  const time = clock();
  const net = wires(time, () => 10);
  const ends = copies.map(() => NaN);
  for (const [at, { atMs, ...copy }] of copies.entries())
    time.after(atMs, () => {
      net.start({ ...copy, done: () => (ends[at] = time.nowMs()) });
    });
  time.run();
  return ends;
}

const copy = (bytes: number, of: Partial<Sent> = {}): Sent => ({
  atMs: 0,
  bytes,
  bytesPerMs: 100,
  wires: ["a"],
  ...of,
});

test.each([
  { what: "one copy has its wire alone", copies: [copy(100)], want: [10] },
  {
    what: "its ends may be slower than the wire",
    copies: [copy(100, { bytesPerMs: 4 })],
    want: [25],
  },
  { what: "two share a wire equally", copies: [copy(100), copy(100)], want: [20, 20] },
  { what: "the rest goes faster when one is done", copies: [copy(50), copy(100)], want: [10, 15] },
  {
    what: "a later one slows the first",
    copies: [copy(100), copy(100, { atMs: 5 })],
    want: [15, 20],
  },
  {
    what: "other wires do not matter",
    copies: [copy(100), copy(100, { wires: ["b"] })],
    want: [10, 10],
  },
  {
    what: "the slowest wire decides",
    copies: [copy(100, { wires: ["a", "b"] }), copy(100, { wires: ["b"] })],
    want: [20, 20],
  },
])("$what", ({ copies, want }) => {
  for (const [at, end] of endsOf(copies).entries()) expect(end).toBeCloseTo(want[at] ?? NaN, 9);
});

test("a wire is never faster than its capacity, and busy until all its copies are done", () => {
  const any = fc.record({ atMs: fc.nat({ max: 20 }), bytes: fc.integer({ min: 1, max: 99 }) });
  fc.assert(
    fc.property(fc.array(any, { minLength: 1, maxLength: 6 }), (drawn) => {
      const ends = endsOf(drawn.map(({ atMs, bytes }) => copy(bytes, { atMs })));
      // One wire that serves whatever is there: the time of the last end does not depend on the shares.
      let freeMs = 0;
      for (const { atMs, bytes } of [...drawn].sort((a, b) => a.atMs - b.atMs))
        freeMs = Math.max(freeMs, atMs) + bytes / 10;
      expect(Math.max(...ends)).toBeCloseTo(freeMs, 6);
      for (const [at, { atMs, bytes }] of drawn.entries())
        expect((ends[at] ?? NaN) - atMs).toBeGreaterThanOrEqual(bytes / 10 - 1e-9);
    }),
  );
});

test("equal times come back in the order of asking", () => {
  const time = clock();
  const seen: string[] = [];
  time.after(2, () => seen.push("b"));
  time.after(1, () => seen.push("a"));
  time.after(2, () => seen.push("c"));
  time.run();
  expect(seen).toEqual(["a", "b", "c"]);
  expect(time.nowMs()).toBe(2);
});
