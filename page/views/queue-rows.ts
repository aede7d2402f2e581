/** @file The rows of the queue: joined from requests and reasons, filtered and sorted. Pure. Cost: O(n log n). */

import type { Kept } from "../store.ts";
import type { ReasonRow, RequestRow } from "../wire.ts";

export interface QueueRow {
  readonly job: string;
  /** Its place in the order of the next cycle, from 1. */
  readonly place: number;
  readonly request: RequestRow;
  readonly reason: ReasonRow | undefined;
  readonly isReserved: boolean;
}

export interface Filter {
  readonly text: string;
  readonly class: string;
  readonly tenant: string;
  readonly code: string;
  /** A column, with `-` before it for the largest first. */
  readonly sort: string;
}

type Tables = Pick<Kept, "requests" | "reasons" | "reservations">;

export function queueRows(
  { requests, reasons, reservations }: Tables,
  order: readonly string[],
  filter: Filter,
): readonly QueueRow[] {
  const text = filter.text.toLowerCase();
  const rows: QueueRow[] = [];
  order.forEach((job, at) => {
    const request = requests.get(job);
    if (request === undefined) return;
    const reason = reasons.get(job);
    if (filter.class !== "" && request.class !== filter.class) return;
    if (filter.tenant !== "" && request.tenant !== filter.tenant) return;
    if (filter.code !== "" && codeOf(reason) !== filter.code) return;
    if (text !== "" && !matches(text, job, { request, reason })) return;
    rows.push({ job, place: at + 1, request, reason, isReserved: reservations.has(job) });
  });
  const column = filter.sort.replace(/^-/, "");
  const keyOf = KEYS[column];
  if (keyOf === undefined) return rows;
  const sign = filter.sort.startsWith("-") ? -1 : 1;
  return rows
    .map((row) => ({ row, key: keyOf(row) }))
    .sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.row.place - b.row.place))
    .map(({ row }) => row);
}

export const codeOf = (reason: ReasonRow | undefined): string =>
  reason?.code ?? "PendingEvaluation";

const matches = (
  text: string,
  job: string,
  { request, reason }: Pick<QueueRow, "request" | "reason">,
): boolean =>
  job.toLowerCase().includes(text) ||
  request.tenant.toLowerCase().includes(text) ||
  (reason?.message.toLowerCase().includes(text) ?? false);

const KEYS: Readonly<Record<string, (row: QueueRow) => number | string>> = {
  place: ({ place }) => place,
  job: ({ job }) => job,
  class: ({ request }) => request.class,
  tenant: ({ request }) => request.tenant,
  gpus: ({ request }) => request.gpus * (request.slots ?? 1),
  age: ({ request }) => -request.submittedAtMs,
  code: ({ reason }) => codeOf(reason),
};
