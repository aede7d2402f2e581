/** @file Why no job gives way to a waiting one, as one line for each rule that keeps some. */

import type { Kept, KeepingRule } from "../../scheduling/explain/gives-way.ts";
import { counted, durationText } from "../terminal/duration.ts";

/** Undefined where no job is in the way. */
export function givesWayText(kept: readonly Kept[], nowMs: number): string | undefined {
  if (kept.length === 0) return undefined;
  return kept
    .map(({ rule, leases, gpus, numbers, untilMs, endsByMs }) => {
      const of = (name: string): string => String(Math.round(numbers[name] ?? 0));
      const inTime = (atMs: number): string => durationText(Math.max(0, atMs - nowMs));
      const until = untilMs === undefined ? "" : `, the first for ${inTime(untilMs)} more`;
      const ends =
        endsByMs === undefined
          ? ""
          : `; the first ends by its time limit, in ${inTime(endsByMs)} at most`;
      return `${counted(leases, "job")} on ${counted(gpus, "GPU")}: ${WHY[rule](of, numbers)}${until}${ends}`;
    })
    .join("\n");
}

type Why = (of: (name: string) => string, numbers: Kept["numbers"]) => string;

const WHY: Readonly<Record<KeepingRule, Why>> = {
  "fleet-never-preempts": () => "this fleet preempts no job",
  "not-preemptible": (_of, { maxPreemptions }) =>
    maxPreemptions === undefined
      ? "may not be preempted"
      : `may not be preempted, by its own file or because it was preempted ${counted(maxPreemptions, "time")}, the most here`,
  "stops-already": () => "stopping already",
  "room-is-coming": () => "other jobs give way already, and that is enough",
  protected: (_of, { longestSeconds = 0, coolDownSeconds }) =>
    coolDownSeconds === undefined
      ? "protected (minRuntime)"
      : `protected for ${durationText(longestSeconds * 1_000)} at most from the start (minRuntime, or the cool-down of ${durationText(coolDownSeconds * 1_000)} after a preemption)`,
  lent: () => "on lent GPUs, which go back to another job alone",
  "no-checkpoint": () => "same tenant and class, and no checkpoint would keep the work",
  "higher-priority": (of) =>
    `same tenant and class, priority ${of("leastPriority")} or more, above ${of("priority")}`,
  "served-less": (of, { waitingGpus = 0, heldGpus = 0 }) =>
    `same tenant and class, and has not used up level ${of("level")} of service` +
    (waitingGpus > heldGpus
      ? `, which lasts longer as ${of("waitingGpus")} GPUs wait and ${of("heldGpus")} are held`
      : ""),
  "own-due": (of) =>
    `${of("needGpus")} GPUs more exceed this tenant's due: it holds ${of("heldGpus")} of ${of("dueGpus")} (weight ${of("tenantWeight")})`,
  "class-due": (of) =>
    `${of("needGpus")} GPUs more exceed the due of this job's class: it holds ${of("classHeldGpus")} of ${of("classDueGpus")} (weight ${of("classWeight")})`,
  "their-due": (of, { classDueGpus }) =>
    `their tenants hold ${of("heldGpus")} GPUs and are due ${of("dueGpus")}` +
    (classDueGpus === undefined
      ? ""
      : `; their classes ${of("classHeldGpus")} and ${of("classDueGpus")}`),
  budget: (of) =>
    `this tenant's budget is used: ${of("spentGpuSeconds")} of ${of("budgetGpuSeconds")} GPU-seconds`,
  "no-place": (of, { needGpus = 0, togetherGpus = 0 }) =>
    togetherGpus < needGpus
      ? `no rule keeps these, but with ${of("freeGpus")} free they make ${of("togetherGpus")} of ${of("needGpus")} GPUs`
      : `no rule keeps these, but no place for ${of("needGpus")} GPUs was found there and on ${of("freeGpus")} free ones`,
};
