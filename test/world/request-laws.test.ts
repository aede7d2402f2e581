/** @file A request that its run has ended may join the queue anew in the task of the fleet that hears of the end, and in no later one. */

import { expect, test } from "vitest";
import { createRequestLaws } from "../../world/checker/request-laws.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, inbox, readyLedger } from "../scheduling/builders.ts";

const EMPTY = readyLedger(fleetShape([{ hosts: [{}] }]));
const WAITING = inbox(EMPTY, [ask({ job: "a" })]).ledger;

const joinedAt = (arrival: number): Ledger => ({
  ...WAITING,
  requests: new Map([...WAITING.requests].map(([id, request]) => [id, { ...request, arrival }])),
});

/** The laws that ledgers in a row break, and words to the fleet between them. */
function brokenBy(...heard: readonly (Ledger | "its end")[]): readonly string[] {
  const broken: string[] = [];
  const laws = createRequestLaws((law) => void broken.push(law));
  const [request] = WAITING.requests.values();
  for (const each of heard)
    if (each === "its end") laws.fleetTold([{ ...request, kind: "end" }]);
    else laws.ledgerChanged(each, false);
  return broken;
}

const BROKEN = ["requests keep their places"];

test.each([
  ["a copy takes another place", [joinedAt(1), joinedAt(2)], BROKEN],
  ["its end and a copy come in one task", [joinedAt(1), "its end", joinedAt(2)], []],
  ["the task with both is not the next one", [joinedAt(1), "its end", EMPTY, joinedAt(2)], []],
  [
    "a copy comes after that in another place",
    [joinedAt(1), "its end", joinedAt(2), joinedAt(3)],
    BROKEN,
  ],
  [
    "a copy comes twice after its end was heard",
    [joinedAt(1), "its end", EMPTY, joinedAt(2), joinedAt(3)],
    BROKEN,
  ],
] as const)("requests keep their places: %s", (_what, heard, want) => {
  expect(brokenBy(...heard)).toEqual(want);
});
