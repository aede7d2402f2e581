/** @file Words that pour into a fleet's run: what is read of them, when the run ends, and that a run and its replay, which may hear them in another order, do the same. */

import fc from "fast-check";
import { expect, it } from "vitest";
import type { Arrival, FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { openChain } from "../../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import { isDue } from "../../../machines/machine.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import type { FleetOrderName } from "../../../protocol/word-proof.ts";
import { formatProof, UNSIGNED } from "../../../protocol/word-proof.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { FLOODED_TURNS_RULES, SHORT_WORDS_RULES } from "../../../scheduling/ledger/upgrade.ts";
import { ask, fleetShape, planOf, readyLedger } from "../../scheduling/builders.ts";
import { play, type Played } from "../harness.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
type Fleet = Played<FleetState, FleetEvent, FleetCommand>;

/** Of the right form, by keys of nobody. */
const proofOf = (nonce: string): string =>
  formatProof({
    ...{ role: "user", atMs: 1_000, nonce },
    key: `ed25519:${"k".repeat(43)}`,
    signature: "s".repeat(86),
  });
const PROOF = proofOf("n".repeat(22));

interface Begun {
  readonly rules?: number;
  readonly startedAtMs?: number;
  /** Of its history. */
  readonly events?: number;
  readonly bytes?: number;
  /** A delivery is on its way. */
  readonly isBusy?: boolean;
}

/** Of two hosts. */
const ledgerBy = (rules: number): FleetInput["ledger"] =>
  packLedger({ ...readyLedger(fleetShape([{ hosts: [{}, {}] }])), applyVersion: rules });

const begin = (input: FleetInput, over: Partial<FleetState> = {}): Fleet =>
  play<FleetState, FleetEvent, FleetCommand>(fleetMachine, {
    state: { ...openChain(openFleet(input, over.startedAtMs ?? 0, 0), input, "run"), ...over },
    commands: [],
  });

function flooded({
  rules = SHORT_WORDS_RULES,
  startedAtMs = -2_000,
  events = 0,
  bytes = 0,
  isBusy = false,
}: Begun = {}): Fleet {
  const input = { name: "eu", ledger: ledgerBy(rules), areWordsSigned: true } as const;
  const { deliveries } = openFleet(input, startedAtMs, 0);
  const parcel = { grants: [], evictions: [], lobbies: [], held: [] };
  const underway = new Map(isBusy ? [[0, parcel]] : []);
  const fleet = begin(input, {
    startedAtMs,
    deliveries: { ...deliveries, underway },
    spent: { events, bytes },
  });
  fleet.feed({ kind: "tick" });
  return fleet;
}

const wordOf = (bytes: number, proof?: string, job = 0): Arrival => ({
  ...{ kind: "inbox", batch: [ask({ job: `j${String(job)}` })], bytes, sender: "mallory" },
  value: new Uint8Array(8),
  ...(proof !== undefined && { proof }),
});

const kinds = (fleet: Fleet): readonly string[] =>
  fleet.open.filter(({ kind }) => kind !== "record").map(({ kind }) => kind);

it.each([
  { rules: SHORT_WORDS_RULES, bytes: 257 * KIB, isAsked: true },
  { rules: SHORT_WORDS_RULES, bytes: 257 * KIB + 1, isAsked: false },
  { rules: FLOODED_TURNS_RULES, bytes: 257 * KIB + 1, isAsked: true },
  { rules: FLOODED_TURNS_RULES, bytes: MIB + 1, isAsked: false },
])("by rules $rules, asks for the proof of a word of $bytes bytes: $isAsked", (each) => {
  const fleet = flooded(each);
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
  fleet.feed(refusal(id, list.words));
  expect(fleet.state()).toMatchObject({ isEnding: true, isBacklogged: false });
});

it("ends while a delivery is on its way, once much was said", () => {
  const isEndingAt = (bytes: number): boolean => flooded({ isBusy: true, bytes }).state().isEnding;
  expect([isEndingAt(3 * MIB), isEndingAt(4 * MIB)]).toEqual([false, true]);
});

/** What comes with the answer live is looked at first there, and last on replay. */
it.each(Array.from({ length: 12 }, (_, at) => 1_774 + at))(
  "has no turn due after a plan that makes its run too long, begun with %i events",
  (events) => {
    const fleet = flooded({ isBusy: true, events });
    activate(fleet, [wordOf(40)], 10);
    for (let answer = answerOf(fleet, true); answer !== undefined; answer = answerOf(fleet, true)) {
      fleet.feed(answer, 10);
      expect(isDue(fleetMachine, fleet.state(), 10)).toBe(false);
    }
    expect(fleet.state().isEnding).toBe(fleet.state().spent.events >= 1_800);
  },
);

it("ends past 4 MiB with a large word that waits, of which all are asked", () => {
  const fleet = flooded();
  for (let at = 0; at < 17; at += 1) fleet.feed(wordOf(250 * KIB));
  for (const _ of [0, 1]) {
    fleet.tick();
    const { id, list } = fleet.take("check");
    fleet.feed(refusal(id, list.words));
  }
  expect(fleet.state()).toMatchObject({ isEnding: true });
  fleet.feed(wordOf(250 * KIB, PROOF));
  fleet.feed(wordOf(40, PROOF));
  fleet.tick();
  fleet.take("finish-handlers");
  fleet.feed({ kind: "handlers-finished" });
  const { input } = fleet.take("continue-as-new");
  expect(input.words).toMatchObject([{ bytes: 40 }]);
  expect(input).toMatchObject({ areWordsLost: true });
});

/** A run of 4 MiB that has said that it ends, and what it hands on. */
function handedOn(fleet: Fleet): FleetInput {
  fleet.tick();
  fleet.take("finish-handlers");
  fleet.feed({ kind: "handlers-finished" });
  return fleet.take("continue-as-new").input;
}

it("hands on large orders, which nobody gives again", () => {
  const fleet = flooded({ isBusy: true, bytes: 4 * MIB });
  const order = { name: "drain", id: "o1" } as const;
  fleet.feed({
    kind: "unproven-order",
    batch: { hosts: ["x".repeat(20 * KIB)] },
    bytes: 20 * KIB,
    order,
  });
  fleet.feed(wordOf(250 * KIB, PROOF));
  expect(handedOn(fleet)).toMatchObject({ words: [{ order }], areWordsLost: true });
});

it("waits for a repair, however heavy it is", () => {
  const fleet = flooded({ bytes: 3 * MIB });
  const choice = { key: "k", by: "ann", leases: [], requests: [], reservations: [] };
  fleet.feed({ kind: "order", order: { kind: "repair", ...choice } });
  fleet.tick();
  const { id } = fleet.take("repair");
  fleet.feed(wordOf(2 * MIB));
  fleet.tick();
  expect(fleet.state().isEnding).toBe(false);
  fleet.feed({ kind: "repaired", id, report: { denied: [], closed: [] } });
  fleet.tick();
  expect(fleet.state().isEnding).toBe(true);
});

it.each([3, 5])("plans in the turn in which it finds that it has to end, after %i MiB", (mib) => {
  const fleet = flooded();
  fleet.feed(wordOf(40));
  for (let at = 0; at < mib; at += 1) fleet.feed(wordOf(MIB));
  fleet.tick();
  fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } });
  fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) });
  expect(fleet.state().isEnding).toBe(true);
});

