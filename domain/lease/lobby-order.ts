/** @file The order in which jobs are called in from a lobby: by round, the higher priority, submission, job id. */

import { byCodeUnit } from "../values/ids.ts";
import type { LobbyRow } from "./lobby.ts";

/** What the order goes by. Without a job id: before all rows that are otherwise equal. */
export type LobbyKey = Pick<LobbyRow, "round" | "priority" | "submittedAtMs"> &
  Partial<Pick<LobbyRow, "jobId">>;

export const byCall = (a: LobbyKey, b: LobbyKey): number =>
  a.round - b.round ||
  b.priority - a.priority ||
  a.submittedAtMs - b.submittedAtMs ||
  byCodeUnit(a.jobId ?? "", b.jobId ?? "");
