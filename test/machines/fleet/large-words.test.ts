/** @file Words that pour into a fleet's run: what is read of them, when the run ends, and that a run and its replay, which may hear them in another order, do the same. */

import fc from "fast-check";
import { expect, it } from "vitest";
import type { Arrival, FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { openChain } from "../../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import { formatProof, UNSIGNED } from "../../../protocol/word-proof.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { FLOODED_TURNS_RULES, SHORT_WORDS_RULES } from "../../../scheduling/ledger/upgrade.ts";
import { ask, fleetShape, planOf, readyLedger } from "../../scheduling/builders.ts";
import { play, type Played } from "../harness.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
/** Of the right form, by keys of nobody. */
const PROOF = formatProof({
  role: "jobs",
  key: `ed25519:${"k".repeat(43)}`,
  atMs: 1_000,
  nonce: "n".repeat(22),
  signature: "s".repeat(86),
});

function flooded(rules = SHORT_WORDS_RULES): Played<FleetState, FleetEvent, FleetCommand> {
  const shape = fleetShape([{ hosts: [{}, {}] }]);
  const ledger = packLedger({ ...readyLedger(shape), applyVersion: rules });
  const input = { name: "eu", ledger, areWordsSigned: true } as const;
  const fleet = play<FleetState, FleetEvent, FleetCommand>(fleetMachine, {
    state: openChain(openFleet(input, -2_000, 0), input, "run"),
    commands: [],
  });
  fleet.feed({ kind: "tick" });
  return fleet;
}

const wordOf = (bytes: number, proof?: string): Arrival => ({
  ...{ kind: "inbox", batch: [ask({ job: "a" })], bytes, sender: "mallory" },
  value: new Uint8Array(8),
  ...(proof !== undefined && { proof }),
});

const kinds = (fleet: Played<FleetState, FleetEvent, FleetCommand>): readonly string[] =>
  fleet.open.filter(({ kind }) => kind !== "record").map(({ kind }) => kind);

it.each([
  { rules: SHORT_WORDS_RULES, bytes: 257 * KIB, isAsked: true },
  { rules: SHORT_WORDS_RULES, bytes: 257 * KIB + 1, isAsked: false },
  { rules: FLOODED_TURNS_RULES, bytes: 257 * KIB + 1, isAsked: true },
  { rules: FLOODED_TURNS_RULES, bytes: MIB + 1, isAsked: false },
])("by rules $rules, asks for the proof of a word of $bytes bytes: $isAsked", (each) => {
  const fleet = flooded(each.rules);
  fleet.feed(wordOf(each.bytes, PROOF));
  fleet.tick();
  expect(kinds(fleet).includes("check")).toBe(each.isAsked);
  if (each.isAsked) return;
  expect(fleet.state().ledger.deadLetters).toMatchObject([
    { code: "EntryTooLarge", sender: "mallory" },
  ]);
});

it("asks about words of 256 KiB together, so that none keeps the run from its end", () => {
  const fleet = flooded();
  for (let at = 0; at < 12; at += 1) fleet.feed(wordOf(256 * KIB));
  fleet.tick();
  const { id, list } = fleet.take("check");
  expect(list.words).toHaveLength(12);
  const refused = [{ reason: UNSIGNED, words: list.words.map((_, at) => at) }];
  fleet.feed({ kind: "checked", id, verdicts: { refused } });
  expect(fleet.state()).toMatchObject({ isEnding: true, isBacklogged: false });
});

it("ends while a delivery is on its way, once much was said", () => {
  const { deliveries, ...state } = flooded().state();
  const parcel = { grants: [], evictions: [], lobbies: [], held: [] };
  const busy = { ...state, deliveries: { ...deliveries, underway: new Map([[7, parcel]]) } };
  const isEndingAt = (bytes: number): boolean => {
    const said = { ...busy, isTurnDue: true, spent: { events: 100, bytes } };
    return fleetMachine.step(said, { kind: "tick" }, 1).state.isEnding;
  };
  expect([isEndingAt(3 * MIB), isEndingAt(4 * MIB)]).toEqual([false, true]);
});

it("does not end in a task to which so much has come that the worker has repeated the run for it", () => {
  const ring = (words: number): readonly string[] => {
    const fleet = flooded();
    for (let at = 0; at < 3; at += 1) fleet.feed(wordOf(MIB));
    fleet.tick();
    expect(fleet.state().isEnding).toBe(true);
    for (let at = 0; at < words; at += 1) fleet.feed(wordOf(MIB));
    fleet.tick();
    return kinds(fleet);
  };
  expect(ring(6)).toEqual(["finish-handlers"]);
  expect(ring(7)).toEqual([]);
});

it("begins the next run by force, with its ledger, where the server refuses one end after the other", () => {
  const fleet = flooded();
  fleet.feed({ kind: "order", order: { kind: "undrain", hosts: [] } });
  for (let at = 0; at < 20; at += 1) fleet.feed(wordOf(MIB));
  fleet.tick();
  const { input } = fleet.take("begin-anew");
  expect(input).toMatchObject({ name: "eu", areWordsLost: true });
  expect(unpackLedger(input.ledger).hosts.size).toBe(2);
  expect(fleet.state().phase).toBe("over");
});

/** What somebody may say while the answer to a question is on its way. */
const said: fc.Arbitrary<Arrival> = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(40, 100 * KIB, 250 * KIB, 257 * KIB + 1, MIB, 2 * MIB),
      fc.constantFrom(undefined, PROOF),
    )
    .map(([bytes, proof]) => wordOf(bytes, proof)),
  fc
    .constantFrom(100, MIB)
    .map((bytes): Arrival => ({ kind: "unknown-signal", signal: "x", bytes, sender: "mallory" })),
  fc.constantFrom(100, 300 * KIB).map((bytes): Arrival => ({
    ...{ kind: "unproven-order", batch: { hosts: [] }, bytes, sender: "ann" },
    order: { name: "undrain", id: `o${String(bytes)}` },
  })),
);

