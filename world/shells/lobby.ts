/**
 * @file The workflow of a tenant's lobby in a world, as `workflows/lobby/lobby.ts` and `activities/lobby-*.ts` carry it out.
 *
 * A world's lobbies are too small to use the store: a command to it is a hole in the model, and is said to be one.
 */

import { lobbyMachine, openLobby } from "../../machines/lobby/lobby.ts";
import type { Lobby, LobbyCommand, LobbyEvent } from "../../machines/lobby/lobby-state.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type { LobbyExit, LobbyInput } from "../../protocol/lobby-contract.ts";
import type { LobbyNews } from "../../protocol/lobby.ts";
import { fleetWorkflowId, lobbyWorkflowId } from "../../protocol/names.ts";
import type { Process, Task } from "../kernel/process.ts";
import type { ActivityEnd } from "../temporal/activity.ts";
import { openRun } from "../temporal/run.ts";
import type { Server } from "../temporal/server.ts";
import type { WorkflowRun, WorkflowType } from "../temporal/workflow.ts";
import { askAll, askOpenRun } from "./open-run.ts";
import { JOB_QUEUE, type Site } from "./site.ts";

const EVERYBODY_ELSE = "*" as TenantId; // OTHER_TENANTS

export function registerLobby(site: Site): void {
  const { server, planted } = site;
  const machine = planted.lobby?.(lobbyMachine) ?? lobbyMachine;
  server.register("lobby", (identity, input) => {
    const given = input as LobbyInput; // of `lobbyInputFor`, or of the run before
    const type: WorkflowType<Lobby, LobbyEvent, LobbyCommand> = {
      queue: JOB_QUEUE,
      machine,
      open: ({ runId }, nowMs) => ({ state: openLobby(given, runId, nowMs), commands: [] }),
      signal: (name, payload) => {
        if (name === "lobby-news") return { kind: "news", news: payload };
        if (name === "lobby-leave") return { kind: "leave", leave: payload };
        return name === "report-again" ? { kind: name, again: payload } : undefined;
      },
      atOnce: () => undefined,
      isLocal: () => false,
      *local() {
        return undefined;
      },
      carryOut: (command, run) => carryOut(site, given, { command, run }),
      endOf: ({ end }) => {
        if (end === undefined) return undefined;
        return end.next === undefined
          ? { kind: "completed" }
          : { kind: "continued", input: end.next };
      },
    };
    return openRun(server, type, identity);
  });
}

function carryOut(
  site: Site,
  { fleet, tenant }: LobbyInput,
  {
    command,
    run,
  }: { readonly command: LobbyCommand; readonly run: WorkflowRun<Lobby, LobbyEvent> },
): void {
  // Judged by what the lobby knew, not by when a worker gets to it.
  if (command.kind === "call-in")
    for (const call of command.calls) site.noteCall(run.workflowId, call);
  site.activity<LobbyEvent>(run, {
    queue: JOB_QUEUE,
    name: `${run.workflowId}-${command.id}`,
    startToCloseMs: 60_000,
    body: ({ process }) => body(site, process, { command, lobby: lobbyWorkflowId(fleet, tenant) }),
    onEnd: (outcome) => {
      if (outcome.kind === "done") run.arrive({ kind: "event", event: outcome.value });
    },
  });
}

function* body(
  site: Site,
  process: Process,
  { command, lobby }: { readonly command: LobbyCommand; readonly lobby: string },
): Task<ActivityEnd<LobbyEvent>> {
  const { id } = command;
  const { network, server } = site;
  switch (command.kind) {
    case "call-in": {
      const gone: number[] = [];
      for (const call of command.calls) {
        const { jobId: to, runId, ...payload } = call;
        const reply = yield* network.call(process, () =>
          server.signal(to, { name: "call-in", payload, runId }),
        );
        if (!reply.isHeard) return FAILED;
        if (reply.value) continue;
        if (!(yield* askOpenRun(site, process, to))) return FAILED;
        gone.push(payload.credit);
      }
      return { kind: "done", value: { kind: "called", id, gone } };
    }
    case "tell": {
      const { fleet } = command.entry as { readonly fleet?: string };
      const to = fleetWorkflowId(fleet ?? "default");
      const result = yield* site.tellFleet(process, to, command.entry);
      if (result === undefined) return FAILED;
      return { kind: "done", value: { kind: "told", id, isHeard: result.kind === "delivered" } };
    }
    case "retell": {
      const reply = yield* network.call(process, () => retell(server, lobby, command.runs));
      return reply.isHeard ? { kind: "done", value: { kind: "retold", id } } : FAILED;
    }
    case "muster": {
      const reply = yield* network.call(process, () => askAll(server));
      return reply.isHeard ? { kind: "done", value: { kind: "mustered", id } } : FAILED;
    }
    default:
      throw new Error(`the world has no store for lobbies: ${command.kind}`);
  }
}

/** What closed runs of the lobby were told, without credits, which the fleet gives again by itself. */
function retell(server: Server, lobby: string, runs: readonly string[]): void {
  for (const { name, payload } of server.signalsOf(runs)) {
    const isNews = name === "lobby-news" && typeof payload === "object" && payload !== null;
    if (name === "lobby-leave") server.signal(lobby, { name, payload });
    if (isNews) server.signal(lobby, { name, payload: { ...payload, credits: [] } });
  }
}

/** As `activities/lobby-post.ts` makes it. */
export function lobbyInputFor(
  server: Server,
  { fleet, tenant }: LobbyNews,
  workflowId: string,
): LobbyInput {
  const empty: LobbyInput = { fleet, tenant };
  const last = server.lastRun(workflowId);
  const end = last?.run.end()?.kind;
  if (last === undefined || end === undefined || end === "completed") return empty;
  const input = last.input as LobbyInput; // of a lobby
  return { ...input, former: [...(input.former ?? []), last.run.runId] };
}

/** A word that is lost costs a call in vain. */
export function* leaveLobby(
  { network, server }: Site,
  process: Process,
  { fleet, tenant, ...payload }: LobbyExit,
): Task<void> {
  for (const at of [tenant, EVERYBODY_ELSE]) {
    const id = lobbyWorkflowId(fleet, at);
    const reply = yield* network.call(process, () =>
      server.signal(id, { name: "lobby-leave", payload }),
    );
    if (!reply.isHeard || reply.value) return;
  }
}

const FAILED: ActivityEnd<never> = { kind: "failed", code: "UNAVAILABLE" };
