/**
 * @file Keeps the tables that browsers see, and says what changed since the last look.
 *
 * Leases, reservations, requests and hosts are told at once. The order of the queue and the reasons change for many jobs at a time, so they have a
 * budget of bytes: what has no room now is told later, the newest state of it alone. Cost of a look: a comparison of references for each row.
 */

import type {
  Changes,
  DecisionRow,
  Facts,
  FlowRow,
  HostRow,
  Message,
  ReasonRow,
  TableChange,
} from "../../page/wire.ts";
import { queueOrder } from "../../scheduling/explain/queue-order.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { FleetUse } from "../use/follow-use.ts";
import { useRow } from "./use-rows.ts";
import {
  flowRows,
  hostRows,
  leaseRow,
  reasonRow,
  requestRow,
  reservationRow,
  sourcesOf,
} from "./rows.ts";

export interface LiveTables {
  /** Undefined when nothing changed. */
  readonly look: (ledger: Ledger, facts: Facts, nowMs: number) => Message | undefined;
  readonly note: (decision: DecisionRow) => void;
  /** Of each folded event: the ledger has what was expected of a gang only until its grant is delivered. */
  readonly noteGrants: (ledger: Pick<Ledger, "outbox" | "leases">) => void;
  /** What agents tell of their GPUs now. */
  readonly noteUse: (use: FleetUse) => void;
  readonly snapshot: () => Extract<Message, { kind: "snapshot" }>;
}

/** Bytes a second for what is told late. */
const LATE_BYTES_A_SECOND = 8_000;
/** So much may gather while nothing is told. */
const LATE_BYTES_AT_ONCE = 32_000;
const ORDER_EVERY_MS = 1_000;
const KEPT_DECISIONS = 200;

interface Kept<Source, Row> {
  readonly source: Source;
  readonly row: Row;
}

/** A table whose rows are made of immutable objects. */
function createTable<Source, Row>(rowOf: (source: Source) => Row) {
  const kept = new Map<string, Kept<Source, Row>>();
  return {
    rows: (): Record<string, Row> =>
      Object.fromEntries([...kept].map(([key, { row }]) => [key, row])),
    /** At most so many bytes of rows; those that are gone are free. */
    look(sources: ReadonlyMap<string, Source>, room = Infinity): TableChange<Row> | undefined {
      const set: Record<string, Row> = {};
      const gone: string[] = [];
      let isAny = false;
      let left = room;
      for (const [key, source] of sources) {
        const former = kept.get(key);
        if (former?.source === source) continue;
        if (left <= 0) continue;
        const row = rowOf(source);
        const isEqual = former !== undefined && JSON.stringify(former.row) === JSON.stringify(row);
        kept.set(key, { source, row });
        if (isEqual) continue;
        if (room < Infinity) left -= JSON.stringify(row).length;
        set[key] = row;
        isAny = true;
      }
      if (kept.size > sources.size)
        for (const key of kept.keys())
          if (!sources.has(key)) {
            kept.delete(key);
            gone.push(key);
          }
      if (!isAny && gone.length === 0) return undefined;
      return { ...(isAny && { set }), ...(gone.length > 0 && { gone }) };
    },
  };
}

export function createTables(): LiveTables {
  const predictions = createPredictions();
  const leases = createTable((lease: Lease) => leaseRow(lease, predictions.of(lease.id)));
  const reservations = createTable(reservationRow);
  const requests = createTable(requestRow);
  const reasons = createTable(reasonRow);
  const hosts = createTable((row: HostRow) => row);
  const decisions = createTable((row: DecisionRow) => row);
  const use = createTable(useRow);
  const recent = new Map<string, DecisionRow>();
  const budget = createBudget();
  const queue = createQueue(budget);
  let nextDecision = 1;
  let used: FleetUse = new Map();
  let hostsOf: Pick<Ledger, "shape" | "hosts"> | undefined;
  let seen: Ledger | undefined;
  let facts: Facts = { fleet: "", atMs: 0 };
  let areReasonsLate = false;

  const noteUse = (now: FleetUse): void => void (used = now);
  return { look, note, noteGrants: predictions.note, noteUse, snapshot };

  function note(row: DecisionRow): void {
    recent.set(String(nextDecision), row);
    nextDecision += 1;
    if (recent.size > KEPT_DECISIONS) recent.delete(recent.keys().next().value ?? "");
  }

  function look(ledger: Ledger, now: Facts, nowMs: number): Message | undefined {
    const areFactsNew =
      JSON.stringify({ ...now, atMs: 0 }) !== JSON.stringify({ ...facts, atMs: 0 });
    facts = now;
    budget.gather(nowMs);
    const isNew = ledger !== seen;
    seen = ledger;
    const { flows, order } = queue.look(ledger, nowMs);
    const changes = present({
      ...(isNew && lookAtLedger(ledger)),
      ...((isNew || areReasonsLate) && { reasons: lookAtReasons(ledger) }),
      decisions: decisions.look(recent),
      use: use.look(used),
      flows,
    });
    const isAny = Object.keys(changes).length > 0;
    if (!isAny && order === undefined && !areFactsNew) return undefined;
    return {
      kind: "delta",
      ...((isAny || areFactsNew) && { facts }),
      ...(isAny && { changes }),
      ...(order && { order }),
    };
  }

  function lookAtLedger(ledger: Ledger): Optional<Changes> {
    const sources = sourcesOf(ledger);
    const areHostsNew = hostsOf?.shape !== ledger.shape || hostsOf.hosts !== ledger.hosts;
    hostsOf = ledger;
    return {
      leases: leases.look(sources.leases),
      reservations: reservations.look(sources.reservations),
      requests: requests.look(sources.requests),
      ...(areHostsNew && { hosts: hosts.look(hostRows(ledger.shape, ledger.hosts)) }),
    };
  }

  function lookAtReasons(ledger: Ledger): TableChange<ReasonRow> | undefined {
    const change = reasons.look(ledger.reasons, Math.max(0, budget.left()));
    if (change !== undefined) budget.spend(change);
    areReasonsLate = budget.left() <= 0;
    return change;
  }

  function snapshot(): Extract<Message, { kind: "snapshot" }> {
    return {
      kind: "snapshot",
      facts,
      order: queue.order(),
      changes: {
        hosts: { set: hosts.rows() },
        leases: { set: leases.rows() },
        reservations: { set: reservations.rows() },
        requests: { set: requests.rows() },
        reasons: { set: reasons.rows() },
        flows: { set: queue.flows() },
        decisions: { set: decisions.rows() },
        use: { set: use.rows() },
      },
    };
  }
}

