import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byCall } from "../../../domain/lease/lobby-order.ts";
import type { LobbyRow } from "../../../domain/lease/lobby.ts";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { lobbyPlace } from "../../../machines/lobby/lobby-view.ts";
import { lobbyMachine, openLobby } from "../../../machines/lobby/lobby.ts";
import type { Lobby, LobbyCommand, LobbyEvent } from "../../../machines/lobby/lobby-state.ts";
import { keyOf } from "../../../machines/lobby/queue.ts";
import type { CallOrder, LobbyInput } from "../../../protocol/lobby-contract.ts";
import { memoryStore, playLobby, RED, type PlayedLobby } from "./played-lobby.ts";

const row = (number: number, given: Partial<LobbyRow> = {}): LobbyRow => ({
  jobId: jobId(`job-${String(number).padStart(7, "0")}`),
  runId: runId(`00000000-0000-4000-8000-${String(number).padStart(12, "0")}`),
  seq: 1,
  class: "training",
  priority: 0,
  submittedAtMs: 1_000 + number,
  gpus: 1,
  round: 0,
  ...given,
});

const news = (rows: readonly LobbyRow[], credits: readonly number[] = []) => ({
  kind: "news" as const,
  news: {
    fleet: "default",
    tenant: RED,
    rows,
    credits: credits.map((number) => ({ number, class: "training" as const })),
  },
});

/** A lobby whose calls and reports are noted; jobs in `gone` have ended. */
function opened(gone: ReadonlySet<string> = new Set()) {
  const calls: CallOrder[] = [];
  const told: unknown[] = [];
  const store = memoryStore();
  const lobby = playLobby({
    callIn: (call) => {
      if (gone.has(call.jobId)) return false;
      calls.push(call);
      return true;
    },
    tell: (entry) => told.push(entry) > 0,
    store,
  });
  return { lobby, calls, told, store };
}

async function say(lobby: PlayedLobby, rows: readonly LobbyRow[], credits: readonly number[] = []) {
  lobby.feed(news(rows, credits), 10_000);
  await lobby.settle(10_000);
}

/** One step after the other; its activities are the test's. */
function stepped(of: Pick<Lobby, "freesOne" | "forgetsCalls"> = {}) {
  let lobby = { ...openLobby({ fleet: "default", tenant: RED }, "run-1", 0), ...of };
  const open: LobbyCommand[] = [];
  return {
    lobby: () => lobby,
    feed: (event: LobbyEvent, nowMs: number): void => {
      for (const each of [event, { kind: "tick" as const }]) {
        const step = lobbyMachine.step(lobby, each, nowMs);
        lobby = step.state;
        open.push(...step.commands);
      }
    },
    lastCall: () => {
      const call = open.filter(({ kind }) => kind === "call-in").at(-1);
      if (call?.kind !== "call-in") throw new Error("nobody is called");
      return call;
    },
  };
}

/** Its row came again while it was called, so it was called under a second credit, and said that it leaves. */
test.each([
  { what: "both, and two jobs follow", isDeaf: false, want: [2, 3] },
  { what: "the first alone in runs of former releases", isDeaf: true, want: [2] },
])("the credits of a job that leaves while it is called again come back, $what", (given) => {
  const { isDeaf, want } = given;
  const { feed, lastCall } = stepped();
  feed(news([row(1)], [7]), 10_000);
  const first = lastCall();
  feed(news([row(1)]), 10_000);
  feed({ kind: "called", id: first.id, gone: [], isDeaf }, 10_000);
  feed(news([row(2), row(3)], [8]), 10_000);
  const second = lastCall();
  expect(second.calls.map(({ jobId: job }) => job)).toEqual([row(1).jobId]);
  const { jobId: job, runId: run, seq } = row(1);
  feed({ kind: "leave", leave: { jobId: job, runId: run, seq, class: "training" } }, 10_000);
  feed({ kind: "called", id: second.id, gone: [], isDeaf }, 10_000);
  expect(lastCall().calls.map(({ jobId: called }) => called)).toEqual(
    want.map((number) => row(number).jobId),
  );
});

