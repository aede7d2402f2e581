/**
 * @file The run times of past jobs, for estimates: a note for each of the last leases of every class that ended by themselves.
 *
 * Left out are leases that do not show how long such a job runs: those evicted for another job, those of arrays (they pass from task to
 * task), those of closed or superseded jobs, and those without terms. `apply` keeps the notes, and no decision reads them.
 * Cost: O(notes) an end. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostId } from "../../../domain/values/ids.ts";
import type { Lease } from "../../../domain/lease/lease.ts";
import type { RunNote } from "../ledger.ts";

/** Of one class: enough for quantiles by size; each is some 25 bytes of the fleet's state. */
export const MAX_RUN_NOTES = 128;

/** The notes after the end of a lease. `unconfirmed` is `all` where nobody of its job has told of it. */
export function notesAfter(
  notes: readonly RunNote[],
  lease: Lease,
  {
    unconfirmed,
    nowMs,
  }: { readonly unconfirmed: readonly HostId[] | "all"; readonly nowMs: number },
): readonly RunNote[] {
  const { terms, slots, eviction, tenant, grantedAtMs } = lease;
  if (terms === undefined || slots !== undefined || eviction !== undefined) return notes;
  if (unconfirmed === "all" || nowMs < grantedAtMs) return notes;
  const { gang, submittedAtMs, timeLimitMs } = terms;
  const note: RunNote = {
    class: lease.class,
    tenant,
    gpus: gang.gpus,
    submittedAtMs,
    grantedAtMs,
    endedAtMs: nowMs,
    ...(timeLimitMs !== undefined && { timeLimitMs }),
  };
  const alike = notes.filter((each) => each.class === note.class).length;
  if (alike < MAX_RUN_NOTES) return [...notes, note];
  const oldest = notes.findIndex((each) => each.class === note.class);
  return [...notes.slice(0, oldest), ...notes.slice(oldest + 1), note];
}
