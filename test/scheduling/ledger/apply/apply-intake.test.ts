/** @file Which requests wait inside, which outside, and that none is both or neither. */
import { describe, expect, it } from "vitest";
import { DEFAULT_POLICY, type FleetShape } from "../../../../domain/fleet/fleet.ts";
import type { FirstByClass } from "../../../../domain/lease/lobby.ts";
import { roundAfter } from "../../../../domain/lease/lobby-order.ts";
import { clusterId, jobId, runId, tenantId } from "../../../../domain/values/ids.ts";
import { apply, checkLedger, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import { FIRST_ERA } from "../../../../scheduling/ledger/intake.ts";
import {
  NEWEST_RULES,
  OLDEST_RULES,
  type Ledger,
  type LedgerRecovery,
} from "../../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gpus,
  grantItem,
  hello,
  inbox,
  planOf,
} from "../../builders.ts";

/** 24 places: a class of each of three shares has one of its own, and one training flood may have 16. */
const shape: FleetShape = {
  ...fleetShape(
    [{ hosts: [{ gpus: 8 }] }],
    [
      { id: "a", quota: {} },
      { id: "b", quota: {} },
    ],
  ),
  policy: { ...DEFAULT_POLICY, places: 24 },
};
const ready = inbox(emptyLedger(shape), [hello(["c0/h0"])]).ledger;

const flood = (count: number, spec: Parameters<typeof ask>[0] = {}, from = 0): unknown[] =>
  Array.from({ length: count }, (_, at) =>
    ask({ job: `${spec.tenant ?? "t"}-${from + at}`, submittedAtMs: at, ...spec }),
  );

const outsideOf = ({ intake }: Ledger): readonly string[] => [...(intake?.news.keys() ?? [])];

const sound = (ledger: Ledger): Ledger => {
  expect(checkLedger(ledger)).toEqual([]);
  const packed: unknown = JSON.parse(JSON.stringify(packLedger(ledger)));
  expect(unpackLedger(packed as ReturnType<typeof packLedger>)).toEqual(ledger);
  return ledger;
};

const told = (ledger: Ledger, nowMs = 0): Ledger =>
  apply(ledger, {
    kind: "lobbies-told",
    rows: [...(ledger.intake?.news.values() ?? [])],
    credits: [...(ledger.intake?.lobbies.values() ?? [])].flatMap(({ credits }) => [
      ...credits.keys(),
    ]),
    nowMs,
  }).ledger;

const creditsOf = (ledger: Ledger, tenant: string): readonly number[] => [
  ...(ledger.intake?.lobbies.get(tenantId(tenant))?.credits.keys() ?? []),
];

it("a late copy of a request leaves a newer one of its run outside; under rules 6 it took its place", () => {
  const full = sound(inbox(ready, flood(16)).ledger);
  const [older, newer] = [1, 3].map((seq) => ask({ job: "array", slots: 2, seq }));
  const withdrawal = ask({ job: "array", slots: 0, seq: 2 });
  const after = (ledger: Ledger) => inbox(ledger, [newer, withdrawal, older]).ledger;
  expect(sound(after(full)).intake?.news.get(jobId("array"))?.seq).toBe(3);
  expect(after({ ...full, applyVersion: 6 }).intake?.news.get(jobId("array"))?.seq).toBe(1);
});

it("a run that was reset to after its request repeats it, with its time, and takes the place of the former run's outside", () => {
  const full = sound(inbox(ready, flood(16)).ledger);
  const [former, next] = [2, 1].map((run) =>
    ask({ job: "a", run: `a-run${run}`, requestedAtMs: 5, submittedAtMs: 5 }),
  );
  const { intake } = sound(inbox(full, [former, next]).ledger);
  expect(intake?.news.get(jobId("a"))?.runId).toBe("a-run1");
});