it("asks about large words once in ten seconds, over all its runs", () => {
  const next = (input: FleetInput): FleetInput => {
    const fleet = begin(input, { isEnding: true, spent: { events: 0, bytes: 4 * MIB } });
    fleet.feed(wordOf(250 * KIB, PROOF));
    return handedOn(fleet);
  };
  const ledger = ledgerBy(SHORT_WORDS_RULES);
  const first = next({ name: "eu", ledger, areWordsSigned: true });
  expect(first.recoverAtMs).toEqual([10_000]);
  expect(next(first).recoverAtMs).toEqual([10_000]);
});

it.each([
  { rules: SHORT_WORDS_RULES, quietUntilMs: 30_010 },
  { rules: FLOODED_TURNS_RULES, quietUntilMs: 0 },
])(
  "by rules $rules, a run that ends while all are asked after a loss leaves the next one quiet until $quietUntilMs",
  (each) => {
    const fleet = begin({
      ...{ name: "eu", ledger: ledgerBy(each.rules), areWordsSigned: true },
      ...{ isRecovering: true, recoverAtMs: [5_000] },
    });
    fleet.feed({ kind: "unknown-signal", signal: "x", bytes: 4 * MIB, sender: "mallory" }, 8);
    fleet.feed({ kind: "tick" }, 9);
    fleet.feed({ kind: "tick" }, 10);
    fleet.take("finish-handlers");
    fleet.feed({ kind: "handlers-finished" });
    const next = fleet.take("continue-as-new").input;
    expect(openFleet(next, 20, 20).recovery).toMatchObject({
      quietUntilMs: each.quietUntilMs,
      recoverAtMs: [5_000],
    });
  },
);

