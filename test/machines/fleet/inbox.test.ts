/** @file The fleet's inbox without a server: junk is counted by sender and dropped, and what remains is folded in slices that a clock separates. */
import { describe, expect, it } from "vitest";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import {
  EMPTY_INBOX,
  isEmpty,
  keepEntries,
  keepUnknownSignal,
  takeSlice,
  type Inbox,
} from "../../../machines/fleet/inbox.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { FAIR_INBOX_RULES, NEWEST_RULES, OLDEST_RULES } from "../../../scheduling/ledger/ledger.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ask, fleetShape, planOf, readyLedger } from "../../scheduling/builders.ts";
import { play, type Played } from "../harness.ts";

const entry = (at: number) => ask({ job: `job-${at}` });
const batches = (count: number, entries = 1): Inbox => {
  let inbox = EMPTY_INBOX;
  for (let at = 0; at < count; at += 1)
    inbox = keepEntries(inbox, {
      batch: Array.from({ length: entries }, (_, part) => entry(at * entries + part)),
      bytes: 100,
    });
  return inbox;
};

describe("the inbox", () => {
  it("gives back all entries in their order, in slices of at most a thousand", () => {
    let inbox = batches(2_500);
    const taken: unknown[] = [];
    const sizes: number[] = [];
    while (!isEmpty(inbox)) {
      const { entries, rest } = takeSlice(inbox);
      taken.push(...entries);
      sizes.push(entries.length);
      // More may come between two slices.
      inbox = sizes.length === 1 ? keepEntries(rest, { batch: [entry(2_500)] }) : rest;
    }
    expect(taken).toEqual(Array.from({ length: 2_501 }, (_, at) => entry(at)));
    expect(sizes).toEqual([1_000, 1_000, 501]);
  });

  it("takes a batch whole, however many entries it has", () => {
    const { entries, rest } = takeSlice(batches(2, 1_500));
    expect([entries.length, rest.batches.size]).toEqual([1_500, 1]);
  });

  it("counts junk by sender and keeps the newest piece", () => {
    let inbox = EMPTY_INBOX;
    for (let at = 0; at < 5_000; at += 1)
      inbox = keepEntries(inbox, { batch: [{ kind: "junk", at }, null], sender: "mallory" });
    inbox = keepEntries(inbox, { batch: [entry(1), 7], sender: "alice" });
    inbox = keepUnknownSignal(inbox, { signal: "self-destruct", bytes: 3, sender: "mallory" });
    const { entries, junk } = takeSlice(inbox);
    expect(entries).toEqual([entry(1)]);
    expect(junk).toMatchObject([
      { sender: "mallory", times: 10_001, code: "EntryMalformed" },
      { sender: "alice", times: 1, entry: "7" },
    ]);
  });

  it("has a place for sixteen senders of junk, and counts the others together", () => {
    let inbox = EMPTY_INBOX;
    for (let at = 0; at < 10_000; at += 1)
      inbox = keepEntries(inbox, { batch: "junk", sender: `s${at}` });
    const { junk } = takeSlice(inbox);
    expect(junk.map(({ sender }) => sender)).toContain("others");
    expect(junk).toHaveLength(17);
    expect(junk.reduce((sum, { times }) => sum + times, 0)).toBe(10_000);
  });

  it("does not look at a signal of more than a mebibyte", () => {
    const { entries, junk } = takeSlice(
      keepEntries(EMPTY_INBOX, { batch: [entry(1)], bytes: 2 ** 20 + 1, sender: "mallory" }),
    );
    expect(entries).toEqual([]);
    expect(junk).toMatchObject([{ code: "EntryTooLarge", entry: "", sender: "mallory" }]);
  });
});

type Fleet = Played<FleetState, FleetEvent, FleetCommand>;
const READY = readyLedger(fleetShape([{ hosts: [{}] }]));
const started = (ledger = READY): Fleet => {
  const input = { name: "eu", ledger: packLedger(ledger) };
  const fleet = play(fleetMachine, { state: openFleet(input, 0, 0), commands: [] });
  fleet.feed({ kind: "tick" });
  return fleet;
};
const waiting = (fleet: Fleet): number => fleet.state().ledger.requests.size;

