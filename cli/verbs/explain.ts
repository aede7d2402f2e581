/** @file `orbweaver explain JOB`: why it waits, with the fleet's numbers of this moment, or why it runs where it runs. */

import type { Command } from "commander";
import {
  OrbweaverClient,
  type ArrayView,
  type JobEnding,
  type JobExplanation,
  type JobOutcome,
  type JobView,
  type PendingReason,
} from "../../client/index.ts";
import { runBandwidthText } from "../../domain/bandwidth-note.ts";
import { isSuitable } from "../../scheduling/feasibility.ts";
import { isHopeless } from "../../scheduling/judge.ts";
import { fleetText, movesText } from "../cell-moves.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { decisionText, recordedDecision } from "../decision.ts";
import { drainedHosts, drainedLines, type DrainedHost } from "../drained-hosts.ts";
import { counted, durationText } from "../duration.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { jobSilenceText, quietHostsOf } from "../job-silence.ts";
import { wantedText } from "../preempted-runs.ts";
import { gpusText, hostsText } from "../place.ts";
import {
  changesText,
  forecastDocument,
  forecastText,
  laterText,
  prospectOf,
  type Prospect,
} from "../prospect.ts";
import { quietDocument, quietHosts, quietLines, type QuietHost } from "../quiet-hosts.ts";
import type { Session } from "../session.ts";
import { factsText } from "../table.ts";
import { countsText } from "../task-table.ts";

export function explainVerb(kit: Kit): Command {
  const verb = kit
    .verb("explain")
    .summary("say why a job waits, or runs where it runs")
    .description(
      "Asks the fleet why a job waits: the code, the numbers behind it, who holds what it needs, its place in\n" +
        "the queue, when it will start (an interval that holds 8 times of 10, from playing the queue\n" +
        "forward), and the cheapest changes that would start it now, each tried on a copy of the fleet.\n" +
        "Of a running job: why its GPUs were picked.",
    )
    .argument("<job>", "job id")
    .option("--decision", "the decision that last granted it GPUs, from the fleet's history")
    .option("--than <job>", "with --decision: only why it was before this one, or not")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver explain train-7", "why does it not start, when will it, what would help?"],
        ["orbweaver explain train-7 --json", "the same for a script"],
        ["orbweaver explain train-7 --decision --than train-6", "why this one before that one?"],
      ]),
    )
    .action(async (jobId: string, values: ExplainValues) => {
      await kit.withSession(values, async (session) => {
        const { client } = session;
        if (values.decision === true || values.than !== undefined) {
          const decision = await recordedDecision(session, jobId);
          if (values.json === true) kit.printJson(decision);
          else kit.print(decisionText(decision, values.than));
          return;
        }
        const explanation = await client.job(jobId).explain();
        const nowMs = kit.io.nowMs();
        const there = clientThere(session, explanation.view);
        const { drained, quiet } = await hindrancesOf(explanation, { client: there, nowMs });
        const prospect = await prospectFor(explanation, { client: there, nowMs });
        if (values.json === true) {
          const hosts = drained.map(({ host, reason }) => ({ host: host.id, reason }));
          kit.printJson({
            ...explanation,
            ...(hosts.length > 0 && { drained: hosts }),
            ...(quiet.length > 0 && { silent: quiet.map(quietDocument) }),
            ...(prospect?.forecast && { forecast: forecastDocument(prospect.forecast) }),
            ...(prospect?.preempts && { preempts: prospect.preempts }),
            ...(prospect && { changes: prospect.changes }),
          });
        } else
          kit.print(
            withMoves(
              explanationText(explanation, {
                nowMs,
                drained,
                quiet,
                ...(prospect !== undefined && { prospect }),
              }),
              explanation.view,
              nowMs,
            ),
          );
      });
    });
  return addConnectionOptions(verb);
}

/** Of the fleet where the job is, which need not be the one that the flags name. */
const clientThere = ({ client, temporal, fleet }: Session, view: JobView): OrbweaverClient =>
  view.fleet === fleet ? client : new OrbweaverClient(temporal, { fleet: view.fleet });

