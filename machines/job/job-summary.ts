/** @file The details of a job in Temporal's own UI: a few lines of Markdown, written from its view. */

import { runBandwidthText } from "../../domain/lease/bandwidth-note.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { preemptedText } from "../../domain/lease/preempted.ts";
import { timeText } from "../../domain/values/wall-time.ts";
import type { AttemptView, JobView } from "../../protocol/job.ts";

/** Its state, why it waits, the hosts that it runs on, and how its runs ended. */
export function jobSummary(view: JobView): string {
  const lines = [`**${headline(view)}**`];
  if (view.spec !== undefined) {
    const { name, tenant, class: jobClass, gang, run } = view.spec;
    lines.push(
      "",
      `${name} · ${jobClass} · tenant ${tenant} · ${gang.gpus} GPUs`,
      "",
      `\`${code(run.command.join(" "))}\``,
    );
  }
  const move = view.cells?.moves.at(-1);
  if (view.cells !== undefined && move !== undefined) {
    lines.push(
      "",
      `At fleet **${view.fleet}**, submitted to ${view.cells.home}; moved ${view.cells.moved} times, last from ${move.from}: ${move.reason}`,
    );
  }
  if (view.state === "pending" && view.pending !== undefined) {
    lines.push("", `Waits: **${view.pending.code}**`, "", view.pending.message);
    if (view.pending.holders.length > 0)
      lines.push("", `Held by: ${view.pending.holders.join(", ")}`);
  }
  if (view.attempts.length > 0) {
    lines.push("", "| run | lease | where | why here | end |", "| --- | --- | --- | --- | --- |");
    lines.push(...view.attempts.slice(-10).map((attempt) => attemptRow(view, attempt)));
  }
  return lines.join("\n");
}

function headline({ jobId, state, attempts, submittedAtMs }: JobView): string {
  const last = attempts.at(-1);
  switch (state) {
    case "pending":
      return `Waiting since ${timeText(last?.endedAtMs ?? submittedAtMs)}`;
    case "held":
      return "On hold until it is released";
    case "running":
      return `On ${last === undefined ? "its hosts" : last.gpus.map((part) => part.host).join(", ")} since ${timeText(last?.grantedAtMs ?? submittedAtMs)}`;
    case "stopping":
      return last?.preempted === undefined
        ? "Stopping"
        : last.preempted.forJob === jobId
          ? `Stopping to go on with more GPUs: ${last.preempted.reason}`
          : `Stopping for ${last.preempted.forJob}: ${last.preempted.reason}`;
    case "completed":
    case "failed":
    case "cancelled":
      return state[0]?.toUpperCase() + state.slice(1);
  }
}

function attemptRow({ jobId, spec }: JobView, run: AttemptView): string {
  const { attempt, leaseId, gpus, reason, end, cause, preempted } = run;
  const granted = attemptGpus(run);
  const wanted = spec?.gang.gpus ?? granted;
  const size = granted < wanted ? ` (${granted} of ${wanted} GPUs)` : "";
  const where = gpus.map(({ host, mask }) => `${host} ${gpuList(mask)}`).join("<br>");
  const bandwidth = runBandwidthText(run);
  const ranMs = (run.endedAtMs ?? preempted?.atMs ?? 0) - (run.startedAtMs ?? run.grantedAtMs);
  const ending =
    preempted !== undefined
      ? preemptedText(preempted, { jobId, ranMs })
      : cause === undefined
        ? (end ?? "runs")
        : `${cause.code}: ${cause.message}`;
  return `| ${[String(attempt), leaseId, where + size, reason + (bandwidth === undefined ? "" : ` (${bandwidth})`), ending].map(cell).join(" | ")} |`;
}

/** `0b1101` → `0,2,3`. */
export function gpuList(mask: number): string {
  return Array.from({ length: 30 }, (_, gpu) => gpu)
    .filter((gpu) => (mask >>> gpu) & 1)
    .join(",");
}

/** How many GPUs an attempt has. */
export const attemptGpus = (attempt: AttemptView): number =>
  attempt.gpus.reduce((sum, { mask }) => sum + popCount(mask), 0);

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");
const code = (text: string): string =>
  text.replaceAll("`", "'").replaceAll("\n", " ⏎ ").slice(0, 300);
