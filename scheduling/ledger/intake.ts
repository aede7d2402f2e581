/**
 * @file What a ledger knows of the requests that wait outside, and the places that it has promised to their lobbies.
 *
 * Part of the ledger from version `BOUNDED_RULES` of the rules on; `rules/places.ts` says which request has a place. Replayed: a change of
 * behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobClass } from "../../domain/job/job.ts";
import type { FirstByClass, LobbyRow, WaitingByClass } from "../../domain/lease/lobby.ts";
import { tenantId, type JobId, type RunId, type TenantId } from "../../domain/values/ids.ts";

export interface Intake {
  /** The number of the next credit. */
  readonly nextCredit: number;
  /** Lobbies in which jobs wait, or that have credits; in the order in which the deficit round robin visits them. */
  readonly lobbies: ReadonlyMap<TenantId, LobbyAccount>;
  /** Requests that the fleet put outside and whose lobbies have yet to hear of them, oldest first. */
  readonly news: ReadonlyMap<JobId, OutsideRow>;
  /** Jobs whose lease ended lately: their next request is never refused. Oldest first. */
  readonly returning: ReadonlyMap<JobId, ReturningJob>;
  /** When to look again for requests that have to give way and for credits that nobody uses; 0 at first. */
  readonly lookAtMs: number;
  /** Of the fleet's present description, for rounds (`lobby-order.ts`); absent: `FIRST_ERA`. */
  readonly era?: number;
}

/** Behind all rounds that rules before `JUDGED_ONCE_RULES` gave. */
export const FIRST_ERA = 1;

export interface LobbyAccount {
  /** The lobby's last report; 0 before the first. */
  readonly report: number;
  /** How many wait without a credit, as far as the fleet knows; the rows of `news` are among them. */
  readonly waiting: WaitingByClass;
  /** Who of each class is called in next; absent of lobbies that have not said so. */
  readonly first?: FirstByClass;
  /** What it is due beyond the credits that it got, in credits: 0 when nobody waits. */
  readonly deficit: number;
  /** Credits that have not come back, by number, ascending. */
  readonly credits: ReadonlyMap<number, Credit>;
}

export interface Credit {
  readonly class: JobClass;
  readonly givenAtMs: number;
  /** The lobby has it. */
  readonly isAnnounced: boolean;
}

export interface OutsideRow extends LobbyRow {
  /** In whose lobby it waits: its tenant's, or `OTHER_TENANTS`. */
  readonly lobby: TenantId;
  /** Tells which of two runs is the newer one. From `KEPT_ROWS_RULES` on; a lobby needs it not. */
  readonly requestedAtMs?: number;
}

export interface ReturningJob {
  readonly runId: RunId;
  readonly endedAtMs: number;
}

/** Tenants beyond the most that have lobbies of their own share this one. */
export const OTHER_TENANTS: TenantId = tenantId("*");

export const NO_INTAKE: Intake = {
  nextCredit: 1,
  lobbies: new Map(),
  news: new Map(),
  returning: new Map(),
  lookAtMs: 0,
};