/** Its first request may come late, from a worker that was frozen while somebody reset the job (a world, seed 52000568). */
it("a request of a run that another has followed leaves that one's outside; under rules 9 it took its place", () => {
  const full = sound(inbox(ready, flood(16)).ledger);
  const [former, next] = [5, 9].map((requestedAtMs, at) =>
    ask({ job: "a", run: `a-run${2 - at}`, requestedAtMs, submittedAtMs: 5 }),
  );
  const after = (ledger: Ledger, words = [next, former]) => inbox(ledger, words).ledger;
  const runOf = ({ intake }: Ledger) => intake?.news.get(jobId("a"))?.runId;
  expect(runOf(sound(after(full)))).toBe("a-run1");
  expect(runOf(sound(after(full, [former, next])))).toBe("a-run1");
  expect(runOf(after({ ...full, applyVersion: 9 }))).toBe("a-run2");
});

const reported = (
  tenant: string,
  training: number,
  {
    report = 1,
    returned = [],
    first,
  }: { report?: number; returned?: readonly number[]; first?: FirstByClass } = {},
) => ({
  kind: "lobby",
  tenant,
  report,
  waiting: { inference: 0, interactive: 0, training },
  returned,
  first,
});

describe("intake", () => {
  it("puts outside what has no place, in its tenant's lobby, and keeps the places of others", () => {
    const full = inbox(ready, flood(30, { tenant: "a" }));
    expect(full.ledger.requests.size).toBe(16);
    expect(full.outside.map(({ jobId: job }) => job)).toEqual(outsideOf(full.ledger));
    expect(full.ledger.intake?.lobbies.get(tenantId("a"))?.waiting.training).toBe(14);
    sound(full.ledger);
    const others = inbox(full.ledger, [
      ask({ job: "mine", tenant: "a", class: "inference" }),
      ...flood(4, { tenant: "b" }),
      ask({ job: "stranger", tenant: "x" }),
    ]).ledger;
    expect(others.requests.has(jobId("mine"))).toBe(true);
    expect(others.requests.has(jobId("b-0"))).toBe(true);
    expect(others.requests.has(jobId("stranger"))).toBe(true);
    sound(others);
  });

  it("knows no bound before these rules", () => {
    const old = inbox({ ...ready, applyVersion: OLDEST_RULES }, [
      ...flood(60),
      reported("t", 5),
    ]).ledger;
    expect(old.requests.size).toBe(60);
    expect(old.intake).toBeUndefined();
    expect(old.deadLetters.map(({ code }) => code)).toEqual(["EntryMalformed"]);
  });

  it("makes a credit of a freed place, and admits the called job on it, once", () => {
    const full = told(inbox(ready, flood(30, { tenant: "a" })).ledger);
    expect(full.intake?.news.size).toBe(0);
    const freed = inbox(full, [end("a-0")]).ledger;
    expect(creditsOf(freed, "a")).toEqual([1]);
    const newcomer = inbox(freed, [ask({ job: "late", tenant: "a" })]).ledger;
    expect(outsideOf(newcomer)).toEqual(["late"]);
    const called = ask({ job: "a-29", tenant: "a", submittedAtMs: 10, credit: 1 });
    const inside = inbox(newcomer, [called], 7).ledger;
    expect(inside.requests.get(jobId("a-29"))).toMatchObject({ submittedAtMs: 10, enteredAtMs: 7 });
    expect(inside.requests.get(jobId("a-29"))).not.toHaveProperty("credit");
    expect(creditsOf(inside, "a")).toEqual([]);
    const twice = inbox(inside, [called, ask({ job: "thief", tenant: "a", credit: 1 })]).ledger;
    expect(twice.requests.size).toBe(inside.requests.size);
    expect(outsideOf(twice)).toContain("thief");
    sound(twice);
  });

  it("lets no stranger use a tenant's credit, nor another class", () => {
    const full = told(inbox(ready, flood(30, { tenant: "a" })).ledger);
    const freed = inbox(full, [end("a-0")]).ledger;
    const [number = 0] = creditsOf(freed, "a");
    const tried = inbox(freed, [
      ...flood(2, { tenant: "b" }),
      ask({ job: "b-x", tenant: "b", credit: number }),
      ask({ job: "a-x", tenant: "a", class: "interactive", credit: number }),
    ]).ledger;
    expect(creditsOf(tried, "a")).toEqual([number]);
  });

  it("takes back what a lobby returns, and gives it to another", () => {
    const crowd = inbox(ready, [...flood(30, { tenant: "a" }), ...flood(9, { tenant: "b" })]);
    const freed = inbox(told(crowd.ledger), [end("a-0")]).ledger;
    const [number = 0] = creditsOf(freed, "a");
    expect(number).toBe(1);
    const back = inbox(freed, [reported("a", 0, { returned: [number] })]).ledger;
    expect(creditsOf(back, "a")).toEqual([]);
    expect(creditsOf(back, "b")).toEqual([2]);
    sound(back);
  });

  it("believes the newest report of a lobby, beside the rows that are on their way", () => {
    const full = inbox(ready, flood(30, { tenant: "a" })).ledger;
    const waiting = (ledger: Ledger) => ledger.intake?.lobbies.get(tenantId("a"))?.waiting.training;
    const counted = inbox(told(full), [reported("a", 4, { report: 9 })]).ledger;
    expect(waiting(counted)).toBe(4);
    const early = [reported("a", 3, { report: 8 })];
    expect(waiting(inbox(counted, early).ledger)).toBe(4);
    // One that says more may be newer than the rows of which the lobby was told last.
    const more = [reported("a", 8, { report: 8 })];
    expect(waiting(inbox(counted, more).ledger)).toBe(8);
    expect(waiting(inbox({ ...counted, applyVersion: 9 }, more).ledger)).toBe(4);
    expect(waiting(inbox(full, [reported("a", 4, { report: 9 })]).ledger)).toBe(4 + 14);
  });

  /** The lobby was ended by hand before it had counted again, and nothing opened it any more (a world, seed 31002720). */
  it("lowers no count by a report from before the lobby was told of rows, and counts those again whose credits come back", () => {
    const crowd = inbox(ready, flood(18, { tenant: "a" })).ledger;
    const freed = told(inbox(told(crowd, 20), [end("a-0")]).ledger, 20);
    expect(creditsOf(freed, "a")).toEqual([1]);
    const early = [reported("a", 0, { report: 9, returned: [1] })];
    const waiting = (ledger: Ledger) => ledger.intake?.lobbies.get(tenantId("a"))?.waiting.training;
    // One of two has been called in with the place that came back.
    expect(waiting(inbox({ ...freed, applyVersion: 9 }, early).ledger)).toBe(0);
    const after = sound(inbox(freed, early).ledger);
    expect([waiting(after), creditsOf(after, "a")]).toEqual([1, [2]]);
    expect(waiting(inbox(after, [reported("a", 0, { report: 21 })]).ledger)).toBe(0);
  });

  it("keeps the place of a job that returns, however full it is", () => {
    const asked = inbox(ready, [ask({ job: "runs", tenant: "a" })]).ledger;
    const running = applyPlan(asked, planOf([grantItem("runs", gpus(["c0/h0", 1]))])).ledger;
    const full = inbox(running, flood(30, { tenant: "a" })).ledger;
    const again = ask({ job: "runs", tenant: "a", seq: 2, requestedAtMs: 5 });
    const returns = { ...end("runs"), returns: true };
    expect(inbox(full, [returns, again]).ledger.requests.has(jobId("runs"))).toBe(true);
    expect(inbox(full, [end("runs"), again]).ledger.requests.has(jobId("runs"))).toBe(false);
    sound(inbox(full, [returns, again]).ledger);
  });

  it("withdraws the row of a job that ends before its lobby has heard of it", () => {
    const full = inbox(ready, flood(17, { tenant: "a" })).ledger;
    const [job = ""] = outsideOf(full);
    const ended = inbox(full, [end(job)]).ledger;
    expect(ended.intake?.lobbies.size ?? 0).toBe(0);
    sound(ended);
  });

  it("keeps the last bytes from large requests, for the ordinary ones of others", () => {
    const names = Array.from({ length: 400 }, (_, at) => `a-cluster-${at}`);
    const large = Array.from({ length: 300 }, (_, at) =>
      ask({
        job: `large-${at}`,
        tenant: "a",
        constraints: { clusters: names.map((name) => clusterId(`${name}-${at}`)) },
      }),
    );
    const wide = inbox(emptyLedger({ ...shape, policy: DEFAULT_POLICY }), large).ledger;
    expect(wide.requests.size).toBeLessThan(300);
    const others = inbox(wide, flood(300, { tenant: "b" })).ledger;
    expect(others.requests.size).toBe(wide.requests.size + 300);
  });

  it("holds what would be outside while too many rows are on their way", () => {
    const crowd = inbox(ready, flood(600, { tenant: "a" }));
    expect(crowd.ledger.intake?.news.size).toBe(500);
    expect(crowd.held.map(({ jobId: job }) => job)).toEqual(
      Array.from({ length: 84 }, (_, at) => `a-${516 + at}`),
    );
    expect(crowd.outside).toHaveLength(500);
  });
});