/** So many jobs were called under two credits each, because their rows came again meanwhile; they heard of both and leave in this order. */
function calledAfter(leaving: readonly number[], of: Pick<Lobby, "freesOne"> = {}) {
  const { feed, lastCall } = stepped(of);
  const rows = leaving.map((_, at) => row(at));
  const credits = leaving.map((_, at) => 1 + at);
  feed(news(rows, credits), 10_000);
  const { id } = lastCall();
  feed(news(rows), 10_000);
  feed({ kind: "called", id, gone: [] }, 10_000);
  feed(
    news(
      [],
      credits.map((number) => rows.length + number),
    ),
    10_000,
  );
  feed({ kind: "called", id: lastCall().id, gone: [] }, 10_000);
  const others = Array.from({ length: 2 * rows.length }, (_, at) => row(100 + at));
  feed(news(others), 10_000);
  const called: string[] = [];
  for (const number of leaving) {
    const { jobId: job, runId: run, seq } = row(number);
    feed({ kind: "leave", leave: { jobId: job, runId: run, seq, class: "training" } }, 10_000);
    called.push(...lastCall().calls.map(({ jobId: next }) => next));
    feed({ kind: "called", id: lastCall().id, gone: [] }, 10_000);
  }
  return { called, others: others.map(({ jobId: job }) => job) };
}

test("both credits of which a job has heard are free when it leaves, whoever else leaves before it", () => {
  const orders = fc.integer({ min: 1, max: 6 }).chain((count) =>
    fc.shuffledSubarray(
      Array.from({ length: count }, (_, at) => at),
      { minLength: count },
    ),
  );
  fc.assert(
    fc.property(orders, (leaving) => {
      const { called, others } = calledAfter(leaving);
      expect(called).toEqual(others);
    }),
    { numRuns: 30 },
  );
  // In runs of former releases the fleet gives the other one again after a minute.
  expect(calledAfter([0], { freesOne: true }).called).toHaveLength(1);
});

/** It was asked in the moment of its call, and asks anew; the lobby hears of the new request before it hears that the call was not followed. */
describe("the credit of a job that is outside with a further request", () => {
  const overtaken = (of: Pick<Lobby, "forgetsCalls"> = {}) => {
    const played = stepped(of);
    const { feed, lastCall } = played;
    feed(news([row(1), row(2)], [7]), 10_000);
    feed({ kind: "called", id: lastCall().id, gone: [] }, 10_000);
    feed(news([row(1, { seq: 2, submittedAtMs: 9_000 })]), 10_000);
    return played;
  };
  const leave = (seq: number): LobbyEvent => {
    const { jobId: job, runId: run } = row(1);
    return { kind: "leave", leave: { jobId: job, runId: run, seq, class: "training" } };
  };

  test.each([
    { what: "comes back", of: {}, want: [2] },
    { what: "was forgotten by runs of former releases", of: { forgetsCalls: true }, want: [1] },
  ] as const)("$what when it leaves with the one that was called", ({ of, want }) => {
    const { feed, lastCall } = overtaken(of);
    feed(leave(1), 11_000);
    expect(lastCall().calls.map(({ jobId: job }) => job)).toEqual(
      want.map((number) => row(number).jobId),
    );
  });

  test("is used where it leaves with the further one alone: it had followed the call", () => {
    const { feed, lastCall, lobby } = overtaken();
    feed(leave(2), 11_000);
    expect(lastCall().calls).toMatchObject([{ jobId: row(1).jobId, credit: 7 }]);
    expect(lobby().credits).toEqual([]);
  });

  test("calls in whoever is next when the fleet gives it again", () => {
    const { feed, lastCall } = overtaken();
    feed(news([], [7]), 90_000);
    expect(lastCall().calls).toMatchObject([{ jobId: row(2).jobId, credit: 7 }]);
  });

  test("comes back in the next run of the lobby, too", () => {
    const { feed, lobby } = overtaken();
    for (let at = 0; lobby().end === undefined && at < 2_000; at += 1) {
      feed({ kind: "junk" }, 20_000);
      const { telling } = lobby();
      if (telling !== undefined) feed({ kind: "told", id: telling.id, isHeard: true }, 20_000);
    }
    const next = lobby().end?.next;
    if (next === undefined) throw new Error("the run goes on");
    const carried: unknown = JSON.parse(JSON.stringify(next)); // as Temporal does
    let after = openLobby(carried as LobbyInput, "run-2", 20_000);
    for (const event of [leave(1), { kind: "tick" as const }])
      after = lobbyMachine.step(after, event, 20_000).state;
    expect(after.calling?.calls.get(7)?.row).toMatchObject({ jobId: row(2).jobId });
  });
});

