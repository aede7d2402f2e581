/** @file The past as the console shows it: at any instant the ledger that the fleet had then, within bounds of memory and of time. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import fc from "fast-check";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { ARCHIVE_LIMITS, createLedgerArchive } from "../../console/past/ledger-archive.ts";
import { createPast } from "../../console/past/past.ts";
import { decisionOf } from "../../console/view/decisions.ts";
import { createTables } from "../../console/view/tables.ts";
import { createStore } from "../../page/store.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { renderView } from "../support/page-view.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
const files = readdirSync(FOLDER).filter((file) => /^fleet\..*\.json$/.test(file));
const codecs = createConverters().worker.payloadCodecs ?? [];

interface Recorded {
  readonly opened: Ledger;
  readonly startedAtMs: number;
  readonly folded: readonly Folded[];
}

async function recorded(file: string): Promise<Recorded> {
  const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));
  const events = history.events ?? [];
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const { startedAtMs } = run;
  const opened = run.ledger();
  return { opened, startedAtMs, folded: await foldedOf(run, events) };
}

/** The ledger after the last event at or before the instant, as it was recorded. */
const ledgerAt = ({ opened, folded }: Recorded, ms: number): Ledger =>
  folded.filter(({ event }) => event.nowMs <= ms).at(-1)?.ledger ?? opened;

const SMALL = { ...ARCHIVE_LIMITS, events: 7, plans: 3 };

describe("the ledger at an instant", () => {
  it.each(files)("equals the recorded one of %s at 100 random instants", async (file) => {
    const run = await recorded(file);
    for (const limits of [SMALL, ARCHIVE_LIMITS]) {
      const archive = createLedgerArchive(limits);
      archive.begin(run.opened, run.startedAtMs);
      for (const { event, ledger } of run.folded) archive.add(event, ledger);
      const { fromMs, toMs } = archive.span() ?? { fromMs: 0, toMs: 0 };
      expect(fromMs).toBe(run.startedAtMs);
      expect(toMs).toBe(run.folded.at(-1)?.event.nowMs);
      const instants = fc.sample(fc.integer({ min: fromMs, max: toMs + 1_000 }), {
        numRuns: 100,
        seed: 23,
      });
      for (const ms of instants) {
        const found = archive.at(ms);
        expect(packLedger(found?.ledger ?? run.opened)).toEqual(packLedger(ledgerAt(run, ms)));
      }
      expect(archive.at(fromMs - 1)).toBeUndefined();
    }
  });

  it.each(files)("steps through each time at which %s changed, forth and back", async (file) => {
    const run = await recorded(file);
    const archive = createLedgerArchive(SMALL);
    archive.begin(run.opened, run.startedAtMs);
    for (const { event, ledger } of run.folded) archive.add(event, ledger);
    const times = [...new Set([run.startedAtMs, ...run.folded.map(({ event }) => event.nowMs)])];
    const forth: number[] = [];
    for (let ms: number | undefined = run.startedAtMs; ms !== undefined;) {
      forth.push(ms);
      ms = archive.at(ms)?.afterMs;
    }
    expect(forth).toEqual(times);
    const back: number[] = [];
    for (let ms = times.at(-1); ms !== undefined;) {
      back.push(ms);
      ms = archive.at(ms)?.beforeMs;
    }
    expect(back.reverse()).toEqual(times);
  });

  it("forgets the oldest where all is too large", async () => {
    const run = await recorded("fleet.first-jobs.json");
    const fill = (limits: typeof SMALL): ReturnType<typeof createLedgerArchive> => {
      const archive = createLedgerArchive(limits);
      archive.begin(run.opened, run.startedAtMs);
      for (const { event, ledger } of run.folded) archive.add(event, ledger);
      return archive;
    };
    const small = fill({ ...SMALL, bytes: 4_000 });
    expect(small.bytes()).toBeLessThanOrEqual(4_000);
    const fromMs = small.span()?.fromMs ?? 0;
    expect(fromMs).toBeGreaterThan(run.startedAtMs);
    expect(small.at(fromMs - 1)).toBeUndefined();
    expect(packLedger(small.at(fromMs)?.ledger ?? run.opened)).toEqual(
      packLedger(ledgerAt(run, fromMs)),
    );
  });
});

const facts = { fleet: "f", atMs: 1 };