/** What somebody may say, and what else may come, while the answer to a question is on its way. */
const said: fc.Arbitrary<Arrival> = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(40, 100 * KIB, 250 * KIB, 257 * KIB + 1, MIB, 2 * MIB),
      fc.constantFrom(undefined, PROOF),
      fc.nat(50),
    )
    .map((each) => wordOf(...each)),
  fc.constantFrom(100, MIB).map((bytes): Arrival => {
    return { kind: "unknown-signal", signal: "x", bytes, sender: "mallory" };
  }),
  fc
    .tuple(fc.nat(3), fc.constantFrom("drain", "undrain", "configure"))
    .map(([number, name]): Arrival => ({
      ...{ kind: "unproven-order", bytes: 100, sender: "ann", value: new Uint8Array(8) },
      batch: { hosts: ["c0/h0"], reason: "tried" },
      proof: proofOf(`${String(number)}${"n".repeat(21)}`),
      order: { name: name as FleetOrderName, id: `${name}-${String(number)}` },
    })),
);

/** All that comes with one activation of the workflow is fed before a tick; `hasRung`: the clock. */
function activate(
  fleet: Fleet,
  events: readonly FleetEvent[],
  nowMs: number,
  hasRung = false,
): void {
  for (const event of events) fleet.feed(event, nowMs);
  for (let rung = hasRung; rung || isDue(fleetMachine, fleet.state(), nowMs); rung = false)
    fleet.feed({ kind: "tick" }, nowMs);
}

/** Live, what comes with the answer to a question is fed before it; on replay the answer has an activation of its own, after which nothing may be due (docs/decisions/0014). */
it("does the same whether words come before the answer to a question or after it", () => {
  let [ends, orders] = [0, 0];
  const begun = fc.record({
    startedAtMs: fc.constantFrom(-2_000, 0),
    events: fc.oneof(...[0, 1_480, 1_765].map((min) => fc.integer({ min, max: min + 20 }))),
    isBusy: fc.boolean(),
  });
  const rounds = fc.array(
    fc.record({
      before: fc.array(said, { maxLength: 3 }),
      meanwhile: fc.array(said, { maxLength: 5 }),
      isBelieved: fc.boolean(),
      isReported: fc.boolean(),
    }),
    { minLength: 1, maxLength: 30 },
  );
  fc.assert(
    fc.property(begun, rounds, (each, all) => {
      const [live, replay] = [flooded(each), flooded(each)];
      let atMs = 10;
      for (const { before, meanwhile, isBelieved, isReported } of all) {
        atMs += 5;
        for (const fleet of [live, replay]) {
          const hasRung = (fleet.state().clock?.atMs ?? Infinity) <= atMs;
          activate(fleet, [...before, ...(isReported ? reportsOf(fleet) : [])], atMs, hasRung);
        }
        for (let questions = 0; questions < 3; questions += 1) {
          const answer = answerOf(live, isBelieved);
          if (answer === undefined) break;
          expect(answerOf(replay, isBelieved)).toEqual(answer);
          const late = questions === 0 ? meanwhile : [];
          const isAlone = replay.state().deferred === undefined;
          replay.feed(answer, atMs);
          if (isAlone) expect(isDue(fleetMachine, replay.state(), atMs)).toBe(false);
          activate(live, [...late, answer], atMs);
          activate(replay, late, atMs);
        }
        expect(kinds(replay)).toEqual(kinds(live));
        expect(replay.state()).toEqual(live.state());
        orders += live.state().settledOrders.filter(({ code }) => code === undefined).length;
        if (live.state().phase !== "open") {
          ends += 1;
          return;
        }
      }
    }),
  );
  expect(ends).toBeGreaterThan(0);
  expect(orders).toBeGreaterThan(0);
});

const refusal = (id: number, words: readonly unknown[]): FleetEvent => ({
  ...{ kind: "checked", id },
  verdicts: { refused: [{ reason: UNSIGNED, words: words.map((_, at) => at) }] },
});

/** All deliveries arrive. */
const reportsOf = (fleet: Fleet): readonly FleetEvent[] =>
  fleet.open
    .splice(0)
    .flatMap((command) =>
      command.kind === "deliver"
        ? [{ kind: "delivered", id: command.id, report: { accepted: [], gone: [] } }]
        : (fleet.open.push(command), []),
    );

/** Takes the question that is open. */
function answerOf(fleet: Fleet, isBelieved: boolean): FleetEvent | undefined {
  const [kind] = kinds(fleet).filter((each) => each === "check" || each.startsWith("decide"));
  if (kind === "check") {
    const { id, list, ahead } = fleet.take("check");
    if (!isBelieved) return refusal(id, list.words);
    const verdicts = { refused: [] };
    if (ahead === undefined) return { kind: "checked", id, verdicts };
    const decision = { kind: "plan", plan: planOf([]), answer: "p" } as const;
    return { kind: "checked", id, verdicts, ahead: { hash: ahead.feed.hash, decision } };
  }
  if (kind === "decide") return { kind: "decided", id: fleet.take("decide").id, plan: planOf([]) };
  if (kind === "decide-next")
    return { kind: "decided", id: fleet.take("decide-next").id, plan: planOf([]), answer: "p" };
  return undefined;
}
