/**
 * @file What a ledger knows of the requests that wait outside, while events change it.
 *
 * Cost: O(lobbies + news) to open. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId, TenantId } from "../../../domain/values/ids.ts";
import {
  NO_INTAKE,
  type Intake,
  type LobbyAccount,
  type OutsideRow,
  type ReturningJob,
} from "../intake.ts";

export interface OpenIntake {
  nextCredit: number;
  readonly lobbies: Map<TenantId, LobbyAccount>;
  readonly news: Map<JobId, OutsideRow>;
  readonly returning: Map<JobId, ReturningJob>;
  lookAtMs: number;
  era?: number;
}

export const NEW_LOBBY: LobbyAccount = {
  report: 0,
  waiting: { inference: 0, interactive: 0, training: 0 },
  deficit: 0,
  credits: new Map(),
};

export const openIntake = ({
  nextCredit,
  lobbies,
  news,
  returning,
  lookAtMs,
  era,
}: Intake = NO_INTAKE): OpenIntake => ({
  nextCredit,
  lobbies: new Map(lobbies),
  news: new Map(news),
  returning: new Map(returning),
  lookAtMs,
  ...(era !== undefined && { era }),
});

/** Absent as long as nothing has ever waited outside. */
export const intakeOf = (intake: OpenIntake): Intake | undefined =>
  intake.nextCredit === 1 &&
  intake.lobbies.size + intake.news.size + intake.returning.size === 0 &&
  intake.lookAtMs === 0
    ? undefined
    : intake;
