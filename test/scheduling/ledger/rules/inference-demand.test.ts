/** @file Rises of inference demand, second by second, against a plain count; and the seconds that are kept. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  noteDemand,
  openDemand,
  risesOf,
  SLOT_MS,
  traceOf,
  WINDOW_S,
} from "../../../../scheduling/ledger/rules/inference-demand.ts";
import { ask, fleetShape, gpus, inbox, leased, readyLedger } from "../../builders.ts";

const EMPTY = { leases: new Map(), requests: new Map() };

test("each rise is the highest demand of the next seconds above the demand at its beginning", () => {
  const change = fc.record({
    afterMs: fc.nat({ max: 2_500 }),
    gpus: fc.integer({ min: 1, max: 8 }),
  });
  fc.assert(
    fc.property(
      fc.array(change, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 1, max: 4 }),
      (changes, leadS) => {
        const book = openDemand(EMPTY);
        const events: { atMs: number; gpus: number }[] = [];
        let nowMs = 10_000;
        let demand = 0;
        for (const [at, { afterMs, gpus: count }] of changes.entries()) {
          nowMs += afterMs;
          const more = at % 2 === 0 ? count : -Math.min(demand, count);
          demand += more;
          events.push({ atMs: nowMs, gpus: demand });
          noteDemand(book, more, nowMs);
        }
        const firstS = Math.floor((events[0]?.atMs ?? 0) / SLOT_MS);
        const endS = Math.floor(nowMs / SLOT_MS);
        const at = (ms: number): number => events.filter((e) => e.atMs < ms).at(-1)?.gpus ?? 0;
        const highestIn = (fromS: number, toS: number): number =>
          Math.max(
            at(fromS * SLOT_MS),
            ...events
              .filter((e) => e.atMs >= fromS * SLOT_MS && e.atMs < toS * SLOT_MS)
              .map((e) => e.gpus),
          );
        const want = Array.from({ length: endS - firstS }, (_, index) => firstS + index).map(
          (second) => highestIn(second, Math.min(endS, second + leadS)) - at(second * SLOT_MS),
        );
        expect([...risesOf(traceOf(book), { nowMs, leadS })]).toEqual(want);
      },
    ),
  );
});

test("the last seconds are kept, and time that runs backwards counts for the last one", () => {
  const book = openDemand(EMPTY);
  for (let second = 0; second <= WINDOW_S + 50; second += 1) noteDemand(book, 1, second * SLOT_MS);
  expect(book.slots.length).toBeLessThanOrEqual(WINDOW_S + 1);
  const [slot, start, most] = book.slots.at(-1) ?? [];
  noteDemand(book, 5, 0);
  expect(book.slots.at(-1)).toEqual([slot, start, (most ?? 0) + 5]);
});

test("inference jobs count with what they hold and wait for, and no others", () => {
  const ready = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
  const held = leased(ready, { job: "a", class: "inference", gpus: 2 }, gpus(["c0/h0", 3]));
  const { leases, requests } = inbox(held, [
    ask({ job: "b", class: "inference", gpus: 4, slots: 3 }),
    ask({ job: "c", class: "training", gpus: 8 }),
  ]).ledger;
  expect(openDemand({ leases, requests }).gpus).toBe(2 + 12);
});
