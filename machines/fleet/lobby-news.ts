/**
 * @file What a fleet's next delivery tells lobbies, and the jobs that wait outside: rows and credits that no lobby has and no delivery carries.
 *
 * Pure functions of the state. Cost: O(rows and credits that are on their way); O(requests) for reasons.
 */

import type { LobbyNews } from "../../protocol/lobby.ts";
import type { OutsideReason } from "../../protocol/control-contract.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { LobbyRow } from "../../domain/lease/lobby.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { intakeView, type IntakeView } from "./intake-view.ts";
import type { FleetState, LobbyParcel } from "./state.ts";

/** At most so many rows and credits, for one lobby each; the oldest rows first. */
export function lobbyNews(
  { name: fleet, ledger: { intake }, deliveries }: FleetState,
  most: number,
): readonly LobbyNews[] {
  if (intake === undefined) return [];
  const parcels = [...deliveries.underway.values()].flatMap(({ lobbies }) => lobbies);
  const rowsUnderway = new Set(parcels.flatMap(({ rows }) => rows.map(keyOf)));
  const creditsUnderway = new Set(parcels.flatMap(({ credits }) => credits));
  const news = new Map<TenantId, { rows: LobbyRow[]; credits: LobbyNews["credits"][number][] }>();
  let left = most;
  const of = (tenant: TenantId) => {
    const found = news.get(tenant) ?? { rows: [], credits: [] };
    news.set(tenant, found);
    left -= 1;
    return found;
  };
  for (const [tenant, { credits }] of intake.lobbies) {
    for (const [number, { class: name, isAnnounced }] of credits)
      if (left > 0 && !isAnnounced && !creditsUnderway.has(number))
        of(tenant).credits.push({ number, class: name });
  }
  for (const { lobby, requestedAtMs: _judged, ...row } of intake.news.values())
    if (left > 0 && !rowsUnderway.has(keyOf(row))) of(lobby).rows.push(row);
  return [...news].map(([tenant, { rows, credits }]) => ({ fleet, tenant, rows, credits }));
}

export const parcelsOf = (lobbies: readonly LobbyNews[]): readonly LobbyParcel[] =>
  lobbies.map(({ tenant, rows, credits }) => ({
    tenant,
    rows: rows.map(({ jobId, runId, seq }) => ({ jobId, runId, seq })),
    credits: credits.map(({ number }) => number),
  }));

/** A job hears that it waits outside when its lobby does: what a delivery tells all jobs of a lobby. */
export function outsideReasons(
  ledger: Ledger,
  lobbies: readonly LobbyNews[],
): readonly OutsideReason[] {
  const withRows = lobbies.filter(({ rows }) => rows.length > 0);
  if (withRows.length === 0) return [];
  const view = intakeView(ledger);
  return withRows.map(({ fleet, tenant }) => ({ tenant, reason: reasonFor(view, fleet, tenant) }));
}

function reasonFor(view: IntakeView, fleet: string, tenant: TenantId): PendingReason {
  const { places, inside, outside } = view;
  const own = view.tenants.find((each) => each.tenant === tenant);
  const numbers = {
    places,
    inside,
    outside,
    tenantInside: own?.inside ?? 0,
    tenantOutside: own?.outside ?? 0,
    tenantShare: own?.share ?? 0,
  };
  return {
    code: "QueueFull",
    message: `fleet ${fleet} has no place for it: ${inside} of ${places} are taken and ${outside} jobs wait outside, ${numbers.tenantOutside} of them in the lobby of ${tenant}, which has ${numbers.tenantInside} inside; ${numbers.tenantShare} places are its share whatever others ask. It keeps its seniority and is called in`,
    numbers,
    holders: [],
    wakeOn: ["earlier-job-started"],
  };
}

const keyOf = ({ jobId, runId, seq }: Pick<LobbyRow, "jobId" | "runId" | "seq">): string =>
  `${jobId} ${runId} ${seq}`;
