/**
 * @file How often one job may have to give way: what a fleet's policy makes of a job's own rule after it has been preempted.
 *
 * A fleet sends its limits with every order to give way, and the job asks with the limited rule from then on. So queue, ledger and
 * simulator judge it as they judge any rule, and nobody counts for the job.
 */

import type { FleetPolicy } from "../fleet/fleet.ts";
import type { PreemptionRule } from "../job/job.ts";
import { ms, type Ms } from "../values/units.ts";

export interface PreemptionLimits {
  /** Most times that one job gives way; without a limit when absent. */
  readonly most?: number;
  /** So long a job that has given way runs undisturbed; no longer than any other when absent. */
  readonly coolDownMs?: Ms;
}

/** Undefined where the policy has none. */
export function limitsOf({
  maxPreemptions,
  coolDownMs,
}: Pick<FleetPolicy, "maxPreemptions" | "coolDownMs">): PreemptionLimits | undefined {
  if (maxPreemptions === undefined && coolDownMs === undefined) return undefined;
  return {
    ...(maxPreemptions !== undefined && { most: maxPreemptions }),
    ...(coolDownMs !== undefined && { coolDownMs }),
  };
}

/** The rule of a job that has given way so many times. */
export function limitedRule(
  rule: PreemptionRule,
  times: number,
  { most = Infinity, coolDownMs = ms(0) }: PreemptionLimits,
): PreemptionRule {
  if (times === 0) return rule;
  return {
    ...rule,
    isPreemptible: rule.isPreemptible && times < most,
    minRuntimeMs: ms(Math.max(rule.minRuntimeMs, coolDownMs)),
  };
}
