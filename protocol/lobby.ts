/**
 * @file Words between a fleet, the lobby of one tenant, and the jobs that wait there because the fleet has no room for their requests.
 *
 * A request that does not fit is refused with `QueueFull` and listed in its tenant's lobby (`lobby-news`, sent by the fleet's delivery). When
 * places are free, the fleet gives the lobby credits, each with its number; the lobby calls in one job of the credit's class for each (`call-in`), and
 * the job asks the fleet again with that number in its request, under the same `seq`. A job that has left passes its credit on; a lobby that has nobody left returns it
 * (inbox entry `lobby`). Every word may arrive twice.
 */

import { defineQuery, defineSignal } from "@temporalio/workflow";
import type { JobClass } from "../domain/job/job.ts";
import type { LobbyCredit, LobbyRow } from "../domain/lease/lobby.ts";
import type { JobId, RunId, TenantId } from "../domain/values/ids.ts";

export type { LobbyCredit, LobbyRow } from "../domain/lease/lobby.ts";

/** What a fleet tells a lobby: who has come, and which credits are new. */
export interface LobbyNews {
  readonly fleet: string;
  readonly tenant: TenantId;
  readonly rows: readonly LobbyRow[];
  readonly credits: readonly LobbyCredit[];
}

/** How full a fleet is. */
export interface IntakeView {
  /** Requests that may wait inside. */
  readonly places: number;
  readonly inside: number;
  /** Jobs in lobbies that have not been called in, as far as the fleet knows. */
  readonly outside: number;
  /** Places that lobbies may give to their jobs. */
  readonly credits: number;
  readonly tenants: readonly {
    /** `*` stands for all that the fleet file does not name, and have no lobby of their own. */
    readonly tenant: TenantId;
    /** Places that others cannot take; those whom the fleet file does not name share one share. */
    readonly share: number;
    readonly inside: number;
    readonly outside: number;
    readonly credits: number;
  }[];
}

export const intakeQuery = defineQuery<IntakeView>("intake");

export const lobbyNewsSignal = defineSignal<[LobbyNews]>("lobby-news");

/** A job does not wait outside any more under this number: it was cancelled, held, moved to another fleet, or has ended. */
export interface LobbyLeave {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly seq: number;
  readonly class: JobClass;
}

export const lobbyLeaveSignal = defineSignal<[LobbyLeave]>("lobby-leave");

/** To a job: ask the fleet again, with this credit and the row's round in the request. */
export interface LobbyCall {
  readonly seq: number;
  readonly credit: number;
  readonly round: number;
}

export const callInSignal = defineSignal<[LobbyCall]>("call-in");

/** Where a job stands among those of its class in its lobby; null when nobody waits there. */
export const lobbyPlaceQuery = defineQuery<LobbyPlace | null, [LobbyQuestion]>("lobby-place");

/** A lobby does not know the jobs whose rows lie in the store, so a question says what their order goes by. */
export type LobbyQuestion = Pick<LobbyRow, "jobId" | "class" | "priority" | "submittedAtMs">;

/** Which jobs wait there. */
export const lobbyRowsQuery = defineQuery<LobbyRows, []>("lobby-rows");

export interface LobbyRows {
  readonly jobs: readonly JobId[];
  /** Sorted runs in the store, from a rank on. */
  readonly runs: readonly {
    readonly directory: string;
    readonly at: number;
    readonly count: number;
  }[];
}

export interface LobbyPlace {
  /** From 1 up; of a job far back it is about right. */
  readonly place: number;
  readonly isExact: boolean;
  /** Of its class. */
  readonly waiting: number;
}