test.each([
  { what: "once, and one job follows", isFormer: false, want: 1 },
  { what: "twice in runs of former releases, which lose a job", isFormer: true, want: 0 },
])("the credit of a job that left between two calls comes back $what", ({ isFormer, want }) => {
  const { lobby, feed, lastCall } = stepped();
  feed(news([row(1), row(2), row(3)], [7]), 10_000);
  feed({ kind: "called", id: lastCall().id, gone: [], isFormer }, 10_000);
  feed(news([], [7]), 100_000);
  const { jobId: job, runId: run, seq } = row(1);
  feed({ kind: "leave", leave: { jobId: job, runId: run, seq, class: "training" } }, 100_000);
  feed({ kind: "called", id: lastCall().id, gone: [7], isFormer }, 100_000);
  const { calls } = lastCall();
  expect(calls).toHaveLength(1);
  expect(lobby().queues.training.rows).toHaveLength(want);
});

test("a lobby begins its next run, with its rows, before junk has used up the signals of this one", async () => {
  const { lobby, calls } = opened();
  await say(lobby, [row(1), row(2)]);
  for (let at = 0; at < 1_000; at += 1) lobby.feed({ kind: "junk" }, 10_000);
  await lobby.settle(10_000);
  expect(lobby.runs()).toBe(2);
  await say(lobby, [], [7]);
  expect(calls).toMatchObject([{ jobId: row(1).jobId, credit: 7 }]);
});

/** The fleet sent the second row before it heard of the first report, and took that for a count of both. */
test("a count is told again where rows came while the last report was on its way, even if it is the same", () => {
  const [atMs, laterMs] = [10_000, 60_000];
  let lobby = openLobby({ fleet: "default", tenant: RED }, "run", atMs);
  const given = (event: LobbyEvent | { readonly kind: "tick" }, nowMs: number) => {
    const step = lobbyMachine.step(lobby, event, nowMs);
    lobby = step.state;
    return step.commands;
  };
  const counts = (commands: readonly LobbyCommand[]) =>
    commands.flatMap((command) =>
      command.kind === "tell" && command.entry.kind === "lobby"
        ? [command.entry.waiting.training]
        : [],
    );
  const tick = { kind: "tick" } as const;
  given(news([row(1)]), atMs);
  const [first] = given(tick, atMs);
  expect(counts(first === undefined ? [] : [first])).toEqual([1]);
  given(news([row(2)]), atMs);
  given(tick, atMs);
  given({ kind: "told", id: first?.id ?? 0, isHeard: true }, atMs);
  given(news([], [7]), atMs);
  expect(given(tick, atMs)).toMatchObject([{ kind: "call-in" }]);
  expect(counts(given(tick, laterMs))).toEqual([1]);
});

/** It goes on for a run that was ended by hand; if it is ended before it has heard what that one was told, the fleet must not believe that nobody waits. */
describe("a lobby that goes on for another one", () => {
  const commandsOf = (of: Pick<Lobby, "reportsEarly">) => {
    let lobby = {
      ...openLobby({ fleet: "default", tenant: RED, former: ["run-0"] }, "run-1", 0),
      ...of,
    };
    return (event: LobbyEvent): readonly LobbyCommand[] => {
      const heard = lobbyMachine.step(lobby, event, 10_000).state;
      const step = lobbyMachine.step(heard, { kind: "tick" }, 10_000);
      lobby = step.state;
      return step.commands;
    };
  };

  test("neither reports nor gives a credit back before it has been told again what that one was told", () => {
    const after = commandsOf({});
    const [retell, ...more] = after(news([], [7]));
    expect([retell?.kind, more]).toEqual(["retell", []]);
    expect(after(news([row(1)]))).toMatchObject([{ kind: "call-in", calls: [{ credit: 7 }] }]);
    expect(after({ kind: "retold", id: retell?.id ?? 0 })).toMatchObject([{ kind: "tell" }]);
  });

  test("did so in runs of former releases", () => {
    const after = commandsOf({ reportsEarly: true });
    expect(after(news([], [7]))).toMatchObject([
      { kind: "tell", entry: { returned: [7] } },
      { kind: "retell" },
    ]);
  });
});

