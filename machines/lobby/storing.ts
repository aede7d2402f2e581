/**
 * @file What a lobby asks of the store: to keep rows and leavers, to read rows back, to merge runs. One thing at a time.
 *
 * Rows that a call waits for go first. A page that the store has lost loses its rows here; then all waiting jobs of the tenant are asked to
 * speak for themselves, so that none of them is lost.
 */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import {
  packRow,
  unpackRow,
  type MergeOrder,
  type PackedRow,
  type StoredRun,
} from "../../protocol/lobby-contract.ts";
import { quiet } from "../steps.ts";
import { changeQueue, issue, type Lobby, type LobbyStep, type Storing } from "./lobby-state.ts";
import {
  isBehindStore,
  leaversToKeep,
  PAGE_BYTES,
  rowsToKeep,
  runsToLoad,
  runsToMerge,
  storedRows,
  withLoaded,
  withRun,
  type Queue,
} from "./queue.ts";

/** Starts what is most urgent, if anything is. */
export function useStore(lobby: Lobby): LobbyStep {
  if (lobby.storing !== undefined) return quiet(lobby);
  const queues = JOB_CLASSES.map((name) => lobby.queues[name]);
  const isCalled = (queue: Queue): boolean =>
    lobby.credits.some((credit) => credit.class === queue.class);
  for (const start of [
    (queue: Queue) => (isCalled(queue) && isBehindStore(queue) ? load(lobby, queue) : undefined),
    (queue: Queue) => keepLeavers(lobby, queue),
    (queue: Queue) => keep(lobby, queue),
    (queue: Queue) => merge(lobby, queue),
  ]) {
    for (const queue of queues) {
      const step = start(queue);
      if (step !== undefined) return step;
    }
  }
  return quiet(lobby);
}

function load(lobby: Lobby, { class: name, ...queue }: Queue): LobbyStep | undefined {
  const runs = runsToLoad({ class: name, ...queue });
  // Rows on their way to the store are read back once they are there.
  if (runs.length === 0) return undefined;
  const directories = runs.map(({ directory }) => directory);
  return issue(lobby, (id) => ({
    change: { storing: { id, class: name, kind: "load", directories } },
    command: {
      kind: "load",
      id,
      runs: runs.map(({ directory, at }) => ({ directory, at })),
      maxBytes: Math.floor(PAGE_BYTES / runs.length),
    },
  }));
}

function keepLeavers(lobby: Lobby, queue: Queue): LobbyStep | undefined {
  const leavers = leaversToKeep(queue);
  if (leavers.length === 0) return undefined;
  if (storedRows(queue) === 0) {
    // They guard against late rows alone: the newer half is enough.
    const newer = [...queue.left].slice(Math.ceil(queue.left.size / 2));
    return quiet(changeQueue(lobby, { ...queue, left: new Map(newer) }));
  }
  const page = leavers.slice(0, Math.ceil(leavers.length / 2));
  return issue(lobby, (id) => ({
    change: { storing: { id, class: queue.class, kind: "keep-leavers", leavers: page } },
    command: { kind: "keep-leavers", id, name: nameOf(lobby, id), leavers: page },
  }));
}

function keep(lobby: Lobby, queue: Queue): LobbyStep | undefined {
  const page = rowsToKeep(queue);
  if (page.length === 0) return undefined;
  const rows = queue.rows.slice(0, queue.rows.length - page.length);
  return issue(changeQueue(lobby, { ...queue, rows, leaving: page }), (id) => ({
    change: { storing: { id, class: queue.class, kind: "keep" } },
    command: { kind: "keep-rows", id, name: nameOf(lobby, id), rows: page.map(packRow) },
  }));
}

function merge(lobby: Lobby, queue: Queue): LobbyStep | undefined {
  const runs = runsToMerge(queue);
  if (runs.length === 0) return undefined;
  const order: MergeOrder = {
    name: nameOf(lobby, lobby.nextId),
    runs: runs.map(({ directory, at }) => ({ directory, at })),
    leavers: queue.storedLeavers,
    unused: lobby.unused.before,
  };
  return issue(lobby, (id) => ({
    change: { storing: { id, class: queue.class, kind: "merge", order } },
    command: { kind: "merge", id, order },
  }));
}

