/**
 * @file What a loan of GPUs is between a job that waits for others and one that runs there meanwhile: who may borrow, and when the
 * GPUs are called in.
 *
 * Borrowers are training jobs that may be preempted, write a checkpoint when told to, and ask for no longer protected time than
 * their class has: those lose seconds by an eviction, whenever it comes. A checkpoint may take them a minute at most. A loan is called in only when that is all that its
 * owner's start still needs: each GPU of the owner's place is free, is being given up already, or is on loan. So nothing is
 * evicted before the beneficiary's place is known, and each round of evictions is paid by the start of a gang.
 * Part of the constitution: `apply` judges by these functions. Cost: O(hosts of the place + leases there).
 */

import { DEFAULT_PREEMPTION } from "../domain/job.ts";
import { popCount, type GangRequest, type Lease, type Reservation } from "../domain/lease.ts";
import { maskIn, sharedGpus } from "./reserved.ts";

/** No borrower may take longer for its checkpoint: so much later than without loans a head starts, at most, when all goes well. */
export const MAX_GRACE_MS = 60_000;

export function mayBorrow({
  class: jobClass,
  preemption,
  checkpoint,
  slots,
}: Pick<GangRequest, "class" | "preemption" | "checkpoint" | "slots">): boolean {
  const usual = DEFAULT_PREEMPTION[jobClass];
  const { isPreemptible, minRuntimeMs } = preemption ?? usual;
  return (
    jobClass === "training" &&
    slots === undefined &&
    checkpoint !== undefined &&
    checkpoint.graceMs <= MAX_GRACE_MS &&
    isPreemptible &&
    minRuntimeMs <= usual.minRuntimeMs
  );
}

/** Whether the lease has GPUs on loan that are set apart in this reservation. */
export const isOnLoanFrom = ({ gpus }: Pick<Reservation, "gpus">, { loan }: Lease): boolean =>
  loan !== undefined && sharedGpus(loan.gpus, gpus).length > 0;

/** How many GPUs of the place are leased, not on loan, and not being given up: its owner waits for those. */
export function neededBeside({ gpus }: Pick<Reservation, "gpus">, leases: Iterable<Lease>): number {
  const masks = new Map(gpus.map(({ host, mask }) => [host, mask]));
  let needed = 0;
  for (const { gpus: held, loan, eviction, state } of leases) {
    if (eviction !== undefined || state === "vacating") continue;
    for (const { host, mask } of held)
      needed += popCount((masks.get(host) ?? 0) & mask & ~maskIn(loan?.gpus ?? [], host));
  }
  return needed;
}
