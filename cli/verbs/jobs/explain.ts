/** @file `orbweaver explain JOB`: why a job waits, with the fleet's current numbers, or why it runs where it runs. */

import type { Command } from "commander";
import {
  OrbweaverClient,
  type ArrayView,
  type FleetClient,
  type JobEnding,
  type JobExplanation,
  type JobOutcome,
  type JobView,
  type PendingReason,
} from "../../../client/index.ts";
import type { MessagesOf } from "../../../domain/bandwidth/sent-messages.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { learnedMessages, takenMessages, takenText } from "../../planning/learned-messages.ts";
import { runBandwidthText } from "../../../domain/lease/bandwidth-note.ts";
import { isSuitable } from "../../../scheduling/ledger/rules/grant-check.ts";
import { amendmentsText, pauseText } from "../../text/amendments.ts";
import { fleetText, movesText, movingText } from "../../text/cell-moves.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { decisionText, recordedDecision } from "../../command/decision.ts";
import {
  allDrainedLines,
  drainedGpus,
  drainedGpusDocument,
  drainedHosts,
  type DrainedGpus,
  type DrainedHost,
} from "../../text/drained-hosts.ts";
import { counted, durationText } from "../../terminal/duration.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { jobHosts, jobSilenceText } from "../../command/job-silence.ts";
import { wantedText } from "../../text/preempted-runs.ts";
import { predecessorsText } from "../../text/predecessors.ts";
import { lobbyFacts } from "../../text/lobby-place.ts";
import { givesWayText } from "../../text/gives-way.ts";
import { gpusText, hostsText } from "../../text/place.ts";
import {
  changesText,
  forecastDocument,
  forecastText,
  laterText,
  neverFacts,
  outlookOf,
  type ClusterFit,
} from "../../text/start-outlook.ts";
import {
  quietDocument,
  quietHosts,
  quietLines,
  type QuietHost,
} from "../../command/quiet-hosts.ts";
import type { FleetSession } from "../../command/service-session.ts";
import { factsText } from "../../terminal/table.ts";
import { countsText } from "../../command/task-table.ts";

export function explainVerb(context: CommandContext): Command {
  const verb = context
    .verb("explain")
    .summary("explain why a job waits, or why it runs where it runs")
    .description(
      "Asks the fleet why a job waits. Shows the reason code with its numbers, the jobs that hold the GPUs it needs, its place in the queue, the interval in which it will start (8 of 10 such forecasts hold), and the cheapest changes that would start it now. The forecast simulates the queue; each change is tried on a copy of the fleet. Both see the jobs inside the fleet alone: a job that waits outside (QueueFull) gets its place in the lobby of its tenant.\n\nFor a running job, shows why its GPUs were chosen.",
    )
    .argument("<job>", "job id")
    .option(
      "--decision",
      "show the decision that last granted the job GPUs, from the fleet's history",
    )
    .option("--than <job>", "with --decision: only why the job came before or after this one")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        [
          "orbweaver explain train-7",
          "why the job waits, when it will start, and which changes help",
        ],
        ["orbweaver explain train-7 --json", "the same for a script"],
        ["orbweaver explain train-7 --decision --than train-6", "why one job came before another"],
      ]),
    )
    .action(async (jobId: string, values: ExplainValues) => {
      await context.withFleet(values, async (session) => {
        const { client, direct } = session;
        if (values.decision === true || values.than !== undefined) {
          if (direct === undefined)
            throw new OrbweaverError(
              "BAD_INPUT",
              "--decision reads the fleet's history, which a submit service does not show. Leave --api and ORBWEAVER_API out.",
            );
          const decision = await recordedDecision(direct, jobId);
          if (values.json === true) context.printJson(decision);
          else context.print(decisionText(decision, values.than));
          return;
        }
        const explanation = await client.job(jobId).explain();
        const nowMs = context.io.nowMs();
        const there = clientThere(session, explanation.view);
        const found = await hostConditionsOf(explanation, { client: there, nowMs });
        const { drained, drainedParts, quiet } = found;
        const outlook = await outlookFor(explanation, { client: there, nowMs });
        const messages = takenMessages(
          explanation.view,
          await learnedFor(explanation, { session, client: there }),
        );
        if (values.json === true) {
          const hosts = drained.map(({ host, reason }) => ({ host: host.id, reason }));
          context.printJson({
            ...placed(explanation, outlook),
            ...(messages !== undefined && { messages }),
            ...(hosts.length > 0 && { drained: hosts }),
            ...(drainedParts.length > 0 && { drainedGpus: drainedParts.map(drainedGpusDocument) }),
            ...(quiet.length > 0 && { silent: quiet.map(quietDocument) }),
            ...(outlook?.forecast && { forecast: forecastDocument(outlook.forecast) }),
            ...(outlook?.preempts && { preempts: outlook.preempts }),
            ...(outlook && { changes: outlook.changes }),
            ...(outlook && { notYielding: outlook.kept }),
            ...(outlook?.never && { never: outlook.never }),
          });
        } else
          context.print(
            withHistory(
              explanationText(explanation, {
                nowMs,
                ...found,
                messages: takenText(messages),
                ...(outlook !== undefined && { outlook }),
              }),
              explanation.view,
              nowMs,
            ),
          );
      });
    });
  return addServiceOptions(verb);
}

