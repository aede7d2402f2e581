/**
 * @file A request that its run has ended may join the queue anew in the task of the fleet that hears of the end, and in no later one. Who has left his lobby asks under
 * another number, but for words that he said before.
 */

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

/** What a run says of its request, and when it was said by the server's clock. */
type Said = readonly ["asks" | "leaves", number];

test.each<readonly [string, readonly Said[], readonly string[]]>([
  [
    "it asks anew under the number",
    [
      ["asks", 10],
      ["leaves", 20],
      ["asks", 30],
    ],
    ["who has left asks under another number"],
  ],
  [
    "a worker brings late what it said before",
    [
      ["asks", 10],
      ["leaves", 30],
      ["asks", 20],
    ],
    [],
  ],
  [
    "and the server's clock has fallen back",
    [
      ["asks", 30],
      ["leaves", 20],
      ["asks", 25],
    ],
    [],
  ],
])("who has left asks under another number: %s", (_what, said, want) => {
  const broken: string[] = [];
  const laws = createRequestLaws((law) => void broken.push(law));
  const own = { jobId: "a", runId: "run-1", seq: 1 };
  laws.runBegan(own.runId);
  for (const [what, atMs] of said)
    if (what === "leaves") laws.leftLobby(own, atMs);
    else laws.fleetTold([{ kind: "request", request: { ...own, requestedAtMs: atMs } }]);
  expect(broken).toEqual(want);
});

test("a run of which nothing is durable asks again although a frozen worker has said that it leaves", () => {
  const broken: string[] = [];
  const laws = createRequestLaws((law) => void broken.push(law));
  const own = { jobId: "a", runId: "run-1", seq: 1 };
  const asks = (atMs: number): void =>
    laws.fleetTold([{ kind: "request", request: { ...own, requestedAtMs: atMs } }]);
  asks(10);
  laws.leftLobby(own, 20);
  asks(30);
  expect(broken).toEqual([]);
  laws.runBegan(own.runId);
  asks(40);
  expect(broken).toEqual(["who has left asks under another number"]);
});
