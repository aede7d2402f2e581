/**
 * @file What must come to its end soon once all is well: what costs time alone breaks no other law, because something else mends it later.
 *
 * A credit that a lobby got comes back, or is used; a grant to a job that had ended before is taken back when it cannot be delivered; a lobby calls nobody
 * of whom it has heard that he has left it and ended. Only what begins in the calm is judged: what was lost before may take its time. Cost: O(leases + credits) for a ledger that has changed.
 */

import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { CALM_AT_MS } from "../settings.ts";

export interface PromptLaws {
  readonly ledgerChanged: (ledger: Ledger) => void;
  readonly jobEnded: (job: JobId) => void;
  /** A lobby has heard that a job leaves it. */
  readonly left: (job: JobId) => void;
  /** A lobby has called a job in. */
  readonly called: (job: JobId) => void;
}

/** Words that were under way when it became calm have arrived. */
const JUDGED_FROM_MS = CALM_AT_MS + 15_000;
const CREDIT_MS = 180_000;
/** Less than the pause between two audits. */
const GRANT_MS = 12_000;
const CALL_MS = 3_000;
/** A job says that it leaves, and ends. */
const END_MS = 5_000;

export function createPromptLaws(
  nowMs: () => number,
  violate: (law: string, message: string) => void,
): PromptLaws {
  const ended = new Map<JobId, number>();
  const left = new Map<JobId, number>();
  let credits: ReadonlyMap<string, number> = new Map();
  const leases = new Map<LeaseId, number>();
  const late = (sinceMs: number, mostMs: number): boolean =>
    sinceMs > JUDGED_FROM_MS && nowMs() > sinceMs + mostMs;

  function checkCredits({ intake }: Ledger): void {
    const present = new Map<string, number>();
    for (const [lobby, account] of intake?.lobbies ?? [])
      for (const number of account.credits.keys()) {
        const key = `${lobby} ${number}`;
        const sinceMs = credits.get(key) ?? nowMs();
        present.set(key, sinceMs);
        if (late(sinceMs, CREDIT_MS))
          violate("credits return", `credit ${number} of lobby ${lobby} has not come back`);
      }
    credits = present;
  }

  return {
    ledgerChanged: (ledger) => {
      if (nowMs() < CALM_AT_MS) return;
      checkCredits(ledger);
      for (const { id, jobId } of ledger.leases.values()) {
        const sinceMs = leases.get(id) ?? nowMs();
        leases.set(id, sinceMs);
        const isForNobody = (ended.get(jobId) ?? Infinity) < sinceMs;
        if (isForNobody && late(sinceMs, GRANT_MS))
          violate("grants in vain return", `${id} was granted to ${jobId}, which had ended`);
      }
    },
    jobEnded: (job) => void ended.set(job, nowMs()),
    left: (job) => void left.set(job, nowMs()),
    called: (job) => {
      const leftAtMs = left.get(job) ?? 0;
      const isItsLast = leftAtMs >= (ended.get(job) ?? Infinity) - END_MS;
      if (isItsLast && late(leftAtMs, CALL_MS))
        violate("who has left is not called", `${job} has left and ended, and is called in`);
    },
  };
}