/** With the place in the queue beside what the fleet says of the job. */
const placed = (
  { fleet, ...explanation }: JobExplanation,
  { position }: Pick<ClusterFit, "position"> = {},
): object => ({
  ...explanation,
  ...(fleet && { fleet: { ...fleet, ...(position !== undefined && { position }) } }),
});

/** The client of the job's fleet, which may differ from the one that the flags name. */
const clientThere = ({ client, direct, fleet }: FleetSession, view: JobView): FleetClient =>
  view.fleet === fleet || direct === undefined
    ? client
    : new OrbweaverClient(direct.temporal, { fleet: view.fleet });

function withHistory(text: string, view: JobView, nowMs: number): string {
  const moves = movesText(view, nowMs);
  const changed = amendmentsText(view);
  const moving = movingText(view, nowMs);
  if ((moves ?? changed ?? moving) === undefined) return text;
  return `${text}\n${factsText([
    ["changed", changed],
    ["fleet", moves === undefined ? undefined : fleetText(view)],
    ["moved", moves],
    ["moves", moving],
  ]).replace(/^/gm, "  ")}`;
}

interface ExplainValues extends ConnectionOptionValues {
  readonly decision?: boolean;
  readonly than?: string;
  readonly json?: boolean;
}

interface HostConditions {
  readonly drained: readonly DrainedHost[];
  readonly drainedParts: readonly DrainedGpus[];
  /** Of a waiting job: hosts that would suit it; of a running job: its own hosts. */
  readonly quiet: readonly QuietHost[];
}

export interface Explained extends HostConditions {
  readonly nowMs: number;
  /** What it is taken to send, where that was learned. */
  readonly messages?: string | undefined;
  /** Of a job that waits. */
  readonly outlook?: ClusterFit;
}

export function explanationText(
  explanation: JobExplanation,
  { nowMs, drained, drainedParts, quiet, messages, outlook }: Explained,
): string {
  const { view, ending, fleet } = explanation;
  const { jobId, state } = view;
  if (ending.outcome !== undefined) return endedText(jobId, ending.outcome, view);
  if (fleet?.kind === "waiting") {
    const { waiting, requestedAtMs, reason } = fleet;
    const { position, never, forecast, preempts, kept, changes } = outlook ?? {};
    const why = never?.reason ?? reason;
    return [
      `${jobId} ${never === undefined ? "waits" : "will never start"}: ${why.code}`,
      `  ${why.message}`,
      reasonFacts(why, [
        [
          "place",
          position === undefined
            ? undefined
            : `${String(position)} of ${String(waiting)} in the queue`,
        ],
        ["waits for", durationText(nowMs - requestedAtMs)],
        ["messages", messages],
        ...(never === undefined ? [] : neverFacts(never)),
        ["starts", forecast && forecastText(forecast, nowMs)],
        ["preempts", preempts && laterText(preempts, nowMs)],
        ["not yielding", kept && givesWayText(kept, nowMs)],
        ["would help", changes && changesText(changes)],
        ["drained", listed(allDrainedLines(drained, drainedParts, MAX_LISTED))],
        ["silent", listed(quietLines(quiet, MAX_LISTED))],
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
        ["messages", messages],
        ["bandwidth", runBandwidthText(last)],
      ]),
    ].join("\n");
  }
  if (state === "held") {
    return heldText(view);
  }
  if (state === "pending") return pendingText(explanation, nowMs);
  return `${jobId} is ${state}`;
}