describe("a fleet with more in its inbox than a slice", () => {
  it("folds a slice a turn, decides in between, and takes the next turn by its clock", () => {
    const fleet = started();
    for (let at = 0; at < 2_500; at += 1) fleet.feed({ kind: "inbox", batch: [entry(at)] }, 10);
    expect(fleetMachine.dueAtMs(fleet.state())).toBe(0);
    for (const want of [1_000, 2_000]) {
      fleet.feed({ kind: "tick" }, 10);
      expect([waiting(fleet), fleet.state().isBacklogged]).toEqual([want, true]);
      fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) }, 10);
      expect(fleet.state().clock).toEqual({ atMs: 11, isAlone: true });
      expect(fleetMachine.dueAtMs(fleet.state())).toBe(11);
    }
    fleet.feed({ kind: "tick" }, 11);
    expect([waiting(fleet), fleet.state().isBacklogged]).toEqual([2_500, false]);
  });

  it("ends its run when all is folded, not before", () => {
    const fleet = started();
    for (let at = 0; at < 2_500; at += 1) fleet.feed({ kind: "inbox", batch: [entry(at)] });
    for (let turn = 0; turn < 2; turn += 1) {
      fleet.feed({ kind: "tick" });
      fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) });
    }
    fleet.feed({ kind: "tick" });
    fleet.tick();
    fleet.take("finish-handlers");
    // More than a slice comes before the run has ended: it goes on.
    for (let at = 0; at < 1_500; at += 1) fleet.feed({ kind: "inbox", batch: [entry(3_000 + at)] });
    fleet.feed({ kind: "handlers-finished" });
    expect([fleet.state().phase, waiting(fleet)]).toEqual(["open", 3_500]);
    fleet.tick();
    // It was a flood: the run decides before it looks again whether it can end.
    fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) });
    fleet.tick();
    fleet.tick();
    fleet.take("finish-handlers");
    fleet.feed({ kind: "handlers-finished" });
    expect([fleet.state().phase, waiting(fleet)]).toEqual(["over", 4_000]);
    expect(fleet.take("continue-as-new").input.rules).toBe(NEWEST_RULES);
  });

  it("folds all of it at once by the first rules", () => {
    const fleet = started({ ...READY, applyVersion: OLDEST_RULES });
    for (let at = 0; at < 2_500; at += 1) fleet.feed({ kind: "inbox", batch: [entry(at), "junk"] });
    fleet.feed({ kind: "unknown-signal", signal: "self-destruct", bytes: 3, sender: "mallory" });
    fleet.feed({ kind: "tick" });
    expect([waiting(fleet), fleet.state().isBacklogged]).toEqual([2_500, false]);
    expect(fleet.state().ledger.deadLetters).toHaveLength(50);
  });
});

it("10,000 signals of junk are a few dead letters, no cycle, and the end of the run", () => {
  const fleet = started();
  for (let at = 0; at < 10_000; at += 1)
    fleet.feed({ kind: "inbox", batch: [{ kind: "junk", at }], bytes: 100, sender: "mallory" });
  fleet.feed({ kind: "tick" });
  expect(fleet.state().ledger.deadLetters).toMatchObject([{ sender: "mallory", times: 10_000 }]);
  fleet.tick();
  expect(fleet.open.map(({ kind }) => kind)).toEqual(["record", "finish-handlers"]);
});

it("reads a sender with little in the next slice, with proof and without, and by former rules when all before it is read", () => {
  const turnsBefore = (state: FleetState): number => {
    const fleet = play(fleetMachine, { state, commands: [] });
    fleet.feed({ kind: "tick" });
    for (let at = 0; at < 6; at += 1) {
      const batch = Array.from({ length: 500 }, (_, part) => entry(at * 500 + part));
      fleet.feed({ kind: "inbox", batch, bytes: 190_000, sender: "flood" }, 10);
    }
    fleet.feed({ kind: "inbox", batch: [ask({ job: "late" })], bytes: 360, sender: "worker" }, 10);
    for (let turn = 0; turn < 20; turn += 1) {
      fleet.feed({ kind: "tick" }, 10 + turn);
      if (fleet.state().words?.question !== undefined)
        fleet.feed({ kind: "checked", id: fleet.take("check").id, verdicts: { refused: [] } }, 10);
      if (fleet.state().ledger.requests.has(jobId("late"))) return turn;
      fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) }, 10);
    }
    throw new Error("it is never read");
  };
  const opened = (rules: number, signed: { readonly areWordsSigned?: true }): FleetState =>
    openFleet(
      { name: "eu", ledger: packLedger({ ...READY, applyVersion: rules }), ...signed },
      0,
      0,
    );
  const former = FAIR_INBOX_RULES - 1;
  expect(turnsBefore(opened(FAIR_INBOX_RULES, {}))).toBe(0);
  expect(turnsBefore(opened(former, {}))).toBe(3);
  expect(turnsBefore(opened(FAIR_INBOX_RULES, { areWordsSigned: true }))).toBe(0);
  expect(turnsBefore(opened(former, { areWordsSigned: true }))).toBe(3);
});