function withMoves(text: string, view: JobView, nowMs: number): string {
  const moves = movesText(view, nowMs);
  if (moves === undefined) return text;
  return `${text}\n${factsText([
    ["fleet", fleetText(view)],
    ["moved", moves],
  ]).replace(/^/gm, "  ")}`;
}

interface ExplainValues extends ConnectionOptionValues {
  readonly decision?: boolean;
  readonly than?: string;
  readonly json?: boolean;
}

interface Hindrances {
  readonly drained: readonly DrainedHost[];
  /** Of a job that waits: those that would suit it; of one that runs: its own. */
  readonly quiet: readonly QuietHost[];
}

export interface Explained extends Hindrances {
  readonly nowMs: number;
  /** Of a job that waits. */
  readonly prospect?: Prospect;
}

export function explanationText(
  explanation: JobExplanation,
  { nowMs, drained, quiet, prospect }: Explained,
): string {
  const { view, ending, fleet } = explanation;
  const { jobId, state } = view;
  if (ending.outcome !== undefined) return endedText(jobId, ending.outcome, view);
  if (fleet?.kind === "waiting") {
    const { position, waiting, requestedAtMs, reason } = fleet;
    return [
      `${jobId} waits: ${reason.code}`,
      `  ${reason.message}`,
      reasonFacts(reason, [
        ["place", `${String(position)} of ${String(waiting)} in the queue`],
        ["waits for", durationText(nowMs - requestedAtMs)],
        ["starts", prospect?.forecast && forecastText(prospect.forecast, nowMs)],
        ["preempts", prospect?.preempts && laterText(prospect.preempts, nowMs)],
        ["would help", prospect && changesText(prospect.changes)],
        [
          "drained",
          drained.length === 0 ? undefined : drainedLines(drained, MAX_LISTED).join("\n"),
        ],
        ["silent", quiet.length === 0 ? undefined : quietLines(quiet, MAX_LISTED).join("\n")],
      ]),
    ].join("\n");
  }
  if (view.array !== undefined && state === "running") return arrayText(view, view.array, quiet);
  const last = view.attempts.at(-1);
  if ((state === "running" || state === "stopping") && last !== undefined) {
    return [
      state === "running" ? `${jobId} is running: ${last.reason}` : stoppingText(view, ending),
      factsText([
        ["why there", state === "running" ? undefined : last.reason],
        ["on", gpusText(last.gpus)],
        ["silent", jobSilenceText(quiet)],
        ["lease", last.leaseId],
        ["waited", durationText(last.grantedAtMs - last.requestedAtMs)],
        ["bandwidth", runBandwidthText(last)],
      ]),
    ].join("\n");
  }
  if (state === "held") {
    return `${jobId} is held: OnHold\n  Its owner keeps it from starting. \`orbweaver release ${jobId}\` ends that.`;
  }
  if (state === "pending") return pendingText(explanation);
  return `${jobId} is ${state}`;
}

/** Of an array that runs: on how much, and why on no more. */
function arrayText(
  { jobId, pending }: JobView,
  { counts, slots, leases }: ArrayView,
  quiet: readonly QuietHost[],
): string {
  const hosts = leases.flatMap(({ gpus }) => gpus.map(({ host }) => host));
  return [
    `${jobId} is running: ${counted(slots, "task")} at a time on ${hostsText(hosts)}`,
    factsText([
      ["tasks", countsText(counts)],
      ["on", gpusText(leases.slice(0, MAX_LISTED).flatMap(({ gpus }) => gpus))],
      ["silent", jobSilenceText(quiet)],
      ["no more", pending === undefined ? undefined : `${pending.code}: ${pending.message}`],
    ]).replace(/^/gm, "  "),
  ].join("\n");
}

