/** @file Words from outside: what cannot be true is refused whole and changes nothing but the dead letters; the first rules stay as they were. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apply, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { isEpochAhead } from "../../../../scheduling/ledger/apply/check-entry.ts";
import { OLDEST_RULES, type Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import { caseCount } from "../../../support/case-count.ts";
import { entries as drawnEntries } from "../../arbitraries.ts";
import { ask, end, fleetShape, gangRequest, gpus, hello, inbox } from "../../builders.ts";

const NOW = 1_795_000_000_000;
const DAY = 86_400_000;
const SHAPE = fleetShape([{ hosts: [{}, {}] }, {}]);
const times = { submittedAtMs: NOW, requestedAtMs: NOW };
const READY = inbox(emptyLedger(SHAPE), [hello(["c0/h0", "c0/h1", "c1/h0"])], NOW).ledger;
const leasedAt = (job: string, mask: number, from: Ledger): Ledger => {
  const asked = inbox(from, [ask({ job, gpus: 2, ...times })], NOW).ledger;
  const item = {
    kind: "grant",
    request: { jobId: gangRequest({ job }).jobId, runId: gangRequest({ job }).runId, seq: 1 },
    gpus: gpus(["c0/h0", mask]),
    reason: "test",
  } as const;
  const plan = { items: [item], pending: [], stats: { method: "decide", candidates: 0 } } as const;
  return apply(asked, { kind: "plan", plan, nowMs: NOW }).ledger;
};
/** Leases 1 and 2 are held; the next token is 3; job c waits. */
const BUSY = inbox(
  leasedAt("b", 12, leasedAt("a", 3, READY)),
  [ask({ job: "c", gpus: 8, ...times })],
  NOW,
).ledger;

const fact = {
  id: "lease-1",
  token: 1,
  jobId: "a",
  runId: "a-run1",
  seq: 1,
  class: "training",
  tenant: "t",
  gpus: gpus(["c0/h0", 3]),
  grantedAtMs: NOW,
  requestedAtMs: NOW,
};
const factOf = (number: number): object => ({ ...fact, id: `lease-${number}`, token: number });
const running = (number: number): object => ({
  host: "c0/h0",
  lease: `lease-${number}`,
  token: number,
  fact: factOf(number),
});
const said = (entry: unknown, from: Ledger = BUSY) => inbox(from, [entry], NOW);

