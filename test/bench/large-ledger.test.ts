/** @file The drawn ledgers: as large as asked, lawful, different from one another, and the same from the same seed. */
import { expect, test } from "vitest";
import { largeLedgers, type LedgerNow } from "../../bench/live/large-ledger.ts";
import { drawFrom } from "../../bench/statistics.ts";
import { checkLedger } from "../../scheduling/ledger/apply/apply.ts";

const SIZE = { gpus: 200, requests: 100 };

function drawn(seed: number): readonly LedgerNow[] {
  const ledgers = largeLedgers(SIZE, drawFrom(seed));
  return [0, 1, 2].flatMap(() => ledgers.next().value ?? []);
}

test("every ledger keeps its laws, and has the asked number of requests and GPUs", () => {
  for (const { ledger } of drawn(1)) {
    expect(checkLedger(ledger)).toEqual([]);
    expect(ledger.requests.size).toBe(SIZE.requests);
    const gpus = ledger.shape.clusters
      .flatMap(({ hosts }) => hosts)
      .reduce((sum, { gpuCount }) => sum + gpuCount, 0);
    expect(gpus).toBe(SIZE.gpus);
    expect(ledger.leases.size).toBeGreaterThan(10);
  }
});

test("one seed always gives the same ledgers, and no two of them are alike", () => {
  const tokens = (seed: number): readonly string[] =>
    drawn(seed).map(({ ledger }) => [...ledger.leases.keys(), ...ledger.requests.keys()].join());
  const five = tokens(5);
  expect(tokens(5)).toEqual(five);
  expect(new Set([...five, ...tokens(6)]).size).toBe(6);
});
