/**
 * @file Tells the fleet how many wait in its lobby, and which credits come back.
 *
 * A credit goes back at once, for another tenant may use its place. A count is only told when it may have changed, at most every five seconds: the
 * fleet counts the rows that it sends and the credits that it gives by itself. A lobby that goes on for one that was ended by hand says nothing before it has
 * heard what that one was told: the fleet would believe that nobody waits, and never open the lobby again if this one is ended, too. Where rows came while a report was on its way, another one follows,
 * even of the same count: the fleet may have sent these rows before it heard that report, which then counts as if it knew them. Cost: O(1) a report.
 */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { FirstByClass } from "../../domain/lease/lobby.ts";
import { quiet } from "../steps.ts";
import { firstWaiting } from "./queue.ts";
import {
  isRetelling,
  issue,
  waitingByClass,
  type Lobby,
  type LobbyEvent,
  type LobbyStep,
} from "./lobby-state.ts";

const PAUSE_MS = 5_000;
const MAX_RETURNED = 1_000;

/** Infinite when there is nothing to tell, or a report is on its way. */
export function reportDueAtMs(lobby: Lobby): number {
  if (lobby.telling !== undefined || isRetelling(lobby)) return Infinity;
  if (lobby.returned.length > 0) return lobby.retryAtMs;
  return isCountNews(lobby) ? lobby.tellAtMs : Infinity;
}

function isCountNews({ reported, ...lobby }: Lobby): boolean {
  if (reported === undefined) return true;
  const waiting = waitingByClass(lobby);
  return JOB_CLASSES.some((name) => waiting[name] !== reported.waiting[name]);
}

export function tellFleet(lobby: Lobby, nowMs: number): LobbyStep {
  if (reportDueAtMs(lobby) > nowMs) return quiet(lobby);
  const waiting = waitingByClass(lobby);
  const returned = lobby.returned.slice(0, MAX_RETURNED);
  const report = Math.max(lobby.reports + 1, nowMs);
  return issue(lobby, (id) => ({
    change: { reports: report, telling: { id, reported: { waiting }, returned: returned.length } },
    command: {
      kind: "tell",
      id,
      entry: {
        kind: "lobby",
        tenant: lobby.tenant,
        report,
        waiting,
        first: firstByClass(lobby),
        returned,
      },
    },
  }));
}

function firstByClass({ queues }: Lobby): FirstByClass {
  const first = JOB_CLASSES.map((name) => [name, firstWaiting(queues[name])] as const);
  return Object.fromEntries(first.filter(([, waiting]) => waiting !== undefined));
}

/** A fleet that does not answer is told again later. */
export function endReport(
  lobby: Lobby,
  { id, isHeard, isFormer = false }: Extract<LobbyEvent, { readonly kind: "told" }>,
  nowMs: number,
): Lobby {
  const { telling, ...rest } = lobby;
  if (telling?.id !== id) return lobby;
  const tellAtMs = nowMs + PAUSE_MS;
  if (!isHeard) return { ...rest, tellAtMs, retryAtMs: tellAtMs };
  const isKnown = telling.isOld !== true || isFormer;
  return {
    ...rest,
    ...(isKnown && { reported: telling.reported }),
    tellAtMs,
    retryAtMs: 0,
    returned: rest.returned.slice(telling.returned),
  };
}
