/**
 * @file The lobby of one tenant: lists the requests for which its fleet has no place, and calls one job in for each credit that the fleet gives.
 *
 * Signals are only noted, and the tick after them folds all that came together. Then, each at most once at a time: credits are used, the
 * store is used, the fleet is told how many wait. Nothing polls: an idle lobby has no timer but the one that ends it, a minute after the last
 * row has gone. The fleet opens it again with its next word, and numbers credits itself, so an ended lobby takes no memory with it.
 * The run continues as new by the machine's own count of what it has added to the history, once nothing is under way.
 */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import { packRow, type CarriedLobby, type LobbyInput } from "../../protocol/lobby-contract.ts";
import type { Machine, Tick } from "../machine.ts";
import { andThen, quiet } from "../steps.ts";
import { endCalls, useCredits } from "./credits.ts";
import { foldArrivals } from "./fold.ts";
import {
  COST,
  issue,
  spend,
  totalOf,
  waitingByClass,
  type Called,
  type Lobby,
  type LobbyCommand,
  type LobbyEvent,
  type LobbyStep,
} from "./lobby-state.ts";
import { readCarried, readFormer } from "./carried.ts";
import { carriedQueue, isSmall, openQueue } from "./queue.ts";
import { endReport, reportDueAtMs, tellFleet } from "./reports.ts";
import {
  endKeeping,
  endKeepingLeavers,
  endLoading,
  endMerging,
  endWithLoss,
  useStore,
} from "./storing.ts";

/** An empty lobby ends after so long. */
const IDLE_MS = 60_000;
const CONTINUE_AT_EVENTS = 1_500;
const CONTINUE_AT_BYTES = 2 * 1024 * 1024;
/** Past this the run ends even if more rows lie in memory than the store should leave there. */
const CONTINUE_AT_ANY_COST_EVENTS = 10_000;

export const lobbyMachine: Machine<Lobby, LobbyEvent, LobbyCommand> = {
  step: (lobby, event, nowMs) =>
    lobby.end === undefined ? stepLobby(lobby, event, nowMs) : quiet(lobby),
  dueAtMs,
};

/** `runId`: of the workflow. */
export function openLobby(
  { fleet, tenant, carried, isMusterDue, ...input }: LobbyInput,
  runId: string,
  nowMs: number,
): Lobby {
  const read = readCarried(carried);
  const former = readFormer(input.former);
  const queues = new Map(read.queues.map((each) => [each.class, each]));
  const { reported, credits, called, returned, reports, unused, nextId } = read;
  return {
    fleet,
    tenant,
    arrivals: undefined,
    queues: {
      inference: queues.get("inference") ?? openQueue("inference"),
      interactive: queues.get("interactive") ?? openQueue("interactive"),
      training: queues.get("training") ?? openQueue("training"),
    },
    credits,
    called: new Map(called.map((call) => [call.credit.number, call])),
    returned,
    former,
    // Nobody knows whom the rows meant that could not be read.
    isMusterDue: read.isTorn || isMusterDue === true,
    // After an end by hand the fleet may know better, or worse.
    ...(reported !== undefined && former.length === 0 && { reported }),
    reports,
    tellAtMs: 0,
    retryAtMs: 0,
    busyAtMs: nowMs,
    unused: { now: [], before: unused },
    nextId,
    runId,
    spent: { events: 0, bytes: 0 },
    isStirred: true,
  };
}

function stepLobby(lobby: Lobby, event: LobbyEvent | Tick, nowMs: number): LobbyStep {
  if (event.kind !== "tick") return quiet({ ...take(lobby, event, nowMs), isStirred: true });
  const folded = foldArrivals(spend({ ...lobby, isStirred: false }, COST.timer), nowMs);
  if (mustContinue(folded)) return quiet(isAtRest(folded) ? continued(folded) : folded);
  const used = [useCredits, useStore, tellFleet, muster, retell].reduce<LobbyStep>(
    (step, next) => andThen(step, (before) => next(before, nowMs)),
    quiet(folded),
  );
  return { ...used, state: ended(used.state, nowMs) };
}