describe("a credit", () => {
  test("calls in exactly one job: the highest priority, then the earliest submission", async () => {
    const { lobby, calls } = opened();
    await say(lobby, [row(2), row(1), row(3, { priority: 5 }), row(4, { round: 1, priority: 9 })]);
    await say(lobby, [], [7, 8, 9]);
    expect(calls).toMatchObject([
      { credit: 7, jobId: row(3).jobId },
      { credit: 8, jobId: row(1).jobId },
      { credit: 9, jobId: row(2).jobId },
    ]);
  });

  test("given twice at once calls in nobody else; given again later it reaches the same job again", async () => {
    const { lobby, calls } = opened();
    await say(lobby, [row(1), row(2)], [1]);
    await say(lobby, [], [1]);
    expect(calls).toHaveLength(1);
    lobby.feed(news([], [1]), 60_000);
    await lobby.settle(60_000);
    expect(calls.map((call) => call.jobId)).toEqual([row(1).jobId, row(1).jobId]);
  });

  test("of a job that has ended goes to the next", async () => {
    const { lobby, calls } = opened(new Set([row(1).jobId]));
    await say(lobby, [row(1), row(2)], [1]);
    expect(calls).toMatchObject([{ credit: 1, jobId: row(2).jobId }]);
  });

  test("of a job that was called in and has left before it asked goes to the next", async () => {
    const { lobby, calls } = opened();
    await say(lobby, [row(1), row(2)], [1]);
    const { jobId: job, runId: run } = row(1);
    lobby.feed(
      { kind: "leave", leave: { jobId: job, runId: run, seq: 1, class: "training" } },
      11_000,
    );
    await lobby.settle(11_000);
    expect(calls.map((call) => call.jobId)).toEqual([row(1).jobId, row(2).jobId]);
  });

  test("for which nobody waits goes back to the fleet at once", async () => {
    const { lobby, told } = opened();
    await say(lobby, [], [4, 5]);
    expect(told).toMatchObject([{ kind: "lobby", tenant: RED, returned: [4, 5] }]);
  });

  test("is for jobs of its class alone", async () => {
    const { lobby, told, calls } = opened();
    await say(lobby, [row(1, { class: "inference" })], [1]);
    expect(calls).toEqual([]);
    expect(told).toMatchObject([{ returned: [1], waiting: { inference: 1 } }]);
  });
});

describe("a row", () => {
  test("of a job that has left is not called, also when it comes late or is repeated", async () => {
    const { lobby, calls } = opened();
    const { jobId: job, runId: run } = row(1);
    lobby.feed({ kind: "leave", leave: { jobId: job, runId: run, seq: 1, class: "training" } }, 0);
    await say(lobby, [row(1), row(2), row(2)], [1]);
    expect(calls).toMatchObject([{ jobId: row(2).jobId }]);
  });

  test("with a higher number stands instead of the former", async () => {
    const { lobby, calls, told } = opened();
    await say(lobby, [row(1), row(1, { seq: 3 }), row(1, { seq: 2 })], [1, 2]);
    expect(calls).toMatchObject([{ seq: 3 }]);
    expect(told).toMatchObject([{ returned: [2] }]);
  });

  test("that cannot be read is dropped", async () => {
    const { lobby, calls } = opened();
    for (const junk of [
      null,
      7,
      { rows: 4 },
      { rows: [{ ...row(1), priority: "x" }], credits: [1] },
    ])
      lobby.feed({ kind: "news", news: junk }, 0);
    await say(lobby, [row(2)], [1]);
    expect(calls).toMatchObject([{ jobId: row(2).jobId }]);
  });
});

test("a lobby without rows ends after a minute, once the fleet knows", async () => {
  const { lobby, told } = opened();
  await say(lobby, [row(1)], [1]);
  for (let times = 0; times < 10 && !lobby.isOver(); times += 1)
    await lobby.settle(lobby.dueAtMs());
  expect(lobby.isOver()).toBe(true);
  expect(told.at(-1)).toMatchObject({ waiting: { training: 0 } });
});

test("a fleet that lost its ledger hears the count again, and gives credits anew", async () => {
  const { lobby, told, calls } = opened();
  await say(lobby, [row(1), row(2), row(3)], [1]);
  lobby.feed({ kind: "report-again" }, 20_000);
  await lobby.settle(20_000);
  expect(told.at(-1)).toMatchObject({ waiting: { training: 2 } });
  await say(lobby, [], [1]);
  expect(calls.map((call) => call.jobId)).toEqual([row(1).jobId, row(2).jobId]);
});