describe("what cannot be true is refused and changes nothing", () => {
  const request = (change: object): object => ({
    kind: "request",
    request: { ...gangRequest({ job: "z", ...times }), ...change },
  });
  const gang = (change: object): object =>
    request({ gang: { gpus: 1, min: 1, timeoutMs: 1, ...change } });
  test.each([
    {
      name: "a highest token far above",
      code: "TokenUnknown",
      entry: hello(["c0/h0"], { highestToken: 2 ** 52 }),
    },
    {
      name: "a highest token that is next",
      code: "TokenUnknown",
      entry: hello(["c0/h0"], { highestToken: 3 }),
    },
    {
      name: "a run that was never granted",
      code: "TokenUnknown",
      entry: { ...hello(["c0/h0"]), running: [running(3)] },
    },
    {
      name: "a claim on a lease that was never granted",
      code: "TokenUnknown",
      entry: { kind: "assert", lease: factOf(2 ** 52) },
    },
    {
      name: "the end of a lease that was never granted",
      code: "TokenUnknown",
      entry: { ...end("a"), lease: "lease-4503599627370496" },
    },
    {
      name: "a sweep of such a lease",
      code: "TokenUnknown",
      entry: { kind: "vacated", lease: "lease-3", hosts: ["c0/h0"] },
    },
    {
      name: "a checkpoint of such a lease",
      code: "TokenUnknown",
      entry: {
        kind: "checkpointed",
        marks: [
          { lease: "lease-1", atMs: NOW },
          { lease: "lease-3", atMs: NOW },
        ],
      },
    },
    {
      name: "a lease id beyond counting",
      code: "EntryMalformed",
      entry: { kind: "vacated", lease: "lease-9999999999999998", hosts: [] },
    },
    { name: "a hello for hosts of nobody", code: "HostUnknown", entry: hello(["c7/h7", "c8/h8"]) },
    { name: "a hello for no host", code: "HostUnknown", entry: hello([]) },
    {
      name: "silence of a host of nobody",
      code: "HostUnknown",
      entry: { kind: "silence", hosts: ["c7/h7"], epoch: "e1" },
    },
    {
      name: "a farewell of a host of nobody",
      code: "HostUnknown",
      entry: { kind: "agent-deregistered", hosts: ["c7/h7"], epoch: "e1" },
    },
    {
      name: "an end that waits for a host of nobody",
      code: "HostUnknown",
      entry: end("a", { unconfirmed: ["c7/h7"] }),
    },
    {
      name: "a sweep on a host that the lease lacks",
      code: "HostUnknown",
      entry: { kind: "vacated", lease: "lease-1", hosts: ["c0/h1"] },
    },
    {
      name: "a claim on GPUs that the host lacks",
      code: "EntryMalformed",
      entry: {
        ...hello(["c0/h0"], { epoch: "e2" }),
        running: [{ ...running(1), lease: "lease-2", token: 2, fact: factOf(1) }],
      },
    },
    {
      name: "an epoch beyond all others",
      code: "EntryMalformed",
      entry: { ...hello(["c0/h0"], { epoch: "zzzz" }), terms: {} },
    },
    {
      name: "an epoch of the day after tomorrow",
      code: "EntryMalformed",
      entry: { ...hello(["c0/h0"], { epoch: `${(NOW + 2 * DAY).toString(36)}abcdef` }), terms: {} },
    },
    {
      name: "a run on a host that the hello does not name",
      code: "EntryMalformed",
      entry: { ...hello(["c0/h1"]), running: [running(1)] },
    },
    {
      name: "a checkpoint of the future",
      code: "EntryMalformed",
      entry: { kind: "checkpointed", marks: [{ lease: "lease-1", atMs: NOW + 2 * DAY }] },
    },
    {
      name: "a claim granted in the future",
      code: "EntryMalformed",
      entry: { kind: "assert", lease: { ...fact, grantedAtMs: 1e300 } },
    },
    {
      name: "a request of the future",
      code: "EntryMalformed",
      entry: request({ requestedAtMs: NOW + 2 * DAY }),
    },
    {
      name: "a request submitted in the year 1970",
      code: "EntryMalformed",
      entry: request({ submittedAtMs: 0 }),
    },
    {
      name: "a priority that outweighs all",
      code: "EntryMalformed",
      entry: request({ priority: 1e308 }),
    },
    {
      name: "a priority that is none",
      code: "EntryMalformed",
      entry: request({ priority: Number.NaN }),
    },
    {
      name: "a sequence number at the end of counting",
      code: "EntryMalformed",
      entry: request({ seq: Number.MAX_SAFE_INTEGER }),
    },
    {
      name: "a gang larger than any fleet",
      code: "EntryMalformed",
      entry: gang({ gpus: 2 ** 40 }),
    },
    {
      name: "a list of too many shapes",
      code: "EntryMalformed",
      entry: gang({ shapes: Array.from({ length: 1_001 }, () => 1) }),
    },
    {
      name: "a wait of a billion years",
      code: "EntryMalformed",
      entry: gang({ timeoutMs: 1e300 }),
    },
    {
      name: "a name of a thousand and one letters",
      code: "EntryMalformed",
      entry: request({ name: "n".repeat(1_001) }),
    },
    {
      name: "a patience of the end of time",
      code: "EntryMalformed",
      entry: request({ patienceMs: 1e308 }),
    },
    {
      name: "a publication that no model has come to",
      code: "EntryMalformed",
      entry: { kind: "model", cluster: "c0", version: "v", generation: 2 ** 53 - 1 },
    },
    {
      name: "a link valid for ever",
      code: "EntryMalformed",
      entry: {
        kind: "links",
        links: [{ from: "c0", to: "c1", checkedAtMs: NOW, validUntilMs: 1e300 }],
      },
    },
  ])("$name", ({ entry, code }) => {
    const { ledger, refusals, needsDecision, orphaned } = said(entry);
    expect(refusals.map((refusal) => refusal.code)).toEqual([code]);
    expect(ledger.deadLetters.at(-1)).toMatchObject({ code, atMs: NOW });
    expect({ ...ledger, deadLetters: [] }).toEqual({ ...BUSY, deadLetters: [] });
    expect([needsDecision, orphaned]).toEqual([false, []]);
  });
});

