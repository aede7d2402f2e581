/** @file Each share of tenants keeps its bytes, whatever the others send and whenever; what is guaranteed to nobody is everybody's. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JOB_CLASSES } from "../../../../domain/job/job.ts";
import { DEFAULT_POLICY, type FleetShape } from "../../../../domain/fleet/fleet.ts";
import { clusterId, jobId, tenantId } from "../../../../domain/values/ids.ts";
import { apply, checkLedger, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { beginTransaction } from "../../../../scheduling/ledger/apply/transaction.ts";
import {
  mostRequestBytes,
  openSizeIn,
} from "../../../../scheduling/ledger/apply/transaction-size.ts";
import { packLedger } from "../../../../scheduling/ledger/codec.ts";
import {
  FEW_CALLED_RULES,
  NEWEST_RULES,
  type Ledger,
} from "../../../../scheduling/ledger/ledger.ts";
import {
  countBytes,
  openByteShares,
  unusedBytes,
} from "../../../../scheduling/ledger/rules/byte-shares.ts";
import { caseCount } from "../../../support/case-count.ts";
import { ask, end, fleetShape, gangRequest, inbox } from "../../builders.ts";

const NAMED = [
  { id: "a", quota: {} },
  { id: "b", quota: {} },
];

/** A description as long as that of some thousand hosts leaves some 150 KB for requests. */
const shapeWith = (tenants: typeof NAMED, padding = 0): FleetShape => {
  const shape = fleetShape([{}], tenants);
  const clusters = shape.clusters.map((cluster) => ({ ...cluster, site: "x".repeat(padding) }));
  return { ...shape, clusters, policy: DEFAULT_POLICY };
};
const SMALL = shapeWith(NAMED, 1_550_000);

const hexOf = (number: number, digits: number): string =>
  ((number * 2_654_435_761) >>> 0).toString(16).padStart(8, "0").repeat(4).slice(0, digits);
const uuidOf = (number: number): string =>
  `${hexOf(number, 8)}-${hexOf(number + 1, 4)}-4${hexOf(number + 2, 3)}-a${hexOf(number + 3, 3)}-${hexOf(number + 4, 12)}`;

const times = <T>(count: number, of: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => of(at));

type Spec = NonNullable<Parameters<typeof ask>[0]>;

/** No two alike in their constraints: about so many bytes each. */
const large = (tenant: string, at: number, bytes: number): Spec => ({
  job: `${tenant}-large-${at}`,
  run: uuidOf(at),
  tenant,
  constraints: {
    clusters: times(Math.ceil(bytes / 900), (part) =>
      clusterId(`${at}-${part}-`.padEnd(Math.max(8, Math.min(bytes - 150, 850)), "c")),
    ),
  },
});

const ordinary = (tenant: string, at: number): Spec => ({
  job: `${tenant}-train-${hexOf(at, 12)}`,
  run: uuidOf(at),
  name: `${tenant}-train`,
  tenant,
  class: JOB_CLASSES[at % 3] ?? "training",
  gpus: 1 + (at % 4),
  submittedAtMs: 137 * at,
  requestedAtMs: 137 * at,
});

const told = (ledger: Ledger): Ledger =>
  apply(ledger, {
    kind: "lobbies-told",
    rows: [...(ledger.intake?.news.values() ?? [])],
    credits: [],
    nowMs: 0,
  }).ledger;

const bytesFor = (shape: FleetShape): number => {
  const transaction = beginTransaction(emptyLedger(shape));
  openSizeIn(transaction);
  return mostRequestBytes(transaction);
};

/** So many ordinary requests a share's guaranteed bytes hold. */
function guaranteedCount(shape: FleetShape, tenant: string): number {
  const shares = openByteShares({ shape, applyVersion: NEWEST_RULES }, bytesFor(shape), []);
  let count = 0;
  for (; unusedBytes(shares, tenantId(tenant)) > 0; count += 1)
    countBytes(shares, {
      after: { ...gangRequest(ordinary(tenant, count)), arrival: count },
    });
  return count - 1;
}

const insideOf = ({ requests }: Ledger, tenant: string): number =>
  [...requests.values()].filter((request) => request.tenant === tenant).length;

function sent(ledger: Ledger, specs: readonly Spec[]): Ledger {
  let now = ledger;
  for (let at = 0; at < specs.length; at += 200)
    now = told(inbox(now, specs.slice(at, at + 200).map(ask)).ledger);
  return now;
}