/** Equal rows of two orders get keys of their own, so that what one of them replaces can be removed. */
const nameOf = ({ runId }: Lobby, id: number): string => `${runId} ${String(id)}`;

export const endKeeping = (lobby: Lobby, id: number, run: StoredRun): Lobby =>
  ended(lobby, { id, kind: "keep" }, (rest, { class: name }) =>
    changeQueue(rest, withRun({ ...rest.queues[name], leaving: [] }, run)),
  );

export const endKeepingLeavers = (lobby: Lobby, id: number, key: string): Lobby =>
  ended(lobby, { id, kind: "keep-leavers" }, (rest, { class: name, leavers }) => {
    const queue = rest.queues[name];
    const kept = new Map(leavers.map((leaver) => [`${leaver[0]} ${leaver[1]}`, leaver]));
    // A leaver with a later request has come meanwhile.
    const left = [...queue.left].filter(([of, leaver]) => kept.get(of) !== leaver);
    return changeQueue(rest, {
      ...queue,
      left: new Map(left),
      storedLeavers: [...queue.storedLeavers, key],
      storedLeaverCount: queue.storedLeaverCount + leavers.length,
    });
  });

export const endLoading = (
  lobby: Lobby,
  id: number,
  rows: readonly (readonly PackedRow[])[],
): Lobby =>
  ended(lobby, { id, kind: "load" }, (rest, { class: name, directories }) => {
    const before = rest.queues[name];
    const queue = directories.reduce(
      (filled, directory, at) => withLoaded(filled, directory, (rows[at] ?? []).map(unpackRow)),
      before,
    );
    return changeQueue(discard(rest, before, queue), queue);
  });

export const endMerging = (lobby: Lobby, id: number, run: StoredRun): Lobby =>
  ended(lobby, { id, kind: "merge" }, (rest, { class: name, order }) => {
    const before = rest.queues[name];
    const merged = new Set(order.runs.map(({ directory }) => directory));
    const runs = before.runs.filter(({ directory }) => !merged.has(directory));
    // A row that no run has any more cannot lie in the store.
    const storedLeavers =
      runs.length > 0
        ? before.storedLeavers
        : before.storedLeavers.filter((key) => !order.leavers.includes(key));
    const queue = withRun(
      {
        ...before,
        runs,
        storedLeavers,
        storedLeaverCount: storedLeavers.length === 0 ? 0 : before.storedLeaverCount,
      },
      run,
    );
    const unused = { ...rest.unused, before: [] };
    return changeQueue(discard({ ...rest, unused }, before, queue), queue);
  });

/** The store has lost rows of what it was asked for: the runs are given up, and their jobs asked. */
export function endWithLoss(lobby: Lobby, id: number): Lobby {
  const { storing, ...rest } = lobby;
  if (storing?.id !== id) return lobby;
  const lost =
    storing.kind === "load"
      ? storing.directories
      : storing.kind === "merge"
        ? storing.order.runs.map(({ directory }) => directory)
        : [];
  const queue = rest.queues[storing.class];
  const runs = queue.runs.filter(({ directory }) => !lost.includes(directory));
  return { ...changeQueue(rest, { ...queue, runs }), isMusterDue: true };
}

/** What the store has kept for the queue and need not any more. */
function discard(lobby: Lobby, before: Queue, after: Queue): Lobby {
  const needed = new Set([...after.runs.map(({ directory }) => directory), ...after.storedLeavers]);
  const unused = [...before.runs.map(({ directory }) => directory), ...before.storedLeavers].filter(
    (key) => !needed.has(key),
  );
  return { ...lobby, unused: { ...lobby.unused, now: [...lobby.unused.now, ...unused] } };
}

function ended<Kind extends Storing["kind"]>(
  lobby: Lobby,
  { id, kind }: { readonly id: number; readonly kind: Kind },
  next: (rest: Lobby, storing: Extract<Storing, { readonly kind: Kind }>) => Lobby,
): Lobby {
  const { storing, ...rest } = lobby;
  return storing?.id === id && isOfKind(storing, kind) ? next(rest, storing) : lobby;
}

const isOfKind = <Kind extends Storing["kind"]>(
  storing: Storing,
  kind: Kind,
): storing is Extract<Storing, { readonly kind: Kind }> => storing.kind === kind;
