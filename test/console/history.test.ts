/** @file The history database against the ledger's own counts: over recorded fleets, read twice, in pieces, and after a gap. */

import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { msOf } from "../../console/follow/workflow-task.ts";
import {
  openHistory,
  type HistoryDatabase,
  type LeaseRecord,
} from "../../console/history/database.ts";
import { jobRecords } from "../../console/history/job-records.ts";
import { createKeeper, type ReadJobHistory } from "../../console/history/keeper.ts";
import { decayedUsage } from "../../console/history/decayed-usage.ts";
import { endedJobs, usageBy } from "../../console/history/usage.ts";
import { createJobLife } from "../../console/job/job-life.ts";
import { createJobReader } from "../../console/job/job-reader.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { LeaseId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { eventsOf, HISTORIES, recorded } from "../support/recorded-fleet.ts";

/** It holds a lease that was freed and that its host reported once more, which counts twice. */
const REPAIRED = "fleet.repaired.json";
const files = readdirSync(HISTORIES).filter(
  (file) => /^fleet\..*\.json$/.test(file) && file !== REPAIRED,
);
const codecs = createConverters().worker.payloadCodecs ?? [];
const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-history-"));
let opened = 0;
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const open = async (): Promise<HistoryDatabase> =>
  openHistory(path.join(scratch, `${String((opened += 1))}.db`), { isNew: true });

/** The GPUs of a vacating lease are free but for hosts that have not confirmed. */
const isOver = ({ leases }: Ledger, id: LeaseId): boolean =>
  (leases.get(id)?.state ?? "vacating") === "vacating";

const NOTHING: ReadJobHistory = () => Promise.resolve(undefined);
const ALL = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

const leaseOf = (job: string, rest: Partial<LeaseRecord>): LeaseRecord => ({
  ...{ job, run: "run-1", lease: `${job}-lease`, attempt: 1, tenant: "default", class: "training" },
  ...{ gpus: 8, gpuType: "H100", clusters: "alpha", lostGpuSeconds: 0, grantedMs: 0 },
  freedMs: null,
  ...rest,
});