function heldText(view: JobView): string {
  const { jobId, pause } = view;
  const verb = pause?.kind === "suspend" ? "resume" : "release";
  const who = pauseText(view) ?? "Its owner keeps it from starting";
  const after = predecessorsText(view);
  return [
    `${jobId} is ${verb === "resume" ? "suspended" : "held"}: OnHold`,
    `  ${who[0]?.toUpperCase() ?? ""}${who.slice(1)}. \`orbweaver ${verb} ${jobId}\` ends that.`,
    ...(after === undefined ? [] : [factsText([["after", after]]).replace(/^/gm, "  ")]),
  ].join("\n");
}

/** Of a running array: its GPUs, and the reason for not having more. */
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

/** The host conditions that block a waiting job, or that affect a running one; in the fleet's order. */
async function hostConditionsOf(
  { view, fleet }: JobExplanation,
  { client, nowMs }: { readonly client: FleetSession["client"]; readonly nowMs: number },
): Promise<HostConditions> {
  if (fleet?.kind !== "waiting") {
    const { quiet } = await jobHosts(view, { client, nowMs });
    return { ...NONE_DRAINED, quiet };
  }
  if (fleet.reason.code !== "WaitingForHosts") return { ...NONE_DRAINED, quiet: [] };
  const ledger = await client.fleet();
  const request = ledger.requests.get(view.jobId);
  if (request === undefined) return { ...NONE_DRAINED, quiet: [] };
  return {
    drained: drainedHosts(ledger).filter((place) => isSuitable(request, place)),
    drainedParts: drainedGpus(ledger).filter((place) => isSuitable(request, place)),
    quiet: quietHosts(ledger, nowMs).filter(({ place }) => isSuitable(request, place)),
  };
}

const listed = (lines: readonly string[]): string | undefined =>
  lines.length === 0 ? undefined : lines.join("\n");

const NONE_DRAINED = { drained: [], drainedParts: [] } as const;

/** Computed here from the present ledger. */
async function outlookFor(
  { view, fleet }: JobExplanation,
  { client, nowMs }: { readonly client: FleetSession["client"]; readonly nowMs: number },
): Promise<ClusterFit | undefined> {
  if (fleet?.kind !== "waiting") return undefined;
  return outlookOf(await client.fleet(), view.jobId, { nowMs });
}

/** Of a job that waits; the note of a run says what was learned before it. */
async function learnedFor(
  { view, fleet }: JobExplanation,
  { session, client }: { readonly session: FleetSession; readonly client: FleetClient },
): Promise<MessagesOf | undefined> {
  const { direct } = session;
  if (fleet?.kind !== "waiting" || direct === undefined) return undefined;
  const { shape, models } = await client.fleet();
  const clusters = models === undefined ? [] : shape.clusters.map(({ id }) => id);
  return learnedMessages({ temporal: direct.temporal, fleet: view.fleet }, clusters);
}

const MAX_LISTED = 8;

/** The fleet has no request of this waiting job: it waits outside, the job holds itself, or it is between two runs. */
function pendingText({ view, fleet, lobby }: JobExplanation, nowMs: number): string {
  const { jobId, pending } = view;
  if (pending !== undefined) {
    const outside = pending.code === "QueueFull" ? lobbyFacts(view, { lobby, nowMs }) : [];
    return [
      `${jobId} waits: ${pending.code}`,
      `  ${pending.message}`,
      reasonFacts(pending, outside),
    ]
      .join("\n")
      .trimEnd();
  }
  return fleet === undefined
    ? `${jobId} waits: NoFleet\n  Fleet ${view.fleet} does not answer. Start it with \`orbweaver up\`.`
    : `${jobId} waits: PendingEvaluation\n  Its request has not been decided on yet.`;
}

function reasonFacts(
  { code, numbers, holders, wakeOn }: PendingReason,
  more: readonly (readonly [string, string | undefined])[],
): string {
  const figures = Object.entries(numbers).map(([name, value]) => `${name} ${String(value)}`);
  return factsText([
    ...more,
    ["numbers", figures.length === 0 ? undefined : figures.join(", ")],
    [
      code === "WaitingForJobs" ? "jobs" : "held by",
      holders.length === 0 ? undefined : holders.join(", "),
    ],
    ["changes on", wakeOn.join(", ")],
  ]).replace(/^/gm, "  ");
}
