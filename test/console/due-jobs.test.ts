/** @file Which jobs' own histories the books read, and when: once the fleet has done with them, and again until they have ended. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openHistory, type HistoryDatabase } from "../../console/history/database.ts";
import { createKeeper } from "../../console/history/keeper.ts";
import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { recorded } from "../support/recorded-fleet.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-due-"));
let opened = 0;
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const open = async (): Promise<HistoryDatabase> =>
  openHistory(path.join(scratch, `${String((opened += 1))}.db`), { isNew: true });

describe("the history database", () => {
  it("reads the jobs of a run that ended before it was done with them, once those that live have told the next one of themselves", async () => {
    const { ledger, startedAtMs, folded } = await recorded("fleet.preempting.json");
    const busy = folded.find(({ ledger: { leases, requests } }) => leases.size * requests.size > 0);
    if (busy === undefined) throw new Error("nobody holds GPUs while another waits");
    const [[, lease] = []] = busy.ledger.leases;
    if (lease === undefined) throw new Error("nobody holds GPUs");
    const waiting = [...busy.ledger.requests.keys()];
    const asked: string[] = [];
    const database = await open();
    const keeper = createKeeper(database, (job) => {
      asked.push(job);
      return Promise.resolve(undefined);
    });
    keeper.follow({ ...busy.ledger, leases: new Map() }, startedAtMs);
    const freed: Ledger = {
      ...busy.ledger,
      leases: new Map([[lease.id, { ...lease, state: "vacating" }]]),
    };
    const event = { kind: "clock", nowMs: lease.grantedAtMs + 1_000 } as const;
    keeper.fold({ event, before: busy.ledger, ledger: freed });
    keeper.now(freed);
    await keeper.keep(event.nowMs);
    expect(asked).toEqual([]);
    // One that was granted last, and is not written yet.
    const late = { ...lease, id: "lease-late" as LeaseId, jobId: "late" as JobId };
    const left: Ledger = { ...freed, leases: new Map([...freed.leases, [late.id, late]]) };
    keeper.fold({ event, before: freed, ledger: left });
    keeper.now(left);
    // It was terminated: the next one begins with nothing, and is told of the first that waited.
    const laterMs = event.nowMs + 60_000;
    const lost: Ledger = { ...ledger, leases: new Map(), requests: new Map() };
    keeper.follow({ ...lost, recovery: { tokensBelow: 2 ** 21 } }, laterMs);
    await keeper.keep(laterMs);
    expect(asked).toEqual([]);
    const requests = new Map([...busy.ledger.requests].slice(0, 1));
    // It asks once more in ten minutes.
    keeper.now({ ...lost, requests, recovery: { tokensBelow: 2 ** 21 } });
    await keeper.keep(laterMs + 29_000);
    expect(asked).toEqual([]);
    await keeper.keep(laterMs + 30_000);
    expect(asked.sort()).toEqual([lease.jobId, "late", ...waiting.slice(1)].sort());
    const ends = database.all<{ lease: string; freedMs: number }>(
      "SELECT lease, freedMs FROM leases ORDER BY lease",
      {},
    );
    expect(ends).toEqual([
      { lease: lease.id, freedMs: event.nowMs },
      { lease: late.id, freedMs: laterMs },
    ]);
    database.close();
  });

  it("has a lease as held of which a fleet that lost its ledger was told again, until it ends", async () => {
    const { folded, startedAtMs, ledger } = await recorded("fleet.recovering-11.json");
    const [told] = folded.at(-1)?.ledger.leases.values() ?? [];
    if (told === undefined) throw new Error("no lease was told of");
    expect(told.grantedAtMs).toBeLessThan(startedAtMs);
    const database = await open();
    const freedMs = (): unknown => database.all("SELECT freedMs FROM leases", {})[0];
    const keeper = createKeeper(database, () => Promise.resolve({ runs: [] }));
    const nowMs = folded.at(-1)?.event.nowMs ?? 0;
    const before: Ledger = { ...ledger, leases: new Map([[told.id, told]]) };
    keeper.follow(before, told.grantedAtMs);
    await keeper.keep(told.grantedAtMs);
    expect(freedMs()).toEqual({ freedMs: null });
    keeper.follow(ledger, startedAtMs);
    await keeper.keep(startedAtMs);
    expect(freedMs()).toEqual({ freedMs: startedAtMs });
    for (const one of folded) keeper.fold(one);
    await keeper.keep(nowMs);
    expect(freedMs()).toEqual({ freedMs: null });
    const event = { kind: "clock", nowMs: nowMs + 1_000 } as const;
    keeper.fold({ event, before, ledger });
    await keeper.keep(nowMs + 1_000);
    // A former run that is read later knows less.
    keeper.begin(before, startedAtMs);
    await keeper.keep(nowMs + 1_000);
    expect(freedMs()).toEqual({ freedMs: nowMs + 1_000 });
    database.close();
  });

  it("looks at a job that has not ended ever later, each hour at last, until it has", async () => {
    const database = await open();
    database.write({ leases: [], due: [{ job: "held", tries: 0, notBeforeMs: 0 }] });
    const asked: number[] = [];
    let nowMs = 0;
    const keeper = createKeeper(database, () => {
      asked.push(nowMs / 1_000);
      return Promise.resolve(asked.length < 15 ? { runs: [] } : undefined);
    });
    for (let [next] = database.due(Infinity, 1); next; [next] = database.due(Infinity, 1)) {
      nowMs = next.notBeforeMs;
      await keeper.keep(nowMs);
    }
    const doubling = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048];
    const waits = asked.slice(1).map((at, index) => at - (asked[index] ?? 0));
    expect(waits).toEqual([...doubling, 3_600, 3_600, 3_600]);
    expect(database.due(Infinity, 1)).toEqual([]);
    database.close();
  });

  it("leaves a job that is in the ledger again, and reads it once the fleet is done with it once more", async () => {
    const { folded, startedAtMs } = await recorded("fleet.preempting.json");
    const busy = folded.find(({ ledger: { leases } }) => leases.size > 0)?.ledger;
    const [[, lease] = []] = busy?.leases ?? [];
    if (busy === undefined || lease === undefined) throw new Error("nobody holds GPUs");
    const database = await open();
    database.write({ leases: [], due: [{ job: lease.jobId, tries: 9, notBeforeMs: 0 }] });
    const asked: string[] = [];
    const keeper = createKeeper(database, (job) => {
      asked.push(job);
      return Promise.resolve(undefined);
    });
    keeper.follow(busy, startedAtMs);
    const nowMs = lease.grantedAtMs + 1_000;
    await keeper.keep(nowMs);
    expect(asked).toEqual([]);
    expect(database.due(Infinity, 1)).toEqual([]);
    const free: Ledger = { ...busy, leases: new Map(), requests: new Map() };
    keeper.fold({ event: { kind: "clock", nowMs }, before: busy, ledger: free });
    keeper.now(free);
    await keeper.keep(nowMs);
    expect(asked).toContain(lease.jobId);
    database.close();
  });

  it("reads jobs that have just ended among many that have not", async () => {
    const database = await open();
    const job = (name: string, tries: number, notBeforeMs: number) => {
      return { job: name, tries, notBeforeMs };
    };
    const held = Array.from({ length: 1_000 }, (_, at) => job(`held-${String(at)}`, 3, 0));
    const ended = Array.from({ length: 9 }, (_, at) => job(`ended-${String(at)}`, 0, 1_000));
    database.write({ leases: [], due: [...held, ...ended] });
    const found = database.due(1_000, 20);
    expect(found).toHaveLength(20);
    // The longest due first, so that one whose server fails holds up only the others like it.
    expect(found.slice(-9)).toEqual(ended);
    expect(database.due(999, 20).every(({ tries }) => tries === 3)).toBe(true);
    database.close();
  });

  it("gives up no job for one bad history after many tries at which it went on", async () => {
    const database = await open();
    database.write({ leases: [], due: [{ job: "held", tries: 40, notBeforeMs: 0 }] });
    const answers = [new TypeError("shape"), { runs: [] }, undefined];
    const keeper = createKeeper(database, async () => {
      const answer = await Promise.resolve(answers.shift());
      if (answer instanceof Error) throw answer;
      return answer;
    });
    for (let nowMs = 0; nowMs < 4 * 3_600_000; nowMs += 3_600_000)
      await keeper.keep(nowMs).catch(() => undefined);
    expect(answers).toEqual([]);
    expect(database.due(Infinity, 1)).toEqual([]);
    database.close();
  });

  it("reads the other jobs where the history of one cannot be read, and leaves that one after some tries", async () => {
    const database = await open();
    const asked: string[] = [];
    database.write({
      leases: [],
      due: ["bad", "good"].map((job) => ({ job, tries: 0, notBeforeMs: 0 })),
    });
    const keeper = createKeeper(database, (job) => {
      asked.push(job);
      return job === "good" ? Promise.resolve(undefined) : Promise.reject(new TypeError("shape"));
    });
    await expect(keeper.keep(0)).rejects.toThrow(/history of bad cannot be read: shape/);
    expect(asked).toEqual(["bad", "good"]);
    expect(database.due(Infinity, 10)).toEqual([{ job: "bad", tries: 1, notBeforeMs: 2_000 }]);
    for (let nowMs = 0; nowMs < 400_000; nowMs += 1_000)
      await keeper.keep(nowMs).catch(() => undefined);
    expect(asked.length).toBe(8);
    expect(database.due(Infinity, 10)).toEqual([]);
    database.close();
  });

  it("counts no try where the server does not answer", async () => {
    const database = await open();
    database.write({ leases: [], due: [{ job: "held", tries: 0, notBeforeMs: 0 }] });
    const unavailable = Object.assign(new Error("unavailable"), { code: 14 });
    const keeper = createKeeper(database, () => Promise.reject(unavailable));
    for (let nowMs = 0; nowMs < 400_000; nowMs += 1_000)
      await keeper.keep(nowMs).catch(() => undefined);
    expect(database.due(Infinity, 10)).toMatchObject([{ job: "held", tries: 0 }]);
    database.close();
  });
});