describe("the history database", () => {
  it.each(files)(
    "has the leases of %s as its ledger counted them, however it is read",
    async (file) => {
      const { ledger, startedAtMs, folded } = await recorded(file);
      const endMs = folded.at(-1)?.event.nowMs ?? 0;
      const grantedAt = new Map(
        folded.flatMap(({ ledger: after }) =>
          [...after.leases.values()].map((lease) => [lease.id, lease] as const),
        ),
      );
      const freedAt = new Map(
        folded.flatMap(({ event, before, ledger: after }) =>
          [...before.leases.keys()]
            .filter((id) => isOver(after, id) && !isOver(before, id))
            .map((id) => [id, event.nowMs] as const),
        ),
      );
      const gpuMs = [...grantedAt.values()].reduce(
        (sum, { id, gpus, grantedAtMs }) =>
          sum + gpuCountOf(gpus) * ((freedAt.get(id) ?? endMs) - grantedAtMs),
        0,
      );
      const database = await open();
      for (const size of [1_000, 7]) {
        // The second reading finds all rows there.
        const keeper = createKeeper(database, NOTHING);
        keeper.begin(ledger, startedAtMs);
        for (let at = 0; at < folded.length; at += size) {
          folded.slice(at, at + size).forEach(keeper.fold);
          keeper.now(folded.at(-1)?.ledger ?? ledger);
          keeper.reached({ run: "run-1", event: at, atMs: endMs });
          await keeper.keep(endMs);
        }
        const [row] = usageBy(database, ["month"], ALL);
        expect(row?.leases).toBe(grantedAt.size);
        expect((row?.held ?? 0) * 3_600_000).toBeCloseTo(gpuMs, 3);
        expect(row?.unknown).toBeCloseTo(row?.held ?? 0, 9);
        expect(database.cursor()?.run).toBe("run-1");
      }
      database.close();
    },
  );

  it("usage decays by its half-life: as the integral of what was held, and by half for each such time in which nothing is", async () => {
    const { folded, startedAtMs, ledger } = await recorded("fleet.preempting.json");
    const database = await open();
    const keeper = createKeeper(database, NOTHING);
    keeper.begin({ ...ledger, leases: new Map() }, startedAtMs);
    for (const one of folded) keeper.fold(one);
    const endMs = folded.at(-1)?.event.nowMs ?? 0;
    keeper.reached({ run: "run-1", event: 1, atMs: endMs });
    await keeper.keep(endMs);
    const sumOf = (rows: readonly { readonly decayed: number }[]): number =>
      rows.reduce((sum, { decayed }) => sum + decayed, 0);
    const halfLifeMs = 30_000;
    const decayedAt = (nowMs: number): number =>
      sumOf(decayedUsage(database, ["tenant"], { halfLifeMs, nowMs }));
    const spans = database.all<{ gpus: number; fromMs: number; toMs: number }>(
      "SELECT gpus, grantedMs AS fromMs, coalesce(freedMs, :endMs) AS toMs FROM leases",
      { endMs },
    );
    let want = 0;
    for (const { gpus, fromMs, toMs } of spans)
      for (let atMs = fromMs; atMs < toMs; atMs += 10) {
        const partMs = Math.min(10, toMs - atMs);
        want += gpus * partMs * 2 ** ((atMs + partMs / 2 - endMs) / halfLifeMs);
      }
    expect((decayedAt(endMs) * 3_600_000) / want).toBeCloseTo(1, 4);
    expect(decayedAt(endMs + halfLifeMs)).toBeCloseTo(decayedAt(endMs) / 2, 12);
    const held = usageBy(database, ["tenant"], ALL).reduce((sum, row) => sum + row.held, 0);
    const forever = decayedUsage(database, ["tenant"], { halfLifeMs: 1e13, nowMs: endMs });
    expect(sumOf(forever)).toBeCloseTo(held, 6);
    database.close();
  });

  it("closes leases that ended while nobody read, at the beginning of the next run that is read", async () => {
    const { ledger, startedAtMs, folded } = await recorded("fleet.preempting.json");
    const held =
      folded.filter(({ ledger: after }) => after.leases.size > 0).at(-1)?.ledger ?? ledger;
    const database = await open();
    const first = createKeeper(database, NOTHING);
    first.begin(held, startedAtMs);
    await first.keep(0);
    const laterMs = startedAtMs + 3_600_000;
    expect(database.open(laterMs).length).toBe(held.leases.size);
    const asked: string[] = [];
    const second = createKeeper(database, (job) => {
      asked.push(job);
      return Promise.resolve(undefined);
    });
    second.begin({ ...ledger, leases: new Map() }, laterMs);
    await second.keep(laterMs);
    expect(database.open(laterMs)).toEqual([]);
    expect(asked.sort()).toEqual(
      [...new Set([...held.leases.values()].map(({ jobId }) => jobId))].sort(),
    );
    database.close();
  });

  it("parts the GPU-hours of a preempted job into useful, lost and idle, and cuts them by month", async () => {
    const life = createJobLife("saved");
    const reader = createJobReader(codecs);
    for (const event of eventsOf("job.preempted.json")) {
      const fact = await reader.read(event);
      if (fact !== undefined) life.fold(fact, msOf(event.eventTime));
    }
    const page = life.page();
    const run = page.run ?? "";
    const database = await open();
    database.write({
      due: [{ job: "saved", tries: 0, notBeforeMs: 0 }],
      leases: page.attempts.map(({ lease, grantedAtMs, endedAtMs = 0 }, at) => ({
        ...{ job: "saved", run, lease, attempt: at + 1, tenant: "default", class: "training" },
        ...{ gpus: 8, gpuType: "H100", clusters: "alpha", lostGpuSeconds: 0 },
        grantedMs: grantedAtMs,
        freedMs: endedAtMs + 500,
      })),
    });
    const keeper = createKeeper(database, () => Promise.resolve(jobRecords(page)));
    await keeper.keep(1);
    expect(database.due(Infinity, 10)).toEqual([]);
    const [row] = usageBy(database, ["tenant", "class", "job"], ALL);
    expect(row?.names).toEqual(["default", "training", "saved"]);
    const gpuSeconds = (hours: number | undefined): number => (hours ?? 0) * 3_600;
    const ran = page.attempts.reduce(
      (sum, { startedAtMs = 0, endedAtMs = 0 }) => sum + (8 * (endedAtMs - startedAtMs)) / 1_000,
      0,
    );
    expect(gpuSeconds(row?.lost)).toBeCloseTo(0.232, 6);
    expect(gpuSeconds(row?.useful)).toBeCloseTo(ran - 0.232, 6);
    const { held = 0, useful = 0, lost = 0, idle = 0, unknown = 0 } = row ?? {};
    expect(useful + lost + idle + unknown).toBeCloseTo(held, 9);
    expect(idle).toBeGreaterThan(0);
    // Two spans that meet in the middle of the second run.
    const middle = (page.attempts[1]?.startedAtMs ?? 0) + 5_000;
    const halves = [
      usageBy(database, ["tenant"], { fromMs: 0, toMs: middle }),
      usageBy(database, ["tenant"], { fromMs: middle, toMs: Number.MAX_SAFE_INTEGER }),
    ].map(([half]) => half);
    for (const name of ["held", "useful", "lost", "idle"] as const)
      expect((halves[0]?.[name] ?? 0) + (halves[1]?.[name] ?? 0)).toBeCloseTo(row?.[name] ?? -1, 9);
    expect(endedJobs(database, 0)).toMatchObject([
      { job: "saved", name: "saved", outcome: "completed", gpus: 8, tenant: "default" },
    ]);
    expect(endedJobs(database, Number.MAX_SAFE_INTEGER)).toEqual([]);
    // What a scrape reads is the same, however often it was written, and also once the rows are gone.
    database.writeJobs([{ job: "saved", ...jobRecords(page) }]);
    database.forgetEnded(Number.MAX_SAFE_INTEGER);
    expect(endedJobs(database, 0)).toEqual([]);
    const tallied = (name: string): number =>
      database.tallies().reduce((sum, each) => sum + (each.name === name ? each.value : 0), 0);
    expect(tallied("jobs")).toBe(1);
    for (const [name, hours] of Object.entries({ useful, lost, idle }))
      expect(tallied(name) / 3_600_000).toBeCloseTo(hours, 9);
    database.close();
  });

  it("cuts a lease that was held over several months by month", async () => {
    const database = await open();
    const at = (day: string): number => Date.parse(`${day}T00:00:00Z`);
    database.write({
      due: [],
      leases: [leaseOf("long", { grantedMs: at("2027-01-31"), freedMs: at("2027-04-02") })],
    });
    expect(
      usageBy(database, ["tenant", "month"], ALL).map(({ names, leases, held }) => [
        ...names,
        leases,
        held,
      ]),
    ).toEqual([
      ["default", "2027-01", 1, 8 * 24],
      ["default", "2027-02", 1, 8 * 24 * 28],
      ["default", "2027-03", 1, 8 * 24 * 31],
      ["default", "2027-04", 1, 8 * 24],
    ]);
    const march = { fromMs: at("2027-03-01"), toMs: at("2027-04-01") };
    expect(usageBy(database, ["month"], march).map(({ names }) => names)).toEqual([["2027-03"]]);
    database.close();
  });

  it("has the exact time of a lease's end over one that is known as a bound", async () => {
    const database = await open();
    const ends = [{ freedByMs: 900 }, { freedMs: 500 }, { freedByMs: 900 }];
    const held: unknown[] = [];
    for (const end of ends) {
      database.write({ due: [], leases: [leaseOf("gone", end)] });
      held.push(database.all("SELECT freedMs FROM leases", {}));
    }
    expect(held).toEqual([[{ freedMs: 900 }], [{ freedMs: 500 }], [{ freedMs: 500 }]]);
    database.close();
  });

  it("refuses a file that is none of its own, and one that is not there", async () => {
    const file = path.join(scratch, "text.db");
    writeFileSync(file, "no database\n".repeat(1_000));
    await expect(openHistory(file, { isNew: false })).rejects.toMatchObject({ code: "BAD_INPUT" });
    await expect(openHistory(`${file}2`, { isNew: false })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  });
});

describe("what the fleet's history does not say", () => {
  it("is the user of a job that still runs: read once, and not of a job that ends soon", async () => {
    const database = await open();
    const asked: string[] = [];
    const keeper = createKeeper(database, NOTHING, {
      readUser: (job) => {
        asked.push(job);
        return Promise.resolve(job === "mine" ? "ada" : "");
      },
    });
    database.write({
      leases: [leaseOf("mine", {}), leaseOf("unsigned", {}), leaseOf("over", { freedMs: 1 })],
      due: [],
    });
    await keeper.keep(9_000);
    expect(asked).toEqual([]);
    await keeper.keep(11_000);
    await keeper.keep(13_000);
    expect(asked).toEqual(["mine", "unsigned"]);
    const users = usageBy(database, ["job", "user"], ALL).map(({ names }) => names);
    expect(users).toEqual([
      ["mine", "ada"],
      ["over", "-"],
      ["unsigned", "-"],
    ]);
    database.close();
  });

  it("is asked for again where the server does not answer", async () => {
    const database = await open();
    let isAway = true;
    const unavailable = Object.assign(new Error("unavailable"), { code: 14 });
    const keeper = createKeeper(database, NOTHING, {
      readUser: () => (isAway ? Promise.reject(unavailable) : Promise.resolve("ada")),
    });
    database.write({ leases: [leaseOf("mine", {})], due: [] });
    await expect(keeper.keep(20_000)).rejects.toThrow("unavailable");
    isAway = false;
    await keeper.keep(22_000);
    expect(usageBy(database, ["user"], ALL)[0]?.names).toEqual(["ada"]);
    database.close();
  });

  it("is how much GPUs were used: added up, and spread over a lease that a span cuts", async () => {
    const database = await open();
    const hour = 3_600_000;
    database.write({ leases: [leaseOf("mine", { freedMs: 2 * hour })], due: [] });
    const use = { job: "mine", run: "run-1", lease: "mine-lease" };
    const keeper = createKeeper(database, NOTHING);
    for (let times = 0; times < 2; times += 1) {
      const span = { fromMs: times * hour, untilMs: (times + 1) * hour };
      keeper.used([{ ...use, ...span, usedMs: 2 * hour, toldMs: 4 * hour }]);
      await keeper.keep(0);
    }
    expect(usageBy(database, ["job"], ALL)).toMatchObject([{ held: 16, measured: 8, used: 4 }]);
    const half = usageBy(database, ["job"], { fromMs: hour, toMs: Number.MAX_SAFE_INTEGER });
    expect(half).toMatchObject([{ held: 8, measured: 4, used: 2 }]);
    database.forgetEnded(3 * hour);
    expect(database.all("SELECT * FROM uses", {})).toEqual([]);
    database.close();
  });

  it("is how much GPUs were used, also where two consoles tell it, each at moments of its own: nothing is added twice", async () => {
    const file = path.join(scratch, "two-consoles.db");
    const consoles = [
      await openHistory(file, { isNew: true }),
      await openHistory(file, { isNew: true }),
    ] as const;
    const END_MS = 1_000;
    const moments = fc
      .uniqueArray(fc.integer({ min: 1, max: END_MS - 1 }), { maxLength: 6 })
      .map((inside) => [0, ...inside.sort((a, b) => a - b), END_MS]);
    const told = ({ isLate }: { readonly isLate: boolean }) =>
      fc.property(moments, moments, fc.uuid(), (first, second, lease) => {
        // Half of two GPUs is in use all the time, and both see it.
        const looks = [first, second].flatMap((times, by) =>
          times.slice(1).map((untilMs, at) => {
            const fromMs = times[at] ?? 0;
            const amount = { usedMs: untilMs - fromMs, toldMs: 2 * (untilMs - fromMs) };
            return { by, use: { job: "j", run: "r", lease, fromMs, untilMs, ...amount } };
          }),
        );
        looks.sort((a, b) => (isLate ? 0 : a.use.untilMs - b.use.untilMs));
        for (const { by, use } of looks) consoles[by]?.write({ leases: [], uses: [use], due: [] });
        const [sum] = consoles[0].all<{ usedMs: number; toldMs: number }>(
          "SELECT usedMs, toldMs FROM uses WHERE lease = :lease",
          { lease },
        );
        expect(sum?.toldMs).toBeCloseTo(2 * END_MS, 6);
        expect(sum?.usedMs).toBeCloseTo(END_MS, 6);
      });
    fc.assert(told({ isLate: false }), { numRuns: 40 });
    fc.assert(told({ isLate: true }), { numRuns: 40 });
    for (const database of consoles) database.close();
  });

  it("is how much GPUs were used in a file whose rows a former release began", async () => {
    const file = path.join(scratch, "former-uses.db");
    const former = await openHistory(file, { isNew: true });
    former.all("ALTER TABLE uses DROP COLUMN untilMs", {});
    former.all("INSERT INTO uses VALUES ('j', 'r', 'l', 10, 20)", {});
    former.close();
    const database = await openHistory(file, { isNew: true });
    const use = { job: "j", run: "r", lease: "l", usedMs: 1, toldMs: 2 };
    for (let times = 0; times < 2; times += 1)
      database.write({ leases: [], uses: [{ ...use, fromMs: 5, untilMs: 6 }], due: [] });
    expect(database.all("SELECT usedMs, toldMs FROM uses", {})).toMatchObject([
      { usedMs: 11, toldMs: 22 },
    ]);
    database.close();
  });

  it("is nothing in a file of a former release", async () => {
    const file = path.join(scratch, "former.db");
    const written = await openHistory(file, { isNew: true });
    written.write({ leases: [leaseOf("mine", { freedMs: 3_600_000 })], due: [] });
    for (const table of ["uses", "users"]) written.all(`DROP TABLE ${table}`, {});
    written.close();
    const read = await openHistory(file, { isNew: false });
    const rows = usageBy(read, ["job", "user"], ALL);
    expect(rows).toMatchObject([{ names: ["mine", "-"], held: 8, measured: 0, used: 0 }]);
    read.close();
  });
});

it("forgets what was over before a time, and neither open leases nor jobs whose history is still to be read", async () => {
  const database = await open();
  const lease = (job: string, freedMs: number | null): LeaseRecord => ({
    ...{ job, run: "r", lease: `lease-${job}`, attempt: 1, tenant: "t", class: "training" },
    ...{ gpus: 1, gpuType: "H100", clusters: "eu", grantedMs: 1, freedMs, lostGpuSeconds: 0 },
  });
  const ended = (job: string, endedMs: number) => ({
    job,
    record: {
      ...{ job, run: "r", name: job, tenant: "t", class: "training", user: "u", gpus: 1 },
      ...{ tasks: 1, submittedMs: 0, endedMs, outcome: "completed", why: "" },
    },
    runs: [],
  });
  const many = Array.from({ length: 2_500 }, (_, at) => `old-${String(at)}`);
  database.write({
    leases: [
      ...many.map((job) => lease(job, 50)),
      lease("runs", null),
      lease("young", 200),
      lease("due", 50),
    ],
    due: [{ job: "due", tries: 0, notBeforeMs: 0 }],
  });
  // A job that ended and runs again under its id.
  database.writeJobs([
    ...many.map((job) => ended(job, 60)),
    ended("runs", 60),
    ended("young", 200),
  ]);
  expect(database.countEnded(100)).toBe(5_000);
  database.forgetEnded(100);
  expect(database.countEnded(100)).toBe(0);
  const jobsIn = (table: string): readonly unknown[] =>
    database
      .all<{ job: string }>(`SELECT job FROM ${table} ORDER BY job`, {})
      .map(({ job }) => job);
  expect(jobsIn("leases")).toEqual(["due", "runs", "young"]);
  expect(jobsIn("jobs")).toEqual(["runs", "young"]);
  // What is free was given back.
  const [{ free } = { free: -1 }] = database.all<{ free: number }>(
    "SELECT freelist_count AS free FROM pragma_freelist_count",
    {},
  );
  expect(free).toBe(0);
  database.close();
});