/** What was expected of the gangs of leases, in GB/s, as far as their grants were seen. */
function createPredictions(): {
  readonly note: LiveTables["noteGrants"];
  readonly of: (lease: string) => number | undefined;
} {
  const known = new Map<string, number>();
  let seen: Ledger["outbox"] | undefined;
  return {
    of: (lease) => known.get(lease),
    note({ outbox, leases }) {
      if (outbox === seen) return;
      seen = outbox;
      for (const [id, { bandwidth, predictedGBs }] of outbox) {
        const gbs = bandwidth?.predictedGbs ?? predictedGBs;
        if (gbs !== undefined) known.set(id, gbs);
      }
      const held: ReadonlyMap<string, unknown> = leases;
      if (known.size > held.size)
        for (const id of known.keys()) if (!held.has(id)) known.delete(id);
    },
  };
}

interface Budget {
  readonly gather: (nowMs: number) => void;
  readonly left: () => number;
  readonly spend: (told: unknown) => void;
}

function createBudget(): Budget {
  let bytes = LATE_BYTES_AT_ONCE;
  let gatheredAtMs = 0;
  return {
    gather(nowMs) {
      const gathered = bytes + ((nowMs - gatheredAtMs) / 1_000) * LATE_BYTES_A_SECOND;
      bytes = Math.min(LATE_BYTES_AT_ONCE, gathered);
      gatheredAtMs = nowMs;
    },
    left: () => bytes,
    spend: (told) => void (bytes -= JSON.stringify(told).length),
  };
}

interface QueueLook {
  readonly flows?: TableChange<FlowRow> | undefined;
  readonly order?: readonly string[];
}

/** The order of the queue and the shares: found at most once a second. */
function createQueue(budget: Budget): {
  readonly look: (ledger: Ledger, nowMs: number) => QueueLook;
  readonly order: () => readonly string[];
  readonly flows: () => Record<string, FlowRow>;
} {
  const flows = createTable((row: FlowRow) => row);
  let order: readonly string[] = [];
  let ordered: { readonly of: Ledger; readonly atMs: number } | undefined;
  return {
    order: () => order,
    flows: flows.rows,
    look(ledger, nowMs) {
      const isEarly = nowMs < (ordered?.atMs ?? 0) + ORDER_EVERY_MS;
      if (ordered?.of === ledger || isEarly || budget.left() <= 0) return {};
      ordered = { of: ledger, atMs: nowMs };
      const queue = queueOrder(ledger, nowMs);
      const next = queue.line.map(({ request }) => request.jobId);
      const change = { flows: flows.look(flowRows(queue)) };
      // A browser takes out by itself the jobs that no longer wait.
      const requests: ReadonlyMap<string, unknown> = ledger.requests;
      const left = order.filter((job) => requests.has(job));
      order = next;
      if (isSame(next, left)) return change;
      budget.spend(next);
      return { ...change, order: next };
    },
  };
}

type Optional<Of> = { readonly [Key in keyof Of]?: Of[Key] | undefined };

function present(found: Optional<Changes>): Changes {
  const changes: Record<string, unknown> = {};
  for (const [name, change] of Object.entries(found))
    if (change !== undefined) changes[name] = change;
  return changes;
}

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((job, at) => job === other[at]);
