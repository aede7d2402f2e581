/** @file A ledger's transaction: nothing changed is the same ledger, the ledger before stays as it was, and outcomes are taken once. */
import { expect, test } from "vitest";
import { jobId } from "../../../../domain/values/ids.ts";
import {
  bury,
  closeTransaction,
  ledgerOf,
  openTransaction,
  refuse,
  takeOutcome,
} from "../../../../scheduling/ledger/apply/transaction.ts";
import {
  dropRequest,
  putRequest,
} from "../../../../scheduling/ledger/apply/transaction-requests.ts";
import { OLDEST_RULES } from "../../../../scheduling/ledger/ledger.ts";
import { fleetShape, gangRequest, readyLedger } from "../../builders.ts";

const LEDGER = readyLedger(fleetShape([{ hosts: [{}] }]));
const request = { ...gangRequest({ job: "a" }), arrival: 1 };

test("a transaction without a change returns the very same ledger", () => {
  const transaction = openTransaction(LEDGER);
  dropRequest(transaction, jobId("unknown"));
  expect(closeTransaction(transaction)).toEqual({
    ledger: LEDGER,
    refusals: [],
    granted: [],
    orphaned: [],
    outside: [],
    held: [],
    needsDecision: false,
  });
  expect(closeTransaction(transaction).ledger).toBe(LEDGER);
});

test("a change is in the new ledger alone, and the watcher is notified of it", () => {
  const seen: unknown[] = [];
  const transaction = openTransaction(LEDGER, {
    request: (before, after) => seen.push([before, after]),
  });
  putRequest(transaction, request);
  const { ledger, needsDecision } = closeTransaction(transaction);
  expect(needsDecision).toBe(true);
  expect([...ledger.requests.values()]).toEqual([request]);
  expect(LEDGER.requests.size).toBe(0);
  dropRequest(transaction, request.jobId);
  expect(ledgerOf(transaction).requests.size).toBe(0);
  expect(seen).toEqual([
    [undefined, request],
    [request, undefined],
  ]);
});

test("an outcome is taken once", () => {
  const transaction = openTransaction(LEDGER);
  refuse(transaction, "HostUnknown", "no host");
  expect(takeOutcome(transaction).refusals).toEqual([{ code: "HostUnknown", message: "no host" }]);
  expect(takeOutcome(transaction).refusals).toEqual([]);
});

test("by the first rules, dead letters keep the beginning of an entry, and only the last fifty of them", () => {
  const transaction = openTransaction({ ...LEDGER, applyVersion: OLDEST_RULES });
  for (let at = 0; at < 60; at += 1)
    bury(transaction, {
      code: "EntryTooLarge",
      message: `${at}`,
      json: "x".repeat(2_000),
      nowMs: at,
    });
  const { deadLetters } = ledgerOf(transaction);
  expect(deadLetters).toHaveLength(50);
  expect(deadLetters[0]).toMatchObject({ atMs: 10, message: "10" });
  expect(deadLetters[0]?.entry).toHaveLength(500);
});