describe("the page of an instant", () => {
  it("shows the rows that browsers had seen then", async () => {
    const run = await recorded("fleet.preempting.json");
    const past = createPast(() => Promise.reject(new Error("there is no run before")));
    past.begin({
      ...{ runId: "run-1", ledger: run.opened, startedAtMs: run.startedAtMs },
      previousRunId: undefined,
    });
    for (const one of run.folded) past.add(one);
    for (const { event } of run.folded) {
      const answer = await past.at(event.nowMs, facts);
      const tables = createTables();
      tables.look(ledgerAt(run, event.nowMs), facts, event.nowMs);
      const [was, shown] = [createStore(), createStore(event.nowMs)];
      was.take(tables.snapshot());
      if (answer !== undefined) shown.take(answer.message);
      for (const name of ["hosts", "leases", "reservations", "requests", "reasons"] as const)
        expect(shown.tables[name]).toEqual(was.tables[name]);
      expect(shown.order()).toEqual(was.order());
    }
  });

  it("has the decisions of cycles, evictions and refusals included, as they were told then", async () => {
    for (const file of files) {
      const run = await recorded(file);
      const archive = createLedgerArchive();
      archive.begin(run.opened, run.startedAtMs);
      for (const { event, ledger } of run.folded) archive.add(event, ledger);
      archive.end();
      const told = run.folded.map(decisionOf).filter((row) => row !== undefined);
      expect(archive.at(Number.MAX_SAFE_INTEGER)?.decisions).toEqual(told.slice(-20));
    }
  });

  it("reads the runs before as far as they are there, once for all that ask", async () => {
    const run = await recorded("fleet.first-jobs.json");
    const asked: string[] = [];
    const past = createPast((runId, listener) => {
      asked.push(runId);
      if (runId === "gone") return Promise.reject(new Error("Temporal has dropped it"));
      listener.began(run.opened, run.startedAtMs);
      run.folded.forEach(listener.folded);
      return Promise.resolve("gone");
    });
    const last = run.folded.at(-1)?.ledger ?? run.opened;
    const startedAtMs = (run.folded.at(-1)?.event.nowMs ?? 0) + 1;
    past.begin({ runId: "run-1", ledger: last, startedAtMs, previousRunId: "run-0" });
    expect(past.reach()).toEqual({ fromMs: startedAtMs, isMore: true });
    expect(asked).toEqual([]);
    const [one, other] = await Promise.all([
      past.at(run.startedAtMs, facts),
      past.at(run.startedAtMs, facts),
    ]);
    expect(one).toEqual(other);
    expect(asked).toEqual(["run-0"]);
    const earliest = await past.at(0, facts);
    expect(earliest?.past).toEqual({ fromMs: run.startedAtMs, isMore: false });
    expect(asked).toEqual(["run-0", "gone"]);
  });
});