const waves = fc.array(
  fc.record({
    tenant: fc.constantFrom("a", "a", "x"),
    bytes: fc.constantFrom(100, 256, 700, 1_024, 2_000, 5_000, 8_192),
    count: fc.constantFrom(50, 400, 1_500),
  }),
  { minLength: 1, maxLength: 4 },
);

describe("shares of bytes", () => {
  it("keep room for the ordinary requests of others, whatever floods came first or in between", () => {
    const want = guaranteedCount(SMALL, "b");
    expect(want).toBeGreaterThan(30);
    fc.assert(
      fc.property(waves, fc.nat(want), (flood, early) => {
        const mine = times(want, (at) => ordinary("b", at));
        let ledger = sent(emptyLedger(SMALL), mine.slice(0, early));
        flood.forEach(({ tenant, bytes, count }, wave) => {
          const specs = times(count, (at) => large(tenant, 10_000 * wave + at, bytes));
          ledger = sent(ledger, specs);
          expect(ledger.deadLetters).toEqual([]);
        });
        ledger = sent(ledger, mine.slice(early));
        expect(insideOf(ledger, "b")).toBe(want);
        if (flood.some(({ tenant }) => tenant === "x")) return;
        const strangers = times(want, (at) => ordinary("c", at));
        expect(insideOf(sent(ledger, strangers), "c")).toBe(want);
      }),
      { numRuns: caseCount(25) },
    );
  });

  it("are the same kept from event to event and built afresh", () => {
    const written = (ledger: Ledger): string => JSON.stringify(packLedger(ledger));
    fc.assert(
      fc.property(waves, (flood) => {
        let ledger = emptyLedger(SMALL);
        flood.forEach(({ tenant, bytes, count }, wave) => {
          for (let from = 0; from < Math.min(count, 600); from += 150) {
            const id = (at: number) => 10_000 * wave + from + at;
            const entries = [
              ...times(150, (at) => ask(large(tenant, id(at), bytes))),
              ...times(3, (at) => ask(ordinary("b", id(at)))),
              ...[...ledger.requests.values()]
                .filter((_, place) => place % 7 === 0)
                .map(({ jobId: job, runId: run }) => end(job, { run })),
            ];
            const afresh = inbox({ ...ledger }, entries);
            const kept = inbox(ledger, entries);
            expect(written(kept.ledger)).toBe(written(afresh.ledger));
            expect(kept.outside).toEqual(afresh.outside);
            ledger = told(kept.ledger);
          }
        });
      }),
      { numRuns: caseCount(10) },
    );
  });

  it("hold some hundred ordinary requests of each of three shares beside any flood of one tenant", () => {
    const shape = shapeWith(NAMED);
    const want = guaranteedCount(shape, "b");
    expect(want).toBeGreaterThanOrEqual(500);
    let ledger = sent(
      emptyLedger(shape),
      times(8_000, (at) => large("a", at, 256)),
    );
    const flooded = ledger.requests.size;
    // No lobby has heard of the last ones, and those of the others are in the same word.
    const more = times(498, (at) => ask(large("a", 10_000 + at, 8_192)));
    const mixed = inbox(ledger, [...more, ...times(9, (at) => ask(ordinary("b", want + at)))]);
    expect(mixed.ledger.requests.size).toBe(flooded + 9);
    ledger = inbox(
      mixed.ledger,
      times(9, (at) => end(`b-train-${hexOf(want + at, 12)}`, { run: uuidOf(want + at) })),
    ).ledger;
    expect(ledger.intake?.news.size).toBeGreaterThan(450);
    for (const tenant of ["b", "c"]) {
      const mine = times(want, (at) => ask(ordinary(tenant, at)));
      ledger = inbox(ledger, mine).ledger;
      expect(insideOf(ledger, tenant)).toBe(want);
    }
  });

  it.each([
    ["all of it, but for the first few of others, where nobody is named", [], 0.98],
    ["five sixths where others are", NAMED, 5 / 6],
  ] as const)("leave one tenant alone %s", (_, tenants, wantPart) => {
    const shape = shapeWith([...tenants]);
    const flood = times(1_900, (at) => large("a", at, 1_000));
    const ledger = sent(emptyLedger(shape), flood);
    const alone = openByteShares({ shape: { tenants: [] }, applyVersion: NEWEST_RULES }, 1e9, []);
    const free = unusedBytes(alone, tenantId("a"));
    for (const after of ledger.requests.values()) countBytes(alone, { after });
    const used = free - unusedBytes(alone, tenantId("a"));
    // Those outside have rows in the ledger, too.
    expect(used).toBeGreaterThan(wantPart * bytesFor(shape) - 8_192);
  });

  it("let in the first few of a tenant at once where nobody is named and a flood of another fills the fleet", () => {
    const shape = shapeWith([]);
    const flooded = sent(
      emptyLedger(shape),
      times(400, (at) => large("a", at, 7_000)),
    );
    expect(flooded.intake?.lobbies.has(tenantId("a"))).toBe(true);
    const { ledger } = inbox(
      flooded,
      times(200, (at) => ask(ordinary("b", at))),
    );
    // The first few, and those for which the last large request left room.
    expect(insideOf(ledger, "b")).toBeGreaterThanOrEqual(16);
    expect(insideOf(ledger, "b")).toBeLessThan(16 + 7_000 / 100);
    // Whoever has many inside does not use what is kept for others.
    const more = inbox(
      ledger,
      times(5, (at) => ask(ordinary("a", 5_000 + at))),
    );
    expect(insideOf(more.ledger, "a")).toBe(insideOf(flooded, "a"));
    expect(checkLedger(more.ledger)).toEqual([]);
  });

  it.each([
    ["let in at once", FEW_CALLED_RULES, 16, 16],
    ["kept out before", FEW_CALLED_RULES - 1, 0, 0],
  ])("have the first few of a tenant %s while the rows of a flood are on their way", (...row) => {
    const [, applyVersion, atLeast, called] = row;
    let ledger: Ledger = { ...emptyLedger(shapeWith([], 1_500_000)), applyVersion };
    ledger = sent(
      ledger,
      times(2_500, (at) => ordinary("a", at)),
    );
    ledger = inbox(
      ledger,
      times(500, (at) => ask(ordinary("a", 5_000 + at))),
    ).ledger;
    expect(ledger.intake?.news.size).toBeGreaterThanOrEqual(100);
    const few = times(16, (at) => ask(ordinary("b", at)));
    expect(insideOf(inbox(ledger, few).ledger, "b")).toBeGreaterThanOrEqual(atLeast);
    // Those whose rows the lobbies have, too.
    const waiting = { inference: 0, interactive: 0, training: 40 };
    const report = { kind: "lobby", tenant: "b", report: 1, waiting, returned: [] };
    const { intake } = inbox(told(ledger), [report]).ledger;
    const creditsOf = (tenant: string) => [
      ...(intake?.lobbies.get(tenantId(tenant))?.credits.keys() ?? []),
    ];
    expect([creditsOf("a"), creditsOf("b")]).toEqual([
      [],
      expect.objectContaining({ length: called }),
    ]);
    let inside = told(ledger);
    inside = inbox(inside, [report]).ledger;
    const calls = creditsOf("b").map((credit) =>
      ask({ ...ordinary("b", 100 + credit), class: "training", credit }),
    );
    expect(insideOf(inbox(inside, calls).ledger, "b")).toBe(called);
  });

  it.each([
    ["100", 0, 240, 10],
    ["1,000", 1_000, 15, 110],
    ["8,000", 8_000, 4, 110],
  ])("give credits on guaranteed bytes, and call in few jobs in vain: of %s bytes", (...row) => {
    const [, bytes, wantInside, wantRefused] = row;
    let ledger = sent(
      emptyLedger(shapeWith(NAMED, 900_000)),
      times(900, (at) => large("a", at, 2_000)),
    );
    const reports = ["a", "b"].map((tenant) => ({
      kind: "lobby",
      tenant,
      report: 1,
      waiting: { inference: 0, interactive: 0, training: 900 },
      returned: [],
    }));
    ledger = inbox(ledger, reports).ledger;
    const creditsOf = (tenant: string): readonly number[] => [
      ...(ledger.intake?.lobbies.get(tenantId(tenant))?.credits.keys() ?? []),
    ];
    let refused = 0;
    let rounds = 0;
    for (; creditsOf("b").length > 0 && rounds < 100; rounds += 1) {
      expect(creditsOf("a")).toEqual([]);
      const specs = creditsOf("b").map((credit) => {
        const at = 1_000 * rounds + credit;
        const { class: _drawn, ...spec } = bytes === 0 ? ordinary("b", at) : large("b", at, bytes);
        return { ...spec, credit };
      });
      ledger = told(inbox(ledger, specs.map(ask)).ledger);
      refused += specs.filter(({ job = "" }) => !ledger.requests.has(jobId(job))).length;
    }
    expect(insideOf(ledger, "b")).toBeGreaterThanOrEqual(wantInside);
    expect(rounds).toBeLessThan(20);
    expect(refused).toBeLessThan(wantRefused);
  });
});
