/**
 * @file The ledger with which a fleet starts again when its workflow was closed, from that of its last known input.
 *
 * Requests, leases and agents are out of date there; agents and jobs are asked for them at `RECOVER_AFTER_MS`. Pure.
 */

import { emptyLedger } from "./apply/apply.ts";
import { newestEpochOf } from "./apply/host-silence.ts";
import { afterLoss } from "./apply/ledger-recovery.ts";
import { NO_INTAKE, type Intake } from "./intake.ts";
import { isBounded, type HostStatus, type Ledger } from "./ledger.ts";

/** Jobs that were started just before the loss may not be visible at first: agents and jobs are asked three times. */
export const RECOVER_AFTER_MS: readonly number[] = [0, 60_000, 600_000];

/** The parts that are kept: the description, what operators have stated about hosts, and what they hold of the queue. */
export function ledgerAfterLoss(lost: Ledger): Ledger {
  const hosts = [...lost.hosts].flatMap(([host, status]) => {
    const { isDrained, drainReason, gpuDrains, isFenced, fencedAtMs } = status;
    if (!isDrained && gpuDrains === undefined && isFenced !== true) return [];
    const newest = newestEpochOf(status);
    const hostStatus: HostStatus = {
      isDrained,
      ...(drainReason !== undefined && { drainReason }),
      ...(gpuDrains !== undefined && { gpuDrains }),
      ...(isFenced === true && { isFenced }),
      ...(fencedAtMs !== undefined && { fencedAtMs }),
      ...(isFenced === true && newest !== undefined && { lastEpoch: newest }),
    };
    return [[host, hostStatus] as const];
  });
  return {
    ...emptyLedger(lost.shape, lost.detailsHash),
    applyVersion: lost.applyVersion,
    ...afterLoss(lost),
    nextArrival: lost.nextArrival,
    // The closed run may have given its first credits after its input was written.
    ...(isBounded(lost) && {
      intake: intakeAfterLoss(lost.intake ?? NO_INTAKE),
    }),
    hosts: new Map(hosts),
    ...(lost.holds !== undefined && { holds: lost.holds }),
  };
}

/** Credits are numbered on: a job that used one of the lost ledger must not take a new one for it. */
const intakeAfterLoss = ({ nextCredit }: Intake): Intake => ({
  ...NO_INTAKE,
  nextCredit: nextCredit + LOST_CREDITS,
});

/** More than a run of a fleet can have given. */
const LOST_CREDITS = 1_000_000;
