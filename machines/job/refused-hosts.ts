/**
 * @file Hosts that refused a job: it keeps off them, until none of the others is left.
 *
 * None is left at once where no other host of the fleet would do; else a refusal counts for ten minutes. Otherwise a job would wait for ever for a host
 * that is gone, beside one that was busy for a moment. Before `RESTED_ANYWAY_RULES` that was so only where others would do and too few of them answer
 * (`WaitingForHosts`); but a fleet says so once, and that word may be lost, or be followed by an older one.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import { RESTED_ANYWAY_RULES, RESTING_RULES } from "../../protocol/control-contract.ts";

/** A host that refused is asked again after this time. */
export const REFUSAL_REST_MS = 600_000;

interface Refused {
  readonly pending?: PendingReason;
  readonly avoidHosts: readonly HostId[];
}

export const hasNoHostLeft = ({ pending, avoidHosts }: Refused): boolean =>
  pending?.code === "NoMatchingFlavor" && avoidHosts.length > 0;

/** When the hosts that refused are asked again; infinite where none has, or where that is not due by itself. `rules`: see `JOB_RULES`. */
export const restedAtMs = (
  { pending, avoidHosts }: Refused,
  { rules, askedAtMs }: { readonly rules: number; readonly askedAtMs: number },
): number => {
  const isDue =
    rules >= RESTED_ANYWAY_RULES || (rules >= RESTING_RULES && pending?.code === "WaitingForHosts");
  return isDue && avoidHosts.length > 0 ? askedAtMs + REFUSAL_REST_MS : Infinity;
};
