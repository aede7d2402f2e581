/**
 * @file The workflow of a tenant's lobby: feeds its machine (`machines/lobby/lobby.ts`) and carries out the machine's commands.
 *
 * It runs on the jobs' workers, so that a flood of one tenant holds up no fleet; the fleet's worker has the store. No activity is local:
 * several at a time end in another order on replay (docs/decisions/0014).
 */

import {
  continueAsNew,
  patched,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { Lobby, LobbyCommand, LobbyEvent } from "../../machines/lobby/lobby-state.ts";
import { lobbyMachine, openLobby } from "../../machines/lobby/lobby.ts";
import { lobbyPlace, lobbyRows, lobbySummary } from "../../machines/lobby/lobby-view.ts";
import type { JobActivities } from "../../protocol/control-contract.ts";
import type {
  LobbyActivities,
  LobbyInput,
  LobbyStoreActivities,
} from "../../protocol/lobby-contract.ts";
import {
  FLEET_TASK_QUEUE,
  fleetWorkflowId,
  lobbyLeaveSignal,
  lobbyNewsSignal,
  lobbyPlaceQuery,
  lobbyRowsQuery,
  countAgainSignal,
} from "../../protocol/messages.ts";
import { drive } from "../runtime/drive.ts";
import { answerAboutDisbelieved, BY_ACTIVITY } from "../runtime/proven-words.ts";
import { onJunk, onSignal } from "../runtime/signal-intake.ts";
import { askForProof as askRunForProof } from "../runtime/word-gate.ts";

const { tellFleet, callIn } = proxyActivities<
  Pick<JobActivities, "tellFleet"> & Pick<LobbyActivities, "callIn">
>({
  summary: "news for the fleet and for jobs",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});
const { musterJobs, retellLobby } = proxyActivities<
  Pick<LobbyActivities, "musterJobs" | "retellLobby">
>({
  summary: "jobs that wait outside, counted anew",
  startToCloseTimeout: "30m",
  heartbeatTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});
const { keepRows, keepLeavers, loadRows } = proxyActivities<
  Omit<LobbyStoreActivities, "mergeRows">
>({
  summary: "rows of waiting jobs, in the store",
  taskQueue: FLEET_TASK_QUEUE,
  startToCloseTimeout: "30s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});
const { mergeRows } = proxyActivities<Pick<LobbyStoreActivities, "mergeRows">>({
  summary: "rows of waiting jobs, merged",
  taskQueue: FLEET_TASK_QUEUE,
  startToCloseTimeout: "10m",
  heartbeatTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});

/** Of this run. */
let isProofAsked = false;

function askForProof(): void {
  isProofAsked = true;
  askRunForProof({ ofOrders: true });
}

export async function lobby(input: LobbyInput): Promise<void> {
  if (input.isProofAsked === true) askForProof();
  const isRevived = (input.former ?? []).length > 0;
  const opened: Lobby = {
    ...openLobby(input, workflowInfo().runId, Date.now()),
    ...(!patched("leaves-free-all-credits") && { freesOne: true as const }),
    ...(!patched("overtaken-calls") && { forgetsCalls: true as const }),
    ...(!patched("credits-of-present-ledger") && { forgetsAll: true as const }),
    ...(isRevived && !patched("retold-before-reports") && { reportsEarly: true as const }),
  };
  const fleet = fleetWorkflowId(opened.fleet);
  const { state, feed, until } = drive<Lobby, LobbyEvent, LobbyCommand>({
    machine: lobbyMachine,
    state: opened,
    carryOut: (command) => carryOut(command, opened, fleet),
    show: (resting) => setCurrentDetails(lobbySummary(resting)),
    wordsBy: BY_ACTIVITY,
  });
  onJunk(() => feed({ kind: "junk" }));
  onSignal(lobbyNewsSignal, (news) => feed({ kind: "news", news }));
  onSignal(lobbyLeaveSignal, (leave) => feed({ kind: "leave", leave }));
  onSignal(countAgainSignal, (again) => feed({ kind: "report-again", again }));
  answerAboutDisbelieved();
  setHandler(lobbyRowsQuery, () => lobbyRows(state()));
  setHandler(lobbyPlaceQuery, (question) => lobbyPlace(state(), question));
  const { end } = await until((now) => now.end !== undefined);
  if (end?.next !== undefined)
    await continueAsNew<typeof lobby>({ ...end.next, ...(isProofAsked && { isProofAsked }) });
}

async function carryOut(
  command: LobbyCommand,
  { fleet: name, tenant }: Lobby,
  fleet: string,
): Promise<LobbyEvent> {
  const { id } = command;
  switch (command.kind) {
    case "call-in": {
      const answer = await callIn(command.calls, fleet);
      // Of a lobby that was open before its fleet began to ask.
      if (answer.isProofAsked === true) askForProof();
      // Runs of former releases had a credit twice whose job left between two calls, and replay so.
      const isFormer = !patched("credits-once");
      const isDeaf = !patched("leaves-of-all-calls");
      return { kind: "called", id, gone: answer.gone, isFormer, isDeaf };
    }
    case "keep-rows":
      return { kind: "kept", id, run: await keepRows({ name: command.name, rows: command.rows }) };
    case "keep-leavers":
      return {
        kind: "leavers-kept",
        id,
        key: await keepLeavers({ name: command.name, leavers: command.leavers }),
      };
    case "load": {
      const loaded = await loadRows({ runs: command.runs, maxBytes: command.maxBytes });
      return loaded.kind === "lost" ? { ...loaded, id } : { kind: "loaded", id, rows: loaded.rows };
    }
    case "merge":
      return { ...(await mergeRows(command.order)), id };
    case "tell": {
      const result = await tellFleet(fleet, command.entry);
      // Runs of former releases left such a count as it was, and replay so.
      const isFormer = !patched("counts-told-again");
      return { kind: "told", id, isHeard: result.kind === "delivered", isFormer };
    }
    case "retell":
      await retellLobby({ fleet: name, tenant, runs: command.runs });
      return { kind: "retold", id };
    case "muster":
      await musterJobs({ fleet: name, tenant });
      return { kind: "mustered", id };
  }
}
