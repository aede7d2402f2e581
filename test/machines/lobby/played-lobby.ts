/** @file Plays a lobby's machine with a store in memory: commands are carried out at once, runs continue as new as a workflow's would. */

import { createHash } from "node:crypto";
import { createLobbyStore } from "../../../activities/lobby-store.ts";
import { tenantId, type TenantId } from "../../../domain/values/ids.ts";
import { lobbyMachine, openLobby } from "../../../machines/lobby/lobby.ts";
import type { Lobby, LobbyCommand, LobbyEvent } from "../../../machines/lobby/lobby-state.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { CallOrder, LobbyInput } from "../../../protocol/lobby-contract.ts";

/** What a lobby's commands reach. */
export interface LobbyWorld {
  /** False for a job that has ended. */
  readonly callIn: (call: CallOrder) => boolean;
  /** False for a fleet that does not answer. */
  readonly tell: (entry: InboxEntry) => boolean;
  readonly muster?: () => void;
  readonly retell?: (runs: readonly string[]) => void;
  readonly store?: MemoryStore;
}

export interface PlayedLobby {
  readonly state: () => Lobby;
  readonly feed: (event: LobbyEvent, nowMs: number) => void;
  /** Until nothing is due or under way. */
  readonly settle: (nowMs: number) => Promise<void>;
  readonly dueAtMs: () => number;
  readonly isOver: () => boolean;
  readonly input: () => LobbyInput;
  /** Inputs of runs that continued as new, in bytes of JSON. */
  readonly carriedBytes: number[];
  readonly runs: () => number;
}

export interface MemoryStore {
  readonly values: Map<string, string>;
  readonly put: (value: unknown) => Promise<string>;
  readonly get: <Value>(hash: string) => Promise<Value | undefined>;
  readonly remove: (hash: string) => Promise<void>;
}

export function memoryStore(): MemoryStore {
  const values = new Map<string, string>();
  return {
    values,
    put(value) {
      const text = JSON.stringify(value);
      const hash = createHash("sha1").update(text).digest("hex");
      values.set(hash, text);
      return Promise.resolve(hash);
    },
    get<Value>(hash: string) {
      const text = values.get(hash);
      return Promise.resolve(text === undefined ? undefined : (JSON.parse(text) as Value)); // what was put
    },
    remove(hash) {
      values.delete(hash);
      return Promise.resolve();
    },
  };
}

export function playLobby(
  world: LobbyWorld,
  input: LobbyInput = { fleet: "default", tenant: tenantId("red") },
): PlayedLobby {
  const store = createLobbyStore(world.store ?? memoryStore(), () => undefined);
  let given = input;
  let runs = 1;
  let state = openLobby(input, "run-1", 0);
  let open: LobbyCommand[] = [];
  const carriedBytes: number[] = [];
  const step = (event: LobbyEvent | { readonly kind: "tick" }, nowMs: number): void => {
    const next = lobbyMachine.step(state, event, nowMs);
    state = next.state;
    open.push(...next.commands);
  };
  const settle = async (nowMs: number): Promise<void> => {
    for (;;) {
      const next = state.end?.next;
      if (next !== undefined) {
        const text = JSON.stringify(next);
        carriedBytes.push(text.length);
        runs += 1;
        given = JSON.parse(text) as LobbyInput; // as Temporal does
        state = openLobby(given, `run-${runs}`, nowMs);
      }
      const commands = open;
      open = [];
      for (const command of commands) step(await carryOut(store, world, command), nowMs);
      if (lobbyMachine.dueAtMs(state) <= nowMs) step({ kind: "tick" }, nowMs);
      else if (commands.length === 0) return;
    }
  };
  return {
    state: () => state,
    feed: step,
    settle,
    dueAtMs: () => lobbyMachine.dueAtMs(state),
    isOver: () => state.end !== undefined && state.end.next === undefined,
    input: () => given,
    carriedBytes,
    runs: () => runs,
  };
}

async function carryOut(
  store: ReturnType<typeof createLobbyStore>,
  world: LobbyWorld,
  command: LobbyCommand,
): Promise<LobbyEvent> {
  const { id } = command;
  switch (command.kind) {
    case "call-in": {
      const gone = command.calls.filter((call) => !world.callIn(call));
      return { kind: "called", id, gone: gone.map(({ credit }) => credit) };
    }
    case "keep-rows":
      return { kind: "kept", id, run: await store.keepRows(command) };
    case "keep-leavers":
      return { kind: "leavers-kept", id, key: await store.keepLeavers(command) };
    case "load": {
      const loaded = await store.loadRows(command);
      return loaded.kind === "lost" ? { ...loaded, id } : { kind: "loaded", id, rows: loaded.rows };
    }
    case "merge": {
      const merged = await store.mergeRows(command.order);
      return merged.kind === "lost" ? { ...merged, id } : { ...merged, id };
    }
    case "tell":
      return { kind: "told", id, isHeard: world.tell(command.entry) };
    case "retell":
      world.retell?.(command.runs);
      return { kind: "retold", id };
    case "muster":
      world.muster?.();
      return { kind: "mustered", id };
  }
}

export const RED: TenantId = tenantId("red");
