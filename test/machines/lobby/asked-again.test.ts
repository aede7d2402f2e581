/** @file A lobby whose fleet has lost its ledger is asked again and again, and keeps what the present ledger has given between. */

import { expect, test } from "vitest";
import type { LobbyRow } from "../../../domain/lease/lobby.ts";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { lobbyMachine, openLobby } from "../../../machines/lobby/lobby.ts";
import type { Lobby, LobbyEvent } from "../../../machines/lobby/lobby-state.ts";
import { RED } from "./played-lobby.ts";

const LOST = 1_000_001;

const row = (number: number): LobbyRow => ({
  jobId: jobId(`job-${number}`),
  runId: runId(`run-${number}`),
  seq: 1,
  class: "training",
  priority: 0,
  submittedAtMs: number,
  gpus: 1,
  round: 0,
});

const news = (rows: readonly LobbyRow[], ...numbers: readonly number[]): LobbyEvent => ({
  kind: "news",
  news: { rows, credits: numbers.map((number) => ({ number, class: "training" })) },
});

const askedAgain = (again?: unknown): LobbyEvent => ({ kind: "report-again", again });

/** What it has after events of one moment. */
function after(
  events: readonly LobbyEvent[],
  of: Pick<Lobby, "forgetsAll"> = {},
): readonly (readonly [credit: number, job: string])[] {
  const opened: Lobby = { ...openLobby({ fleet: "default", tenant: RED }, "run-1", 0), ...of };
  const { calling, credits } = [...events, { kind: "tick" as const }].reduce(
    (lobby, event) => lobbyMachine.step(lobby, event, 1_000).state,
    opened,
  );
  expect(credits).toEqual([]);
  return [...(calling?.calls ?? [])].map(([number, call]) => [number, call.row.jobId]);
}

test.each([
  ["credits of the lost ledger are forgotten", { creditsFrom: LOST }, [[LOST, "job-1"]]],
  ["all are forgotten where the fleet says no number", undefined, []],
  ["a word that cannot be read says none", { creditsFrom: "7" }, []],
] as const)("%s", (_what, again, want) => {
  expect(after([news([row(1), row(2)], 7, LOST), askedAgain(again)])).toEqual(want);
});

test("runs of former releases forget all", () => {
  const events = [news([row(1)], LOST), askedAgain({ creditsFrom: LOST })];
  expect(after(events, { forgetsAll: true })).toEqual([]);
});

test("a job that was called under the present ledger is called again with its credit", () => {
  const called: LobbyEvent = { kind: "called", id: 1, gone: [] };
  const opened = openLobby({ fleet: "default", tenant: RED }, "run-1", 0);
  const events = [
    [news([row(1), row(2)], LOST), 1_000],
    [called, 2_000],
    [askedAgain({ creditsFrom: LOST }), 3_000],
    [news([], LOST), 60_000],
  ] as const;
  const { calling } = events.reduce(
    (lobby, [event, atMs]) =>
      lobbyMachine.step(lobbyMachine.step(lobby, event, atMs).state, { kind: "tick" }, atMs).state,
    opened,
  );
  expect([...(calling?.calls ?? [])].map(([, call]) => call.row.jobId)).toEqual([row(1).jobId]);
});

test("what goes back to the fleet of the present ledger still goes back, and once", () => {
  const opened: Lobby = {
    ...openLobby({ fleet: "default", tenant: RED }, "run-1", 0),
    returned: [7, LOST, LOST + 1],
  };
  const step = (lobby: Lobby, event: LobbyEvent | { readonly kind: "tick" }) =>
    lobbyMachine.step(lobby, event, 1_000);
  const telling = step(opened, { kind: "tick" });
  expect(telling.state.telling?.returned).toBe(3);
  const asked = step(step(telling.state, askedAgain({ creditsFrom: LOST })).state, {
    kind: "tick",
  }).state;
  expect(asked.returned).toEqual([LOST, LOST + 1]);
  const id = asked.telling?.id ?? 0;
  expect(step(asked, { kind: "told", id, isHeard: true }).state.returned).toEqual([]);
});

test("runs of former releases cut off as much as they told, whatever came since, and count the question without its number", () => {
  const asked = (again: unknown) => {
    const opened: Lobby = {
      ...openLobby({ fleet: "default", tenant: RED }, "run-1", 0),
      ...{ forgetsAll: true as const, returned: [7] },
    };
    return [
      { kind: "tick" as const },
      askedAgain(again),
      { kind: "tick" as const },
      news([], LOST),
      { kind: "tick" as const },
    ].reduce<Lobby>((lobby, event) => lobbyMachine.step(lobby, event, 1_000).state, opened);
  };
  const { telling, returned, spent } = asked({ creditsFrom: LOST });
  expect(returned).toEqual([LOST]);
  expect(telling?.returned).toBe(1);
  const told: LobbyEvent = { kind: "told", id: telling?.id ?? 0, isHeard: true };
  const heard = lobbyMachine.step(asked({ creditsFrom: LOST }), told, 1_000).state;
  expect(heard.returned).toEqual([]);
  expect(spent).toEqual(asked(undefined).spent);
});