/** Why a run is being stopped, and how long that may take. */
function stoppingText({ jobId, spec, attempts }: JobView, { isCancelAsked }: JobEnding): string {
  const preempted = attempts.at(-1)?.preempted;
  const why = isCancelAsked
    ? "its cancel was asked"
    : preempted !== undefined
      ? `it is preempted ${wantedText(jobId, preempted)}; it goes on when it gets GPUs again`
      : spec?.deadlineMs === undefined
        ? "one of its hosts failed"
        : "one of its hosts failed, or its deadline has passed";
  const lines = [`${jobId} is being stopped: ${why}`];
  if (spec !== undefined) {
    const { checkpoint, graceMs } = spec.run;
    const saving =
      checkpoint === undefined ? "" : `${durationText(checkpoint.graceMs)} to write a checkpoint, `;
    const grace = durationText(graceMs);
    const hosts = counted(attempts.at(-1)?.gpus.length ?? 0, "host");
    lines.push(
      `  Its processes on ${hosts} get ${saving}${grace} to end, and ${grace} more after TERM; then KILL.`,
    );
  }
  return lines.join("\n");
}

function endedText(jobId: string, outcome: JobOutcome, { attempts }: JobView): string {
  switch (outcome.kind) {
    case "completed":
      return `${jobId} has completed`;
    case "cancelled":
      return `${jobId} has been cancelled${attempts.length === 0 ? " before it started" : ""}`;
    case "failed":
      return `${jobId} has failed: ${outcome.failure.code}\n  ${indented(outcome.message)}`;
    case "terminated":
      return outcome.message;
  }
}

const indented = (text: string): string => text.replaceAll("\n", "\n  ");

/** What stands in the way of a job that waits for hosts, or has befallen one that runs; in the fleet's order. */
async function hindrancesOf(
  { view, fleet }: JobExplanation,
  { client, nowMs }: { readonly client: Session["client"]; readonly nowMs: number },
): Promise<Hindrances> {
  if (fleet?.kind !== "waiting")
    return { drained: [], quiet: await quietHostsOf(view, { client, nowMs }) };
  if (fleet.reason.code !== "WaitingForHosts") return { drained: [], quiet: [] };
  const ledger = await client.fleet();
  const request = ledger.requests.get(view.jobId);
  if (request === undefined) return { drained: [], quiet: [] };
  return {
    drained: drainedHosts(ledger).filter((place) => isSuitable(request, place)),
    quiet: quietHosts(ledger, nowMs).filter(({ place }) => isSuitable(request, place)),
  };
}

/** Worked out here, from the ledger of this moment. */
async function prospectFor(
  { view, fleet }: JobExplanation,
  { client, nowMs }: { readonly client: Session["client"]; readonly nowMs: number },
): Promise<Prospect | undefined> {
  if (fleet?.kind !== "waiting") return undefined;
  const { code } = fleet.reason;
  return prospectOf(await client.fleet(), view.jobId, { nowMs, isHopeless: isHopeless(code) });
}

const MAX_LISTED = 8;

/** The fleet has no request of a job that waits: it says so itself, or it is between two runs. */
function pendingText({ view, fleet }: JobExplanation): string {
  const { jobId, pending } = view;
  if (pending !== undefined) {
    return [`${jobId} waits: ${pending.code}`, `  ${pending.message}`, reasonFacts(pending, [])]
      .join("\n")
      .trimEnd();
  }
  return fleet === undefined
    ? `${jobId} waits: NoFleet\n  Fleet ${view.fleet} does not answer. Start it with \`orbweaver up\`.`
    : `${jobId} waits: PendingEvaluation\n  Its request has not been decided on yet.`;
}

function reasonFacts(
  { numbers, holders, wakeOn }: PendingReason,
  more: readonly (readonly [string, string | undefined])[],
): string {
  const figures = Object.entries(numbers).map(([name, value]) => `${name} ${String(value)}`);
  return factsText([
    ...more,
    ["numbers", figures.length === 0 ? undefined : figures.join(", ")],
    ["held by", holders.length === 0 ? undefined : holders.join(", ")],
    ["changes on", wakeOn.join(", ")],
  ]).replace(/^/gm, "  ");
}