/** Live, what comes with the answer to a question is fed before it; on replay, after it (docs/decisions/0014). */
it("does the same whether words come before the answer to a question or after it", () => {
  let ends = 0;
  const rounds = fc.array(
    fc.record({
      before: fc.array(said, { maxLength: 3 }),
      meanwhile: fc.array(said, { maxLength: 5 }),
      isBelieved: fc.boolean(),
    }),
    { minLength: 1, maxLength: 30 },
  );
  fc.assert(
    fc.property(rounds, (all) => {
      const [live, replay] = [flooded(), flooded()];
      let atMs = 10;
      for (const { before, meanwhile, isBelieved } of all) {
        atMs += 5;
        for (const fleet of [live, replay]) for (const each of before) fleet.feed(each, atMs);
        for (const fleet of [live, replay])
          if (fleetMachine.dueAtMs(fleet.state()) <= atMs) fleet.feed({ kind: "tick" }, atMs);
        for (let questions = 0; questions < 3; questions += 1) {
          const answer = answerTo(live, isBelieved);
          if (answer === undefined) break;
          expect(answerTo(replay, isBelieved)).toEqual(answer);
          const now = questions === 0 ? meanwhile : [];
          for (const each of now) live.feed(each, atMs);
          live.feed(answer, atMs);
          replay.feed(answer, atMs);
          for (const each of now) replay.feed(each, atMs);
        }
        expect(kinds(replay)).toEqual(kinds(live));
        expect(replay.state()).toEqual(live.state());
        if (live.state().phase !== "open") {
          ends += 1;
          return;
        }
      }
    }),
  );
  expect(ends).toBeGreaterThan(0);
});

/** Takes the question that is open. */
function answerTo(
  fleet: Played<FleetState, FleetEvent, FleetCommand>,
  isBelieved: boolean,
): FleetEvent | undefined {
  const [kind] = kinds(fleet).filter((each) => each === "check" || each.startsWith("decide"));
  if (kind === "check") {
    const { id, list } = fleet.take("check");
    const words = isBelieved ? [] : list.words.map((_, at) => at);
    return { kind: "checked", id, verdicts: { refused: [{ reason: UNSIGNED, words }] } };
  }
  if (kind === "decide") return { kind: "decided", id: fleet.take("decide").id, plan: planOf([]) };
  if (kind === "decide-next")
    return { kind: "decided", id: fleet.take("decide-next").id, plan: planOf([]), answer: "p" };
  return undefined;
}
