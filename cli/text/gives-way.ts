/** @file Why no job gives way to a waiting one, as one line for each rule that keeps some. */

import type { Kept, KeepingRule } from "../../scheduling/explain/gives-way.ts";
import { counted, durationText } from "../terminal/duration.ts";

/** Undefined where no job is in the way. */
export function givesWayText(kept: readonly Kept[], nowMs: number): string | undefined {
  if (kept.length === 0) return undefined;
  return kept
    .map(({ rule, leases, gpus, numbers }) => {
      const of = (name: string): string => String(Math.round(numbers[name] ?? 0));
      return `${counted(leases, "job")} on ${counted(gpus, "GPU")}: ${WHY[rule](of, numbers, nowMs)}`;
    })
    .join("\n");
}

type Why = (of: (name: string) => string, numbers: Kept["numbers"], nowMs: number) => string;

const WHY: Readonly<Record<KeepingRule, Why>> = {
  "fleet-never-preempts": () => "this fleet preempts no job",
  "not-preemptible": () => "may not be preempted",
  "stops-already": () => "stopping already",
  protected: (_of, { untilMs = 0 }, nowMs) =>
    `protected (minRuntime), the first for ${durationText(Math.max(0, untilMs - nowMs))}`,
  lent: () => "on lent GPUs, which go back to another job alone",
  "no-checkpoint": () => "same tenant and class, and no checkpoint would keep the work",
  "higher-priority": (of) => `same tenant and class, priority above ${of("priority")}`,
  "served-less": () => "same tenant and class, and not served more than this job",
  "own-due": (of) =>
    `${of("needGpus")} GPUs more exceed this tenant's due: it holds ${of("heldGpus")} of ${of("dueGpus")}`,
  "their-due": (of) => `their tenants hold ${of("heldGpus")} GPUs and are due ${of("dueGpus")}`,
  budget: (of) =>
    `this tenant's budget is used: ${of("spentGpuSeconds")} of ${of("budgetGpuSeconds")} GPU-seconds`,
  "no-place": (of) =>
    `no rule keeps these, but no place for ${of("needGpus")} GPUs was found there`,
};
