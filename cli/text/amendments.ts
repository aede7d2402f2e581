/** @file Changes of a job's settings, who holds it, and orders that ended its runs, as text. */

import type { AttemptView, JobView } from "../../client/index.ts";
import { GIVEN_UP } from "../../protocol/job-orders.ts";
import type { Amendment, ChangedSetting } from "../../domain/job/amendment.ts";
import { durationText, timeText } from "../terminal/duration.ts";

const NAMES: Readonly<Record<ChangedSetting["setting"], string>> = {
  priority: "priority",
  tenant: "tenant",
  timeLimitMs: "time limit",
  deadlineMs: "deadline",
  min: "least GPUs",
  max: "GPUs",
};

/** `priority 0 → 5`. */
export function changeText({ setting, before, after }: ChangedSetting): string {
  const text = (value: string | number | undefined): string =>
    value === undefined
      ? "none"
      : typeof value === "number" && setting.endsWith("Ms")
        ? durationText(value)
        : String(value);
  return `${NAMES[setting]} ${text(before)} → ${text(after)}`;
}

/** A line for each change that the job still knows; undefined when it was never changed. */
export function amendmentsText({ amended }: JobView): string | undefined {
  if (amended === undefined) return undefined;
  const earlier = amended.count - amended.last.length;
  return [
    ...(earlier > 0 ? [`${String(earlier)} earlier changes`] : []),
    ...amended.last.map(amendmentText),
  ].join("\n");
}

const amendmentText = ({ atMs, by, changes }: Amendment): string =>
  `${changes.map(changeText).join(", ")} by ${by}, ${timeText(atMs)}`;

/** `suspended by ada, …`; undefined where nobody is known to hold the job. */
export function pauseText({ pause }: JobView): string | undefined {
  if (pause === undefined) return undefined;
  return `${pause.kind === "suspend" ? "suspended" : "held"} by ${pause.by}, ${timeText(pause.atMs)}`;
}

export const givenUpText = ({ givenUp }: AttemptView): string | undefined =>
  givenUp && GIVEN_UP[givenUp.kind];