function take(lobby: Lobby, event: LobbyEvent, nowMs: number): Lobby {
  switch (event.kind) {
    case "news":
    case "leave":
    case "report-again": {
      const isBare = event.kind === "report-again" && lobby.forgetsAll === true;
      const word = isBare ? { kind: event.kind } : event;
      return spend({ ...lobby, arrivals: { word, before: lobby.arrivals } }, COST.signal, word);
    }
    case "junk":
      return spend(lobby, COST.signal);
    case "called":
      return endCalls(lobby, event);
    case "kept":
      return endKeeping(lobby, event.id, event.run);
    case "leavers-kept":
      return endKeepingLeavers(lobby, event.id, event.key);
    case "loaded":
      return endLoading(spend(lobby, 0, event.rows), event.id, event.rows);
    case "merged":
      return endMerging(lobby, event.id, event.run);
    case "lost":
      return endWithLoss(lobby, event.id);
    case "told":
      return endReport(lobby, event, nowMs);
    case "retold": {
      const { retellingId, ...rest } = lobby;
      return retellingId === event.id ? { ...rest, former: [] } : lobby;
    }
    case "mustered": {
      const { musterId, ...rest } = lobby;
      return musterId === event.id ? rest : lobby;
    }
  }
}

function dueAtMs(lobby: Lobby): number {
  if (lobby.end !== undefined) return Infinity;
  if (lobby.isStirred) return 0;
  // What is under way brings the next tick.
  if (mustContinue(lobby)) return Infinity;
  const endAtMs = isEmpty(lobby) ? lobby.busyAtMs + IDLE_MS : Infinity;
  return Math.min(reportDueAtMs(lobby), endAtMs);
}

/** Asks for those whose rows were lost. */
function muster(lobby: Lobby): LobbyStep {
  if (!lobby.isMusterDue || lobby.musterId !== undefined) return quiet(lobby);
  return issue(lobby, (id) => ({
    change: { isMusterDue: false, musterId: id },
    command: { kind: "muster", id },
  }));
}

/** Has the words told again that were lost with a run. */
function retell(lobby: Lobby): LobbyStep {
  const { former: runs, retellingId } = lobby;
  if (runs.length === 0 || retellingId !== undefined) return quiet(lobby);
  return issue(lobby, (id) => ({
    change: { retellingId: id },
    command: { kind: "retell", id, runs },
  }));
}

/** Nothing waits, is under way or is to be told. */
const isEmpty = (lobby: Lobby): boolean =>
  isAtRest(lobby) &&
  lobby.arrivals === undefined &&
  lobby.credits.length === 0 &&
  lobby.returned.length === 0 &&
  !lobby.isMusterDue &&
  lobby.former.length === 0 &&
  totalOf(waitingByClass(lobby)) === 0 &&
  lobby.reported !== undefined &&
  totalOf(lobby.reported.waiting) === 0;

function ended(lobby: Lobby, nowMs: number): Lobby {
  if (!isEmpty(lobby)) return { ...lobby, busyAtMs: nowMs };
  return nowMs >= lobby.busyAtMs + IDLE_MS ? { ...lobby, end: {} } : lobby;
}

const isAtRest = (lobby: Lobby): boolean =>
  lobby.calling === undefined &&
  lobby.storing === undefined &&
  lobby.telling === undefined &&
  lobby.musterId === undefined &&
  lobby.retellingId === undefined;

function mustContinue(lobby: Lobby): boolean {
  const { spent, queues } = lobby;
  if (spent.events >= CONTINUE_AT_ANY_COST_EVENTS) return true;
  if (spent.events < CONTINUE_AT_EVENTS && spent.bytes < CONTINUE_AT_BYTES) return false;
  return JOB_CLASSES.every((name) => isSmall(queues[name]));
}

function continued(lobby: Lobby): Lobby {
  const {
    fleet,
    tenant,
    queues,
    credits,
    called,
    returned,
    reported,
    reports,
    unused,
    nextId,
    former,
  } = lobby;
  const next: LobbyInput = {
    fleet,
    tenant,
    ...(former.length > 0 && { former }),
    ...(lobby.isMusterDue && { isMusterDue: true }),
    carried: {
      queues: JOB_CLASSES.map((name) => carriedQueue(queues[name])),
      credits,
      called: [...called.values()].map(packCall),
      returned,
      ...(reported !== undefined && { reported }),
      reports,
      unused: [...unused.before, ...unused.now],
      nextId,
    },
  };
  return { ...lobby, end: { next } };
}

const packCall = ({ credit, row, atMs, isOvertaken }: Called): CarriedLobby["called"][number] =>
  isOvertaken ? [credit, packRow(row), atMs, true] : [credit, packRow(row), atMs];
