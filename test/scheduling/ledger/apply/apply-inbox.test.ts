/** @file What inbox entries change: requests, ends, agents and confirmations, in whatever order they come. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { leaseId, token } from "../../../../domain/values/ids.ts";
import { apply, checkLedger, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import type { InboxEntry } from "../../../../domain/lease/inbox-entry.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import {
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  hello,
  host,
  inbox,
  leased,
  readyLedger,
} from "../../builders.ts";
import { caseCount } from "../../../support/case-count.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const READY = readyLedger(SHAPE);
const lease1 = leaseId(token(1));
const vacated = (hosts: readonly string[]): InboxEntry => ({
  kind: "vacated",
  lease: lease1,
  hosts: hosts.map(host),
});
const delivered = (ledger: Ledger, accepted: boolean): Ledger =>
  apply(ledger, {
    kind: "delivered",
    accepted: accepted ? [lease1] : [],
    gone: accepted ? [] : [lease1],
    nowMs: 0,
  }).ledger;
const TWO_HOSTS = gpus(["c0/h0", 255], ["c0/h1", 255]);
/** Job a's first run holds both hosts. */
const HELD = delivered(leased(READY, { job: "a", gpus: 16 }, TWO_HOSTS), true);

const waiting = (ledger: Ledger): readonly string[] =>
  [...ledger.requests.values()].map(({ runId, seq }) => `${runId} ${seq}`);
const holding = (ledger: Ledger): readonly string[] =>
  [...ledger.leases.values()].map(({ id, state, vacatingHosts }) =>
    [id, state, ...(vacatingHosts ?? [])].join(" "),
  );