describe("what can be true is heard", () => {
  test.each([
    { name: "the highest token of all", entry: hello(["c0/h0"], { epoch: "e2", highestToken: 2 }) },
    {
      name: "a run that was granted",
      entry: { ...hello(["c0/h0"], { epoch: "e2" }), running: [running(1)] },
    },
    {
      name: "an agent whose clock is an hour ahead",
      entry: {
        ...hello(["c0/h0"], { epoch: `${(NOW + DAY / 24).toString(36)}abcdef` }),
        terms: {},
      },
    },
    {
      name: "a request of a job that waits for years",
      entry: ask({ job: "z", submittedAtMs: NOW - 3_000 * DAY, requestedAtMs: NOW }),
    },
    { name: "the end of a lease of an array", entry: { ...end("a"), lease: "lease-1" } },
  ])("$name", ({ entry }) => {
    const { ledger, refusals } = said(entry);
    expect(refusals).toEqual([]);
    expect(ledger).not.toBe(BUSY);
  });

  test("an agent of which the description lacks one host speaks for the others", () => {
    const { ledger, refusals } = said(hello(["c0/h0", "c7/h7"], { epoch: "e2" }));
    expect(refusals.map(({ code }) => code)).toEqual(["HostUnknown"]);
    expect([...ledger.hosts].map(([host, { agent }]) => [host, agent?.epoch])).toEqual([
      ["c0/h0", "e2"],
      ["c0/h1", "e1"],
      ["c1/h0", "e1"],
    ]);
  });

  test("a lease keeps the GPUs that a new description takes from its host", () => {
    const small = fleetShape([{ hosts: [{ gpus: 1 }, {}] }, {}]);
    const { ledger } = apply(BUSY, { kind: "fleet-changed", shape: small, nowMs: NOW });
    const entry = { ...hello(["c0/h0"], { epoch: "e2" }), running: [running(1)] };
    expect(said(entry, ledger).refusals).toEqual([]);
    const ended = inbox(ledger, [end("a")], NOW).ledger;
    expect(said(entry, ended).refusals).toMatchObject([{ code: "EntryMalformed" }]);
  });

  test("an agent is heard again on a host that a forged epoch had taken under the first rules", () => {
    const forged = { ...hello(["c0/h0"], { epoch: "zzzz" }), terms: {} };
    const old = said(forged, { ...BUSY, applyVersion: OLDEST_RULES }).ledger;
    const epoch = `${NOW.toString(36)}abcdef`;
    const honest = { ...hello(["c0/h0"], { epoch }), terms: {} };
    const epochs = [OLDEST_RULES, 2].map((applyVersion) => {
      const { hosts } = said(honest, { ...old, applyVersion }).ledger;
      return [...hosts.values()][0]?.agent?.epoch;
    });
    expect(epochs).toEqual(["zzzz", epoch]);
  });
});

test("the first rules hear all that they heard", () => {
  const old = { ...BUSY, applyVersion: OLDEST_RULES };
  expect(said(hello(["c0/h0"], { highestToken: 2 ** 52 }), old).ledger.nextToken).toBe(2 ** 52 + 1);
  const clamped = said({ kind: "vacated", lease: "lease-9007199254740991", hosts: [] }, old);
  expect(clamped.refusals).toEqual([]);
  expect(said({ kind: "assert", lease: factOf(9) }, old).orphaned).toHaveLength(1);
});

test("an epoch of an agent that can have started is not ahead", () => {
  expect(isEpochAhead(NOW.toString(36), NOW)).toBe(false);
  expect(isEpochAhead("0f3c6a52-1111-4222-8333-444455556666", 0)).toBe(false);
  expect(isEpochAhead("zzzzzzzz", NOW)).toBe(true);
});

