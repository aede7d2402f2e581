/** @file Doubts about a fleet's ledger and the notes of repairs as text of at most 80 columns. */

import type { Doubt, DoubtedHost, Ledger, RepairNote } from "../../client/index.ts";
import { counted, timeText } from "../terminal/duration.ts";

const MAX_HOSTS = 4;

export function doubtText(doubt: Doubt): string {
  switch (doubt.kind) {
    case "request":
      return [`request of ${doubt.jobId}`, "  job    its run is over"].join("\n");
    case "reservation":
      return [
        `reservation of ${doubt.jobId}, ${counted(doubt.gpus, "GPU")}`,
        "  job    neither waits nor holds anything",
      ].join("\n");
    case "lease": {
      const state = doubt.isVacating ? "vacating" : "held";
      return [
        `${doubt.lease}  ${counted(doubt.gpus, "GPU")}, ${state}`,
        `  job    ${doubt.jobId}: ${JOB_WORDS[doubt.job]}`,
        ...hostLines(doubt.hosts),
      ].join("\n");
    }
  }
}

const JOB_WORDS = {
  closed: "its run is over",
  denies: "is open, but not on this lease",
  silent: "does not say",
  holds: "has not let go of it yet",
} as const;

function hostLines(hosts: readonly DoubtedHost[]): readonly string[] {
  const lines = hosts
    .slice(0, MAX_HOSTS)
    .map(({ host, agent }) => `  host   ${host}: not confirmed; ${AGENT_WORDS[agent]}`);
  const more = hosts.length - lines.length;
  return more > 0 ? [...lines, `  … and ${counted(more, "more host")}`] : lines;
}

const AGENT_WORDS = {
  answers: "its agent answers",
  silent: "silent: fence it if it is gone",
  none: "no agent: fence it if it is gone",
} as const;

export function noteText({ by, freed, left, freedCount, leftCount }: RepairNote): string {
  return [
    freedCount === 0
      ? `Nothing was freed for ${by}.`
      : `Freed, because everybody has denied it: ${listed(freed, freedCount)}`,
    ...(leftCount === 0
      ? []
      : [
          `Left, because somebody has not denied it: ${listed(left, leftCount)}`,
          "A host that does not answer denies nothing. Start its agent again, or, if the",
          "machine is gone: orbweaver fence HOST",
        ]),
  ].join("\n");
}

function listed(names: readonly string[], count: number): string {
  const more = count > names.length ? [`… and ${String(count - names.length)} more`] : [];
  return [...names, ...more].map((name) => `\n  ${name}`).join("");
}

/** Former repairs, newest first, one line each. */
export const formerRepairs = ({ repairs = [] }: Ledger): readonly string[] =>
  [...repairs]
    .reverse()
    .map(
      ({ atMs, by, freedCount, leftCount }) =>
        `${timeText(atMs)}  ${by}: ${String(freedCount)} freed, ${String(leftCount)} left`,
    );
