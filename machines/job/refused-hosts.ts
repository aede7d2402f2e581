/**
 * @file Hosts that refused a job: it keeps off them, until none of the others is left.
 *
 * None is left at once where no other host of the fleet would do; where others would do but too few of them answer (`WaitingForHosts`), a refusal
 * counts for ten minutes. Otherwise a job would wait for ever for a host that is gone, beside one that was busy for a moment.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import { RESTING_RULES } from "../../protocol/control-contract.ts";

/** A host that refused is asked again after this time, should too few others answer. */
export const REFUSAL_REST_MS = 600_000;

interface Refused {
  readonly pending?: PendingReason;
  readonly avoidHosts: readonly HostId[];
}

export const hasNoHostLeft = ({ pending, avoidHosts }: Refused): boolean =>
  pending?.code === "NoMatchingFlavor" && avoidHosts.length > 0;

/** When the hosts that refused are asked again, because of the others too few answer; else infinite. `rules`: see `JOB_RULES`. */
export const restedAtMs = (
  { pending, avoidHosts }: Refused,
  { rules, askedAtMs }: { readonly rules: number; readonly askedAtMs: number },
): number =>
  rules >= RESTING_RULES && pending?.code === "WaitingForHosts" && avoidHosts.length > 0
    ? askedAtMs + REFUSAL_REST_MS
    : Infinity;