describe("giving way", () => {
  const clock = (ledger: Ledger, nowMs: number) => apply(ledger, { kind: "clock", nowMs });
  const hopeless = (ledger: Ledger, jobs: readonly string[]): Ledger =>
    applyPlan(
      ledger,
      planOf(
        [],
        jobs.map((job) => ({
          request: { jobId: jobId(job), runId: runId(`${job}-run1`), seq: 1 },
          reason: {
            code: "NoMatchingFlavor",
            message: "never",
            numbers: {},
            holders: [],
            wakeOn: ["fleet-changed"],
          },
        })),
      ),
    ).ledger;

  it("is for requests that can never start, while others wait outside, with their age", () => {
    const full = told(inbox(ready, flood(19, { tenant: "a" })).ledger);
    const stuck = hopeless(full, ["a-3", "a-4", "a-5", "a-6"]);
    expect(clock(stuck, 5_000).outside).toEqual([]);
    const later = clock(clock(stuck, 5_000).ledger, 30_000);
    expect(later.outside.map(({ jobId: job }) => job)).toEqual(["a-3", "a-4", "a-5"]);
    expect(later.ledger.intake?.news.get(jobId("a-4"))).toMatchObject({
      round: roundAfter(0, FIRST_ERA),
      submittedAtMs: 4,
      lobby: "a",
    });
    expect(creditsOf(later.ledger, "a")).toHaveLength(3);
    sound(later.ledger);
  });

  describe("for jobs that the fleet's description has not judged", () => {
    const judged = { training: { round: roundAfter(0, FIRST_ERA), count: 3 } };
    const names = (from: number, to: number): readonly string[] =>
      Array.from({ length: to - from }, (_, at) => `a-${from + at}`);
    const reportOf = (ledger: Ledger, first: FirstByClass, report = 1): Ledger =>
      sound(inbox(ledger, [reported("a", 3, { report, first })]).ledger);
    const leaversOf = (ledger: Ledger, nowMs: number): readonly string[] =>
      clock(ledger, nowMs).outside.map(({ jobId: job }) => job);
    /** Three have given way, and those who came for them are hopeless as well. */
    const rotated = (rules = NEWEST_RULES): Ledger => {
      const start = inbox({ ...ready, applyVersion: rules }, flood(19, { tenant: "a" })).ledger;
      const first = clock(hopeless(told(start), names(0, 16)), 15_000).ledger;
      const called = flood(3, { tenant: "a" }, 16).map((entry, at) => ({
        ...(entry as { readonly request: object }),
        request: { ...(entry as { readonly request: object }).request, credit: at + 1 },
      }));
      return hopeless(inbox(told(first), called, 16_000).ledger, names(16, 19));
    };

    it("and for no others, as long as it is the same; under rules 7 without end", () => {
      const ledger = reportOf(rotated(), judged);
      expect([...ledger.requests.keys()]).toContain("a-18");
      expect(leaversOf(ledger, 1_200_000)).toEqual([]);
      expect(leaversOf(reportOf(rotated(7), judged), 1_200_000)).toHaveLength(3);
    });

    it("as many as a lobby says, and again once there is another description", () => {
      const one = reportOf(rotated(), { training: { round: 2, count: 1 } });
      expect(leaversOf(one, 80_000)).toEqual(["a-11"]);
      const changed = apply(reportOf(rotated(), judged), {
        kind: "fleet-changed",
        shape,
        nowMs: 40_000,
      });
      expect(changed.ledger.reasons.size).toBe(0);
      const again = hopeless(sound(changed.ledger), ["a-7", "a-8"]);
      expect(leaversOf(again, 45_000)).toEqual([]);
      expect(leaversOf(again, 51_000)).toEqual(["a-7", "a-8"]);
    });

    it("takes eras that it never had for those of a ledger that was lost, and lets all take turns in the end", () => {
      const lost = { training: { round: roundAfter(0, 7), count: 2 } };
      const ledger = reportOf(rotated(), lost);
      expect(ledger.intake?.era).toBe(8);
      expect(leaversOf(ledger, 80_000)).toEqual(["a-11", "a-12"]);
      expect(leaversOf(reportOf(rotated(), judged), 3_600_000)).toHaveLength(3);
    });

    it("does not know its own era while it recovers, and does once it has", () => {
      const eraWith = (recovery: LedgerRecovery): number | undefined => {
        const ledger = { ...rotated(), recovery };
        return inbox(ledger, [reported("a", 3, { first: judged })], 20_000).ledger.intake?.era;
      };
      expect(eraWith({ tokensBelow: 9 })).toBe(FIRST_ERA + 1);
      expect(eraWith({ tokensBelow: 9, untilMs: 30_000 })).toBe(FIRST_ERA + 1);
      expect(eraWith({ tokensBelow: 9, untilMs: 10_000 })).toBeUndefined();
    });

    it("hears the next call whatever era a lobby has told it of", () => {
      const lie = { training: { round: 1e12, count: 2 } };
      const left = clock(reportOf(rotated(), lie), 3_600_000).ledger;
      const again = [...(left.intake?.news.values() ?? [])].map(({ jobId: job, seq, round }) =>
        ask({ job, tenant: "a", seq, round }),
      );
      expect(again).toHaveLength(3);
      const heard = inbox(told(left, 3_600_000), again, 3_601_000).ledger;
      expect(heard.deadLetters).toEqual([]);
      const lies = reportOf(heard, lie, 2);
      expect(lies.intake?.era).toBe(heard.intake?.era);
    });
  });

  it("leaves alone a share in which nobody waits outside", () => {
    const some = hopeless(inbox(ready, flood(5, { tenant: "b" })).ledger, ["b-1"]);
    const full = told(inbox(some, flood(30, { tenant: "a" })).ledger);
    expect(clock(full, 3_600_000).outside.every(({ jobId: job }) => job.startsWith("a-"))).toBe(
      true,
    );
  });

  it("lets few of those go that merely wait, the youngest first", () => {
    const full = told(inbox(ready, flood(30, { tenant: "a" })).ledger);
    expect(clock(full, 599_000).outside).toEqual([]);
    const later = clock(full, 601_000);
    expect(later.outside.map(({ jobId: job }) => job)).toEqual(["a-15"]);
    expect(clock(later.ledger, 602_000).outside).toEqual([]);
  });

  it("gives a credit again that nobody has used for a minute, under its number", () => {
    const freed = inbox(told(inbox(ready, flood(30, { tenant: "a" })).ledger), [end("a-0")]).ledger;
    const creditOf = ({ intake }: Ledger) => intake?.lobbies.get(tenantId("a"))?.credits.get(1);
    const heard = told(freed);
    expect(creditOf(heard)?.isAnnounced).toBe(true);
    const looked = clock(heard, 30_000).ledger;
    expect(creditOf(looked)?.isAnnounced).toBe(true);
    const later = sound(clock(looked, 100_000).ledger);
    expect(creditOf(later)).toEqual({ ...creditOf(heard), isAnnounced: false });
  });

  it("withdraws credits that nobody uses", () => {
    const freed = inbox(told(inbox(ready, flood(30, { tenant: "a" })).ledger), [end("a-0")]).ledger;
    const looked = clock(freed, 1).ledger;
    expect(creditsOf(looked, "a")).toEqual([1]);
    expect(creditsOf(clock(looked, 600_001).ledger, "a")).not.toContain(1);
  });
});
