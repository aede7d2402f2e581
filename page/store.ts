/** @file The tables as this browser knows them: filled by the stream of the console, read by every view. */

import {
  TABLES,
  type Changes,
  type Facts,
  type Message,
  type TableChange,
  type Tables,
} from "./wire.ts";

export type Kept = { readonly [Name in keyof Tables]: Map<string, Tables[Name]> };

export interface Store {
  readonly tables: Kept;
  readonly facts: () => Facts;
  /** The waiting jobs, the next one first. */
  readonly order: () => readonly string[];
  /** The present, or the instant of the past that the tables show. */
  readonly nowMs: () => number;
  readonly isPast: () => boolean;
  /** Another one after every change, and in every store. */
  readonly revision: () => number;
  readonly isConnected: () => boolean;
  readonly take: (message: Message) => void;
  readonly setConnected: (isConnected: boolean) => void;
  /** Returns the way to stop. */
  readonly onChange: (listener: () => void) => () => void;
}

let revisions = 0;

const NO_FACTS: Facts = { fleet: "", atMs: 0 };

/** `pastMs`: of a store that shows an instant of the past. */
export function createStore(pastMs?: number): Store {
  const tables: Kept = {
    hosts: new Map(),
    leases: new Map(),
    reservations: new Map(),
    requests: new Map(),
    reasons: new Map(),
    flows: new Map(),
    decisions: new Map(),
    use: new Map(),
  };
  const listeners = new Set<() => void>();
  let facts = NO_FACTS;
  let order: readonly string[] = [];
  let revision = (revisions += 1);
  let isConnected = false;

  return {
    tables,
    facts: () => facts,
    order: () => order,
    nowMs: () => pastMs ?? Date.now(),
    isPast: () => pastMs !== undefined,
    revision: () => revision,
    isConnected: () => isConnected,
    take,
    setConnected(now) {
      if (now === isConnected) return;
      isConnected = now;
      changed();
    },
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };

  function take(message: Message): void {
    if (message.kind === "snapshot") for (const name of TABLES) tables[name].clear();
    facts = message.facts ?? facts;
    if (message.changes !== undefined) applyChanges(tables, message.changes);
    if (message.order !== undefined) order = message.order;
    else order = withNew(order, tables.requests);
    changed();
  }

  function changed(): void {
    revision = revisions += 1;
    for (const listener of listeners) listener();
  }
}

function applyChanges(tables: Kept, changes: Changes): void {
  for (const name of TABLES) {
    const change = changes[name];
    if (change !== undefined)
      applyChange<Tables[typeof name]>(tables[name] as Map<string, Tables[typeof name]>, change);
  }
}

function applyChange<Row>(
  table: Map<string, Row>,
  { set = {}, gone = [] }: TableChange<Row>,
): void {
  for (const [key, row] of Object.entries(set)) table.set(key, row);
  for (const key of gone) table.delete(key);
}

/** Jobs that have come since the last order stand at its end until the next one. */
function withNew(order: readonly string[], requests: Kept["requests"]): readonly string[] {
  const left = order.filter((job) => requests.has(job));
  if (left.length === requests.size) return left.length === order.length ? order : left;
  const known = new Set(left);
  return [...left, ...[...requests.keys()].filter((job) => !known.has(job))];
}