describe("requests", () => {
  const r1 = { job: "a", run: "r1", requestedAtMs: 10 };
  const r2 = { job: "a", run: "r2", requestedAtMs: 20 };
  test.each([
    { name: "the same request twice waits once", entries: [ask(r1), ask(r1)], want: ["r1 1"] },
    {
      name: "a higher seq takes the place",
      entries: [ask(r1), ask({ ...r1, seq: 2 })],
      want: ["r1 2"],
    },
    {
      name: "a late lower seq is ignored",
      entries: [ask({ ...r1, seq: 2 }), ask(r1)],
      want: ["r1 2"],
    },
    {
      name: "a newer run takes the place",
      entries: [ask({ ...r1, seq: 5 }), ask(r2)],
      want: ["r2 1"],
    },
    {
      name: "an older run's late request is ignored",
      entries: [ask(r2), ask({ ...r1, seq: 5 })],
      want: ["r2 1"],
    },
    {
      name: "runs that asked at the same instant end alike in either order",
      entries: [
        ask({ ...r1, requestedAtMs: 20 }),
        ask(r2),
        ask({ ...r1, requestedAtMs: 20, seq: 2 }),
      ],
      want: ["r2 1"],
    },
    {
      name: "two jobs wait side by side",
      entries: [ask(r1), ask({ job: "b" })],
      want: ["r1 1", "b-run1 1"],
    },
    { name: "an end drops the request", entries: [ask(r1), end("a", { run: "r1" })], want: [] },
    {
      name: "an end of an earlier seq drops nothing",
      entries: [ask({ ...r1, seq: 2 }), end("a", { run: "r1" })],
      want: ["r1 2"],
    },
    {
      name: "an end of another run drops nothing",
      entries: [ask(r2), end("a", { run: "r1", seq: 9 })],
      want: ["r2 1"],
    },
  ])("$name", ({ entries, want }) => {
    const { ledger } = inbox(READY, entries);
    expect(waiting(ledger)).toEqual(want);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("what repeats changes nothing at all: the same ledger comes back", () => {
    const { ledger } = inbox(READY, [ask(r1)]);
    const again = inbox(ledger, [ask(r1), end("b")]);
    expect(again.ledger).toBe(ledger);
    expect(again.needsDecision).toBe(false);
  });

  test("a copy of a request that was granted is ignored, the next one of the run waits beside its lease", () => {
    expect(inbox(HELD, [ask({ job: "a", gpus: 16 })]).ledger).toBe(HELD);
    const { ledger } = inbox(HELD, [ask({ job: "a", seq: 2 })]);
    expect(waiting(ledger)).toEqual(["a-run1 2"]);
    expect(holding(ledger)).toEqual(["lease-1 held"]);
  });

  test("a newer run's request makes the older run's lease vacating on all its hosts", () => {
    const { ledger } = inbox(HELD, [ask({ job: "a", run: "r2", requestedAtMs: 5 })]);
    expect(waiting(ledger)).toEqual(["r2 1"]);
    expect(holding(ledger)).toEqual(["lease-1 vacating c0/h0 c0/h1"]);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("an older run's request does nothing to a newer run's lease", () => {
    const held = leased(READY, { job: "a", run: "r2", requestedAtMs: 20 }, gpus(["c0/h0", 1]));
    expect(inbox(held, [ask({ job: "a", run: "r1", requestedAtMs: 10, seq: 7 })]).ledger).toBe(
      held,
    );
  });

  test("junk beside the known fields stays out of the ledger", () => {
    const junk = {
      ...gangRequest(r1),
      secret: "x".repeat(100),
      gang: { gpus: 2, min: 1, timeoutMs: 0, junk: 1 },
    };
    const request = inbox(READY, [{ kind: "request", request: junk }]).ledger.requests.get(
      gangRequest(r1).jobId,
    );
    expect(request).toEqual({
      ...gangRequest(r1),
      gang: { gpus: 2, min: 1, timeoutMs: 0 },
      arrival: 1,
    });
  });
});

describe("ends and confirmations", () => {
  test.each([
    { name: "an end that all hosts confirmed releases", entries: [end("a")], want: [] },
    {
      name: "unconfirmed hosts stay taken",
      entries: [end("a", { unconfirmed: ["c0/h1"] })],
      want: ["lease-1 vacating c0/h1"],
    },
    {
      name: "an end that names a host of nobody is refused",
      entries: [end("a", { unconfirmed: ["c9/h9"] })],
      want: ["lease-1 held"],
    },
    {
      name: "a repeated end that knows more releases the rest",
      entries: [
        end("a", { unconfirmed: ["c0/h0", "c0/h1"] }),
        end("a", { unconfirmed: ["c0/h0"] }),
      ],
      want: ["lease-1 vacating c0/h0"],
    },
    {
      name: "a late copy of an end that knew less takes nothing back",
      entries: [
        end("a", { unconfirmed: ["c0/h0"] }),
        end("a", { unconfirmed: ["c0/h0", "c0/h1"] }),
      ],
      want: ["lease-1 vacating c0/h0"],
    },
    {
      name: "a host's word alone ends nothing",
      entries: [vacated(["c0/h0", "c0/h1"])],
      want: ["lease-1 held"],
    },
    {
      name: "a host's word that came before the end counts",
      entries: [vacated(["c0/h1"]), end("a", { unconfirmed: ["c0/h0", "c0/h1"] })],
      want: ["lease-1 vacating c0/h0"],
    },
    {
      name: "the last confirmation releases",
      entries: [
        end("a", { unconfirmed: ["c0/h0", "c0/h1"] }),
        vacated(["c0/h1"]),
        vacated(["c0/h0"]),
      ],
      want: [],
    },
    {
      name: "an end of an earlier seq releases nothing",
      entries: [end("a", { seq: 0 })],
      want: ["lease-1 held"],
    },
    {
      name: "another run's end releases nothing",
      entries: [end("a", { run: "r9", seq: 9 })],
      want: ["lease-1 held"],
    },
  ])("$name", ({ entries, want }) => {
    const { ledger } = inbox(HELD, entries);
    expect(holding(ledger)).toEqual(want);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("facts about one lease end alike in every order", () => {
    const facts = [
      end("a", { unconfirmed: ["c0/h0", "c0/h1"] }),
      end("a", { unconfirmed: ["c0/h0"] }),
      vacated(["c0/h0"]),
      vacated(["c0/h1"]),
      ask({ job: "a", gpus: 16 }),
    ];
    fc.assert(
      fc.property(fc.shuffledSubarray(facts, { minLength: facts.length }), (order) => {
        const { ledger } = inbox(HELD, order);
        expect(ledger.leases.size).toBe(0);
      }),
    );
  });
});

describe("agents", () => {
  const open = { hosts: [host("c0/h0"), host("c0/h1")] };
  const VACATING = inbox(HELD, [end("a", { unconfirmed: ["c0/h0", "c0/h1"] })]).ledger;
  const epochs = (ledger: Ledger): readonly (string | undefined)[] =>
    open.hosts.map((id) => ledger.hosts.get(id)?.agent?.epoch);

  test.each([
    {
      name: "a bye of the epoch clears the address",
      entries: [{ kind: "agent-deregistered", ...open, epoch: "e1" }],
      want: [undefined, undefined],
    },
    {
      name: "an older epoch's bye after a newer hello changes nothing",
      entries: [
        hello(["c0/h0"], { epoch: "e2" }),
        { kind: "agent-deregistered", ...open, epoch: "e1" },
      ],
      want: ["e2", undefined],
    },
  ])("$name", ({ entries, want }) => {
    expect(epochs(inbox(READY, entries).ledger)).toEqual(want);
  });

  test("a hello to a fleet that recovers raises the next token above the highest that was ever seen, and never lowers it", () => {
    const lost = { ...READY, recovery: { tokensBelow: 50 } };
    const raised = inbox(lost, [hello(["c0/h0"], { highestToken: 41 })]).ledger;
    expect(raised.nextToken).toBe(42);
    expect(inbox(raised, [hello(["c0/h0"], { highestToken: 7 })]).ledger).toBe(raised);
  });

  test.each([
    {
      name: "what a new agent does not run has stopped",
      entry: hello(["c0/h0"], { epoch: "e2" }),
      want: ["lease-1 vacating c0/h1"],
    },
    {
      name: "what it runs has not",
      entry: hello(["c0/h0", "c0/h1"], { epoch: "e2", running: [["c0/h0", 1]] }),
      want: ["lease-1 vacating c0/h0"],
    },
    {
      name: "a repeated hello proves nothing",
      entry: hello(["c0/h0", "c0/h1"]),
      want: ["lease-1 vacating c0/h0 c0/h1"],
    },
  ])("$name", ({ entry, want }) => {
    expect(holding(inbox(VACATING, [entry]).ledger)).toEqual(want);
  });

  test("a new agent's silence about a lease that is held confirms nothing: it may be asked to adopt it", () => {
    const { ledger } = inbox(HELD, [
      hello(["c0/h0"], { epoch: "e2" }),
      end("a", { unconfirmed: ["c0/h0"] }),
    ]);
    expect(holding(ledger)).toEqual(["lease-1 vacating c0/h0"]);
  });

  test("hosts that the fleet lacks are refused, the others of the same hello are not", () => {
    const { ledger, refusals } = inbox(emptyLedger(SHAPE), [hello(["c0/h0", "c7/h7"])]);
    expect(epochs(ledger)).toEqual(["e1", undefined]);
    expect(refusals.map(({ code }) => code)).toEqual(["HostUnknown"]);
    expect(ledger.deadLetters).toMatchObject([
      { code: "HostUnknown", entry: expect.stringContaining("c7/h7") },
    ]);
  });
});

describe("deliveries", () => {
  const GRANTED = leased(READY, { job: "a", gpus: 16 }, TWO_HOSTS);
  test("an accepted grant is held and leaves the outbox; saying it again changes nothing", () => {
    const held = delivered(GRANTED, true);
    expect(holding(held)).toEqual(["lease-1 held"]);
    expect(held.outbox.size).toBe(0);
    expect(delivered(held, true)).toBe(held);
  });

  test("a grant whose job is gone waits for its hosts, for another delivery may have brought it there; under rules 7 it was released at once", () => {
    const gone = delivered(GRANTED, false);
    expect(holding(gone)).toEqual(["lease-1 vacating c0/h0 c0/h1"]);
    expect(gone.outbox.size).toBe(0);
    expect(inbox(delivered(gone, true), [vacated(["c0/h0", "c0/h1"])]).ledger.leases.size).toBe(0);
    expect(holding(delivered({ ...GRANTED, applyVersion: 7 }, false))).toEqual([]);
  });

  test("a lease that was held before its job was found gone waits for its hosts", () => {
    expect(holding(delivered(HELD, false))).toEqual(["lease-1 vacating c0/h0 c0/h1"]);
  });
});

describe("entries that cannot be understood", () => {
  test.each([
    { name: "nothing", entry: undefined, want: "EntryMalformed" },
    { name: "a text", entry: "request", want: "EntryMalformed" },
    { name: "an unknown kind", entry: { kind: "evict" }, want: "EntryMalformed" },
    {
      name: "a request without its fields",
      entry: { kind: "request", request: {} },
      want: "EntryMalformed",
    },
    { name: "a gang of no GPUs", entry: ask({ gpus: 0 }), want: "EntryMalformed" },
    {
      name: "a gang that grows",
      entry: ask({ gpus: 2, gang: { min: 3 } }),
      want: "EntryMalformed",
    },
    {
      name: "an id with white space",
      entry: { ...end("a"), jobId: "a b" },
      want: "EntryMalformed",
    },
    {
      name: "a token beyond counting",
      entry: hello(["c0/h0"], { highestToken: 2 ** 53 }),
      want: "EntryMalformed",
    },
    {
      name: "a lease with another name",
      entry: { kind: "vacated", lease: "lease-01", hosts: [] },
      want: "EntryMalformed",
    },
    {
      name: "a request of more than 16 KiB",
      entry: ask({ name: "x".repeat(16_400) }),
      want: "EntryTooLarge",
    },
  ])("$name is a dead letter", ({ entry, want }) => {
    const { ledger, refusals, needsDecision } = inbox(READY, [entry], 77);
    expect(refusals.map(({ code }) => code)).toEqual([want]);
    expect(ledger.deadLetters).toMatchObject([{ atMs: 77, code: want }]);
    expect(ledger.deadLetters[0]?.entry.length).toBeLessThanOrEqual(500);
    expect({ ...ledger, deadLetters: [] }).toEqual({ ...READY, deadLetters: [] });
    expect(needsDecision).toBe(false);
  });

  test("no value at all makes apply throw, and every refused entry is counted in at most 50 dead letters", () => {
    fc.assert(
      fc.property(
        fc.array(fc.anything({ withBigInt: true, withNullPrototype: true }), { maxLength: 80 }),
        (entries) => {
          const { ledger } = inbox(READY, entries);
          const counts = ledger.deadLetters.map(({ times = 1 }) => times);
          expect(counts.reduce((sum, times) => sum + times, 0)).toBe(entries.length);
          expect(counts.length).toBeLessThanOrEqual(50);
          expect(checkLedger(ledger)).toEqual([]);
        },
      ),
      { numRuns: caseCount(60) },
    );
  });

  test("a wrong value in any one field of a request is found", () => {
    const request = gangRequest({
      gpus: 2,
      timeLimitMs: gangRequest().gang.timeoutMs,
      avoidHosts: [host("c0/h1")],
    });
    for (const field of Object.keys(request)) {
      for (const value of [Number.NaN, "", { toString: 1 }, [[]]]) {
        const { refusals } = inbox(READY, [
          { kind: "request", request: { ...request, [field]: value } },
        ]);
        const isFine = field === "name" && value === "";
        expect([field, refusals.map(({ code }) => code)]).toEqual([
          field,
          isFine ? [] : ["EntryMalformed"],
        ]);
      }
    }
  });
});
