/**
 * @file Requests that wait outside without a row in the ledger: while it holds as many rows for lobbies as it may, the machine holds the others.
 *
 * They go straight to their lobbies with the next deliveries, many at a time, and the lobbies' reports count them. A tenant without a lobby that
 * the fleet counts has them in that of the others. What a run cannot hold it forgets, and asks all jobs again later: only a flood of signals
 * brings so many. Cost: O(1) a request.
 */

import type { GangRequest } from "../../domain/lease/lease.ts";
import type { LobbyRow } from "../../domain/lease/lobby.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import { EMPTY_QUEUE, pushed, taken, type Queue } from "../../lib/queue.ts";
import type { LobbyNews } from "../../protocol/lobby.ts";
import { OTHER_TENANTS, type OutsideRow } from "../../scheduling/ledger/intake.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

export type Held = Queue<OutsideRow>;

export const NOBODY_HELD: Held = EMPTY_QUEUE;

const MAX_HELD = 30_000;
/** In one delivery, and deliveries with some at a time: others must find a place among those under way. */
const MAX_HELD_POST = 500;
const MAX_HELD_DELIVERIES = 2;

/** Undefined when there are more than a run may hold. */
export function holdBack(
  held: Held,
  requests: readonly GangRequest[],
  ledger: Ledger,
): Held | undefined {
  if (held.size + requests.length > MAX_HELD) return undefined;
  return requests.reduce((queue, request) => pushed(queue, rowOf(request, ledger)), held);
}

function rowOf(request: GangRequest, { intake, shape }: Ledger): OutsideRow {
  const { jobId, runId, seq, tenant, priority, submittedAtMs, gang, round = 0 } = request;
  const isCounted =
    intake?.lobbies.has(tenant) === true || shape.tenants.some(({ id }) => id === tenant);
  const lobby = isCounted ? tenant : OTHER_TENANTS;
  const { gpus } = gang;
  return { lobby, jobId, runId, seq, class: request.class, priority, submittedAtMs, gpus, round };
}

/** `underway`: the held rows that each open delivery carries. */
export function heldForPost(
  held: Held,
  underway: readonly (readonly OutsideRow[])[],
): { readonly rows: readonly OutsideRow[]; readonly rest: Held } {
  const busy = underway.filter(({ length }) => length > 0).length;
  const { values, rest } = taken(held, busy < MAX_HELD_DELIVERIES ? MAX_HELD_POST : 0);
  return { rows: values, rest };
}

/** A delivery did not reach the lobbies of these. */
export const putBack = (held: Held, rows: readonly OutsideRow[]): Held =>
  rows.reduce<Held>(pushed, held);

/** News for lobbies, with held rows; one piece for each lobby. */
export function withHeld(
  fleet: string,
  news: readonly LobbyNews[],
  held: readonly OutsideRow[],
): readonly LobbyNews[] {
  if (held.length === 0) return news;
  const rows = new Map<TenantId, LobbyRow[]>(
    news.map((each) => [each.tenant, [...each.rows]] as const),
  );
  for (const { lobby, ...row } of held) {
    const known = rows.get(lobby);
    if (known === undefined) rows.set(lobby, [row]);
    else known.push(row);
  }
  const credits = new Map(news.map((each) => [each.tenant, each.credits] as const));
  return [...rows].map(([tenant, ofTenant]) => ({
    fleet,
    tenant,
    rows: ofTenant,
    credits: credits.get(tenant) ?? [],
  }));
}