test("the place of a job counts those before it, in memory and in the store", async () => {
  const { lobby } = opened();
  const rows = Array.from({ length: 5_000 }, (_, at) => row(at));
  for (let at = 0; at < rows.length; at += 250) await say(lobby, rows.slice(at, at + 250));
  const first = lobbyPlace(lobby.state(), row(10));
  expect(first).toEqual({ place: 11, isExact: true, waiting: 5_000 });
  const later = lobbyPlace(lobby.state(), row(4_000));
  expect(later?.isExact).toBe(false);
  expect(Math.abs((later?.place ?? 0) - 4_001)).toBeLessThan(400);
});

test("20,000 rows lie in the store; a run hands less than 700 KiB to the next; all are called in order", async () => {
  const { lobby, calls, store } = opened();
  const rows = Array.from({ length: 20_000 }, (_, at) =>
    row(at, { priority: (at * 7_919) % 11, submittedAtMs: (at * 104_729) % 1_000_003 }),
  );
  for (let at = 0; at < rows.length; at += 200) await say(lobby, rows.slice(at, at + 200));
  expect(store.values.size).toBeGreaterThan(40);
  for (let credit = 1; credit <= rows.length; credit += 500)
    await say(
      lobby,
      [],
      Array.from({ length: 500 }, (_, at) => credit + at),
    );
  expect(Math.max(...lobby.carriedBytes)).toBeLessThan(700 * 1024);
  expect(lobby.runs()).toBeGreaterThan(3);
  expect(calls.map((call) => call.jobId)).toEqual([...rows].sort(byCall).map((each) => each.jobId));
});

const word = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("rows" as const),
      from: fc.nat(400),
      count: fc.integer({ min: 1, max: 60 }),
      priority: fc.nat(3),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("leave" as const), job: fc.nat(460) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("credits" as const),
      count: fc.integer({ min: 1, max: 30 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("again" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("end" as const), job: fc.nat(460) }) },
);

test("whatever comes, no credit is lost or used twice, and every job that waits is called in", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 40 }), async (words) => {
      const outside = new Map<string, LobbyRow>();
      const ended = new Set<string>();
      const inside = new Map<number, string>();
      const returned = new Set<number>();
      const store = memoryStore();
      const lobby = playLobby({
        store,
        callIn: (call) => {
          const key = keyOf(call);
          if (ended.has(key)) return false;
          inside.set(call.credit, key);
          if (outside.get(key)?.seq === call.seq) outside.delete(key);
          else leave(row(Number(call.jobId.slice(4)), { seq: call.seq }));
          return true;
        },
        tell: (entry) => {
          if (entry.kind === "lobby") entry.returned.forEach((credit) => returned.add(credit));
          return true;
        },
      });
      let nowMs = 0;
      let credit = 0;
      const leave = ({ jobId: job, runId: run, seq, class: name }: LobbyRow): void =>
        lobby.feed({ kind: "leave", leave: { jobId: job, runId: run, seq, class: name } }, nowMs);
      const known: LobbyRow[][] = [];
      for (const each of words) {
        nowMs += 1_000;
        if (each.kind === "rows") {
          const rows = Array.from({ length: each.count }, (_, at) =>
            row(each.from + at, { priority: each.priority }),
          ).filter((of) => !ended.has(keyOf(of)) && ![...inside.values()].includes(keyOf(of)));
          for (const of of rows) if (!outside.has(keyOf(of))) outside.set(keyOf(of), of);
          known.push(rows);
          lobby.feed(news(rows), nowMs);
        }
        if (each.kind === "again") lobby.feed(news(known.at(-1) ?? []), nowMs);
        const gone = "job" in each ? outside.get(keyOf(row(each.job))) : undefined;
        if (gone !== undefined) {
          ended.add(keyOf(gone));
          outside.delete(keyOf(gone));
          if (each.kind === "leave") leave(gone);
        }
        if (each.kind === "credits") {
          const credits = Array.from({ length: each.count }, () => (credit += 1));
          lobby.feed(news([], credits), nowMs);
          lobby.feed(news([], credits), nowMs);
        }
        if (nowMs % 3_000 === 0) await lobby.settle(nowMs);
      }
      await lobby.settle(nowMs);
      // Credits for the rest: none waits in vain.
      for (let rounds = 0; outside.size > 0 && rounds < 1_000; rounds += 1) {
        lobby.feed(news([], [(credit += 1)]), nowMs);
        await lobby.settle(nowMs);
      }
      expect([...outside.keys()]).toEqual([]);
      for (let number = 1; number <= credit; number += 1)
        expect(inside.has(number) !== returned.has(number)).toBe(true);
    }),
    { numRuns: 60 },
  );
});