describe("a past for which memory has no room", () => {
  it("reads one run at a time, whoever asks, and keeps of a run's beginning what was told of it", async () => {
    const run = await recorded("fleet.first-jobs.json");
    let [now, most] = [0, 0];
    const past = createPast(async (runId, listener) => {
      most = Math.max(most, (now += 1));
      await new Promise(setImmediate);
      now -= 1;
      listener.began(run.opened, Number(runId));
      return Number(runId) > 1 ? String(Number(runId) - 1) : undefined;
    });
    past.begin({ runId: "9", ledger: run.opened, startedAtMs: 9, previousRunId: "8" });
    const all = [5, 6, 7, 8].map((ms) => past.at(ms, facts));
    for (const answer of await Promise.all(all)) expect(answer?.past.isMore).toBe(true);
    await past.at(1, facts);
    const again = await Promise.all([2, 4, 6, 8].map((ms) => past.at(ms, facts)));
    expect(again.map((answer) => answer?.atMs)).toEqual([2, 4, 6, 8]);
    expect(past.reach()).toEqual({ fromMs: 1, isMore: false });
    expect(most).toBe(1);
  });

  /** The run played a second later each time, until it is larger than what is kept; nothing changes the fleet but the run itself. */
  it("is read from its run again, the newest one included, and every instant equals the recorded one", async () => {
    const run = await recorded("fleet.preempting.json");
    const lengthMs = (run.folded.at(-1)?.event.nowMs ?? 0) - run.startedAtMs + 10;
    const asked: string[] = [];
    const later = (times: number): Recorded => ({
      opened: run.opened,
      startedAtMs: run.startedAtMs + times * lengthMs,
      folded: run.folded.map((one) => ({
        ...one,
        event: { ...one.event, nowMs: one.event.nowMs + times * lengthMs },
      })),
    });
    const runs = [0, 1, 2, 3, 4].map(later);
    let isAway = false;
    const past = createPast(
      (runId, listener) => {
        asked.push(runId);
        if (isAway) return Promise.reject(Object.assign(new Error("away"), { code: 14 }));
        const { opened, startedAtMs, folded } = runs[Number(runId)] ?? run;
        listener.began(opened, startedAtMs);
        folded.forEach(listener.folded);
        const before = Number(runId) - 1;
        return Promise.resolve(before < 0 ? undefined : String(before));
      },
      { ...SMALL, bytes: 1 },
    );
    for (const at of [2, 3, 4]) {
      const { opened, startedAtMs, folded } = runs[at] ?? run;
      const previousRunId = String(at - 1);
      past.begin({ runId: String(at), ledger: opened, startedAtMs, previousRunId });
      folded.forEach(past.add);
    }
    const firstMs = runs[2]?.startedAtMs ?? 0;
    expect(past.reach()).toEqual({ fromMs: firstMs, isMore: true });
    // What cannot be read now is asked for again.
    isAway = true;
    expect((await past.at(firstMs - 1, facts).catch(() => undefined))?.past.isMore).not.toBe(false);
    isAway = false;
    for (const at of [4, 2, 0, 1, 3])
      for (const { event } of runs[at]?.folded ?? []) {
        const ms = event.nowMs;
        const of = runs[at] ?? run;
        const shown = (await past.at(ms, facts))?.message.changes?.leases?.set;
        const leases = ledgerAt(of, ms).leases;
        expect(Object.keys(shown ?? {}).sort()).toEqual([...leases.keys()].sort());
      }
    expect(past.reach()).toEqual({ fromMs: run.startedAtMs, isMore: false });
    // Three runs stay, so going through one reads it once.
    expect(asked.length).toBeLessThan(12);
    // From event to event, through all runs and back.
    const forth: number[] = [];
    for (let ms: number | undefined = run.startedAtMs; ms !== undefined;) {
      forth.push(ms);
      ms = (await past.at(ms, facts))?.afterMs;
    }
    const times = runs.flatMap(({ startedAtMs, folded }) => [
      ...new Set([startedAtMs, ...folded.map(({ event }) => event.nowMs)]),
    ]);
    expect(forth).toEqual(times);
    let steps = 0;
    for (let ms = times.at(-1); ms !== undefined; steps += 1)
      ms = (await past.at(ms, facts))?.beforeMs;
    expect(steps).toBeGreaterThanOrEqual(times.length);
  });
});

describe("the time bar", () => {
  const facts = { fleet: "f", atMs: 5_000, past: { fromMs: 1_000, isMore: true } };
  const bar = async (
    props: object,
  ): Promise<{ readonly moves: string[]; readonly press: (label: string) => void }> => {
    const moves: string[] = [];
    const elements = await renderView("views/time-bar.ts", "TimeBar", {
      facts,
      nowMs: 9_000,
      go: ({ at }: { readonly at: string }) => moves.push(at),
      ...props,
    });
    return {
      moves,
      press(label) {
        const found = elements.find(
          ({ props: { "aria-label": name }, text }) => (name ?? text) === label,
        );
        if (found?.props["disabled"] !== true)
          (found?.props["onClick"] as (() => void) | undefined)?.();
      },
    };
  };

  it("steps from the present to the event before, and from an instant both ways and back", async () => {
    const live = await bar({ at: "" });
    for (const label of ["The event before", "The event after"]) live.press(label);
    expect(live.moves).toEqual(["4999"]);
    const answer = { atMs: 3_000, beforeMs: 2_500, afterMs: 3_500, past: facts.past };
    const past = await bar({ at: "3000", answer });
    for (const label of ["The event before", "The event after", "back to live"]) past.press(label);
    past.press("Read the run of the fleet before");
    expect(past.moves).toEqual(["2500", "3500", "", "999"]);
  });
});