/** A real entry with some of its values replaced by others. */
const mutated: fc.Arbitrary<unknown> = fc
  .record({
    entry: fc.oneof(
      drawnEntries(SHAPE),
      fc.constantFrom<unknown>(
        { kind: "assert", lease: fact },
        { kind: "assert", lease: factOf(5) },
        { ...hello(["c0/h0"]), running: [running(1), running(2)], terms: { fenceMs: 5 } },
        { kind: "checkpointed", marks: [{ lease: "lease-2", atMs: NOW }] },
        { kind: "silence", hosts: ["c0/h0"], epoch: "e1" },
        { kind: "model", cluster: "c0", version: "v1", generation: 3 },
        { kind: "links", links: [{ from: "c0", to: "c1", checkedAtMs: 1, validUntilMs: NOW }] },
      ),
    ),
    places: fc.array(fc.nat(40), { maxLength: 3 }),
    value: fc.oneof(
      fc.constantFrom<unknown>(
        2 ** 52,
        2 ** 53,
        2 ** 53 - 1,
        -1,
        -0,
        1e308,
        Number.NaN,
        3,
        4,
        "lease-3",
        "lease-2",
        "lease-9007199254740991",
        "lease-9007199254740993",
        "zzzz",
        "c7/h7",
        "",
        null,
        [],
        {},
        NOW,
      ),
      fc.jsonValue(),
      fc.string({ maxLength: 2_000 }),
    ),
  })
  .map(({ entry, places, value }) =>
    places.reduce<unknown>((made, at) => withValueAt(made, { at }, value), entry),
  );

/** Replaces the value at the place with this number, counted down over all places. */
function withValueAt(of: unknown, count: { at: number }, value: unknown): unknown {
  if (count.at < 0) return of;
  count.at -= 1;
  if (count.at < 0) return value;
  if (Array.isArray(of)) return of.map((each) => withValueAt(each, count, value));
  if (typeof of !== "object" || of === null) return of;
  return Object.fromEntries(
    Object.entries(of).map(([key, each]) => [key, withValueAt(each, count, value)]),
  );
}

describe("whatever the words are", () => {
  test("no token jumps, no lease appears that was not given, and the ledger keeps its laws", () => {
    fc.assert(
      fc.property(fc.array(mutated, { maxLength: 12 }), (words) => {
        const { ledger } = inbox(BUSY, words, NOW);
        expect(ledger.nextToken).toBe(BUSY.nextToken);
        for (const { token } of ledger.leases.values()) expect(token).toBeLessThan(3);
        expect(checkLedger(ledger)).toEqual([]);
        const packed = JSON.stringify(packLedger(ledger));
        expect(unpackLedger(JSON.parse(packed))).toEqual(ledger);
        // Grants after them are as they would have been.
        expect(leasedAt("later", 48, ledger).nextToken).toBeLessThanOrEqual(4);
      }),
      { numRuns: caseCount(400) },
    );
  });

  test("a word about one lease touches no other", () => {
    const about = fc.constantFrom("lease-1", "lease-2", "lease-3", "lease-4503599627370497");
    fc.assert(
      fc.property(about, fc.constantFrom("vacated", "end", "checkpointed"), (lease, kind) => {
        const entry =
          kind === "vacated"
            ? { kind, lease, hosts: ["c0/h0"] }
            : kind === "end"
              ? { ...end("a"), lease }
              : { kind, marks: [{ lease, atMs: NOW + 1 }] };
        const { ledger } = said(entry);
        for (const [id, before] of BUSY.leases)
          if (id !== lease) expect(ledger.leases.get(id)).toEqual(before);
      }),
    );
  });

  test("in a fleet that recovers no token jumps over the bound", () => {
    const lost = { ...BUSY, recovery: { tokensBelow: 100 } };
    fc.assert(
      fc.property(fc.array(mutated, { maxLength: 12 }), (words) => {
        const { ledger } = inbox(lost, words, NOW);
        expect(ledger.nextToken).toBeGreaterThanOrEqual(lost.nextToken);
        expect(ledger.nextToken).toBeLessThanOrEqual(100);
        expect(checkLedger(ledger)).toEqual([]);
      }),
      { numRuns: caseCount(400) },
    );
  });
});
