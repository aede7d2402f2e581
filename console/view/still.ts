/** @file A ledger of the past as the snapshot that browsers get: all its rows at once, its queue in the order of that instant. Pure. */

import type { DecisionRow, Facts, Message } from "../../page/wire.ts";
import { queueOrder } from "../../scheduling/explain/queue-order.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import {
  flowRows,
  hostRows,
  leaseRow,
  reasonRow,
  requestRow,
  reservationRow,
  sourcesOf,
} from "./rows.ts";

export function stillOf({
  ledger,
  decisions,
  facts,
  nowMs,
}: {
  readonly ledger: Ledger;
  /** The last ones until then, oldest first. */
  readonly decisions: readonly DecisionRow[];
  readonly facts: Facts;
  readonly nowMs: number;
}): Extract<Message, { kind: "snapshot" }> {
  const { leases, reservations, requests } = sourcesOf(ledger);
  const queue = queueOrder(ledger, nowMs);
  return {
    kind: "snapshot",
    facts,
    order: queue.line.map(({ request }) => request.jobId),
    changes: {
      hosts: { set: Object.fromEntries(hostRows(ledger.shape, ledger.hosts)) },
      leases: { set: rowsOf(leases, (lease) => leaseRow(lease)) },
      reservations: { set: rowsOf(reservations, reservationRow) },
      requests: { set: rowsOf(requests, requestRow) },
      reasons: { set: rowsOf(ledger.reasons, reasonRow) },
      flows: { set: Object.fromEntries(flowRows(queue)) },
      decisions: { set: Object.fromEntries(decisions.map((row, at) => [String(at + 1), row])) },
    },
  };
}

const rowsOf = <Source, Row>(
  sources: ReadonlyMap<string, Source>,
  rowOf: (source: Source) => Row,
): Record<string, Row> =>
  Object.fromEntries([...sources].map(([key, source]) => [key, rowOf(source)]));
