/** @file One lobby's machine with its store: commands are carried out at once, and its runs continue as new as a workflow's do. */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import { lobbyMachine, openLobby } from "../../machines/lobby/lobby.ts";
import {
  totalOf,
  waitingByClass,
  type LobbyCommand,
  type LobbyEvent,
} from "../../machines/lobby/lobby-state.ts";
import type { Tick } from "../../machines/machine.ts";
import type { CallOrder, LobbyInput, LobbyStoreActivities } from "../../protocol/lobby-contract.ts";

export interface LobbyPlay {
  readonly feed: (event: LobbyEvent, nowMs: number) => void;
  /** Until nothing is due or under way. */
  readonly play: (nowMs: number) => Promise<void>;
  readonly dueAtMs: () => number;
  readonly isOver: () => boolean;
  readonly waiting: () => number;
  /** The largest input of a further run, as JSON. */
  readonly carriedBytes: () => number;
}

export interface LobbyPlayTerms {
  readonly fleet: string;
  readonly tenant: TenantId;
  readonly store: LobbyStoreActivities;
  /** False for a job that has ended. */
  readonly callIn: (call: CallOrder) => boolean;
  readonly tell: (entry: InboxEntry) => void;
}

export function createLobbyPlay({ fleet, tenant, store, callIn, tell }: LobbyPlayTerms): LobbyPlay {
  let runs = 1;
  let lobby = openLobby({ fleet, tenant }, `${tenant} 1`, 0);
  let open: LobbyCommand[] = [];
  let carriedBytes = 0;
  const step = (event: LobbyEvent | Tick, nowMs: number): void => {
    const next = lobbyMachine.step(lobby, event, nowMs);
    lobby = next.state;
    open.push(...next.commands);
  };
  return {
    feed: step,
    async play(nowMs) {
      for (;;) {
        const next = lobby.end?.next;
        if (next !== undefined) goOn(next, nowMs);
        const commands = open;
        open = [];
        for (const command of commands) step(await carryOut(command), nowMs);
        if (lobbyMachine.dueAtMs(lobby) <= nowMs) step({ kind: "tick" }, nowMs);
        else if (commands.length === 0) return;
      }
    },
    dueAtMs: () => lobbyMachine.dueAtMs(lobby),
    isOver: () => lobby.end !== undefined && lobby.end.next === undefined,
    waiting: () => totalOf(waitingByClass(lobby)),
    carriedBytes: () => carriedBytes,
  };

  function goOn(next: LobbyInput, nowMs: number): void {
    runs += 1;
    carriedBytes = Math.max(carriedBytes, JSON.stringify(next).length);
    lobby = openLobby(next, `${tenant} ${String(runs)}`, nowMs);
  }

  async function carryOut(command: LobbyCommand): Promise<LobbyEvent> {
    const { id } = command;
    switch (command.kind) {
      case "call-in": {
        const gone = command.calls.filter((call) => !callIn(call));
        return { kind: "called", id, gone: gone.map(({ credit }) => credit) };
      }
      case "keep-rows":
        return { kind: "kept", id, run: await store.keepRows(command) };
      case "keep-leavers":
        return { kind: "leavers-kept", id, key: await store.keepLeavers(command) };
      case "load": {
        const loaded = await store.loadRows(command);
        if (loaded.kind === "lost") return { ...loaded, id };
        return { kind: "loaded", id, rows: loaded.rows };
      }
      case "merge":
        return { ...(await store.mergeRows(command.order)), id };
      case "tell":
        tell(command.entry);
        return { kind: "told", id, isHeard: true };
      case "muster":
        return { kind: "mustered", id };
      case "retell":
        return { kind: "retold", id };
    }
  }
}
