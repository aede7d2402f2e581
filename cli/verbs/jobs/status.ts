/** @file `orbweaver status JOB`: the job's settings, its state, and the result of each run. */

import type { Command } from "commander";
import type { JobEnding, JobView, RunProgress } from "../../../client/index.ts";
import { takenMessages, takenText } from "../../planning/learned-messages.ts";
import { runBandwidthText } from "../../../domain/lease/bandwidth-note.ts";
import { percentText, sumOfUse } from "../../../domain/lease/gpu-use.ts";
import { workflowUrl } from "../../../workers/connection.ts";
import { stateColour } from "../../terminal/colour.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { amountText } from "../../../domain/job/job-resources.ts";
import { counted, durationText, timeText } from "../../terminal/duration.ts";
import { widthOf } from "../../terminal/io.ts";
import { specFacts } from "../../text/job-facts.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { tellGroup } from "../../command/group-status.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { jobHosts, jobSilenceText, type JobHosts } from "../../command/job-silence.ts";
import { predecessorsText } from "../../text/predecessors.ts";
import { ncclText } from "../../text/nccl-text.ts";
import { amendmentsText, givenUpText, pauseText } from "../../text/amendments.ts";
import { fleetText, movesText, movingText } from "../../text/cell-moves.ts";
import { inferencePlanText } from "../../text/inference-plan.ts";
import { gpusText, hostsText } from "../../text/place.ts";
import { endText, stepOf, stepText } from "../../text/step-text.ts";
import { degradedText, preemptionsText, wantedText } from "../../text/preempted-runs.ts";
import { quietDocument, type QuietHost } from "../../command/quiet-hosts.ts";
import { factsText, tableText, type Column } from "../../terminal/table.ts";
import { arrayParts, chosenTasks, countsText, tasksText } from "../../command/task-table.ts";

export function statusVerb(context: CommandContext): Command {
  const verb = context
    .verb("status")
    .summary("show one job, or a group")
    .description(
      "Shows the job file's main settings, the job's state, and the result of each run. With --group, shows the jobs of a group as one: how many are in which state, the GPUs that they hold, those that failed, and why the others wait.",
    )
    .argument("[job]", "job id")
    .option("--group <name>", "the jobs of this group as one")
    .option("--tasks [state]", "list the tasks of a job array, or those in one state")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver status train-7", "everything about one job"],
        ["orbweaver status --group nightly-12", "all jobs of a group as one"],
        ["orbweaver status sweep-3 --tasks failed", "failed tasks of an array, with reasons"],
      ]),
    )
    .action(async (jobId: string | undefined, values: StatusValues) => {
      const { group } = values;
      if ((jobId === undefined) === (group === undefined))
        throw new OrbweaverError(
          "BAD_INPUT",
          "status shows one job or one group. Give a job id, or --group.",
        );
      await context.withFleet(values, async (session) => {
        if (jobId === undefined)
          return await tellGroup(context, session, {
            group: group ?? "",
            isJson: values.json === true,
          });
        const { client, direct } = session;
        const job = client.job(jobId);
        const [view, ending] = await Promise.all([job.view(), job.ending()]);
        const tasks = await chosenTasks(job, view, values.tasks);
        const isLive = view.state === "running" || view.state === "stopping";
        const nowMs = context.io.nowMs();
        const [live, { quiet, racks }] = await Promise.all([
          isLive ? job.progress() : [],
          jobHosts(view, { client, nowMs }),
        ]);
        const ui = direct && workflowUrl(direct.connection, view.jobId);
        if (values.json === true) {
          const step = stepOf(view, live);
          const messages = takenMessages(view);
          const more = {
            ...(messages !== undefined && { messages }),
            ...(step !== undefined && { step }),
            ...(quiet.length > 0 && { silent: quiet.map(quietDocument) }),
            ...(ui !== undefined && { ui }),
            ...(tasks !== undefined && { tasks }),
          };
          context.printJson({ ...withRacks(view, racks), ...ending, live, ...more });
        } else if (tasks !== undefined) context.print(tasksText(context, tasks));
        else context.print(statusText(context, { view, ending, live, quiet, racks, ui }));
      });
    });
  return addServiceOptions(verb);
}

/** Programs pause; nobody wants to hear of less. */
const SHORT_IDLE_MS = 60_000;

interface StatusValues extends ConnectionOptionValues {
  readonly json?: boolean;
  readonly tasks?: string | true;
  readonly group?: string;
}

interface Status {
  readonly view: JobView;
  readonly ending: JobEnding;
  readonly live: readonly RunProgress[];
  /** Hosts of the job that do not answer. */
  readonly quiet: readonly QuietHost[];
  readonly racks: JobHosts["racks"];
  readonly ui: string | undefined;
}

/** The last run's hosts with their racks, for `--json`. */
const withRacks = (view: JobView, racks: Status["racks"]): JobView => ({
  ...view,
  attempts: view.attempts.map((attempt) => ({
    ...attempt,
    gpus: attempt.gpus.map((part) => {
      const rack = racks.get(part.host);
      return rack === undefined ? part : { ...part, rack };
    }),
  })),
});

function statusText(
  context: CommandContext,
  { view, ending, live, quiet, racks, ui }: Status,
): string {
  const width = widthOf(context.io.stdout);
  const nowMs = context.io.nowMs();
  const step = stepOf(view, live);
  const facts = factsText([
    ["job", view.jobId],
    ["state", stateText(context, view, ending)],
    ["fleet", fleetText(view)],
    ["moved", movesText(view, nowMs)],
    ["moves", movingText(view, nowMs)],
    ...(view.spec === undefined ? [] : specFacts(view.spec)),
    ["submitted", submittedText(view, ending, nowMs)],
    ["changed", amendmentsText(view)],
    ["after", predecessorsText(view)],
    ["held", view.state === "held" ? pauseText(view) : undefined],
    ["ended", endedText(ending, nowMs)],
    ["progress", view.array === undefined ? undefined : countsText(view.array.counts)],
    ["waits", view.pending === undefined ? undefined : waitsText(view)],
    ["runs on", runsOn(view, racks)],
    ["messages", takenText(takenMessages(view))],
    ["bandwidth", bandwidthText(view, live)],
    ["GPU use", useText(live)],
    ["step", stepText(step)],
    ["ends", endText(step, nowMs)],
    ["NCCL", ncclText(view, live)],
    ["peak memory", peakText(view)],
    ["serves", servedText(live)],
    ...extrasFacts(view),
    ["silent", jobSilenceText(quiet)],
    ["junk", junkText(view)],
    ["UI", ui],
  ]);
  const parts = [facts];
  for (const { onGpus } of view.attempts.at(-1)?.launchExtras ?? [])
    if (onGpus !== undefined) parts.push(inferencePlanText(onGpus));
  if (live.length > 0)
    parts.push(
      tableText(
        LIVE_COLUMNS,
        live.map((run) => liveRow(run, nowMs)),
        width,
      ),
    );
  if (view.attempts.length > 0) {
    const rows = view.attempts.map((attempt) => attemptRow(attempt, nowMs));
    parts.push(tableText(ATTEMPT_COLUMNS, rows, width));
    const preemptions = preemptionsText(view);
    if (preemptions !== undefined) parts.push(preemptions);
  }
  if (view.array !== undefined) parts.push(...arrayParts(context, view.array));
  const why = causeText(view, ending);
  if (why !== undefined) parts.push(why);
  return parts.join("\n\n");
}

/** A workflow that was ended from outside could not write its own end. */
function stateText(
  { colours }: CommandContext,
  { jobId, state, attempts }: JobView,
  ending: JobEnding,
): string {
  const said = ending.outcome?.kind ?? state;
  const text = said === "terminated" ? said : stateColour(colours, said);
  const preempted = attempts.at(-1)?.preempted;
  if (said === "stopping" && preempted !== undefined && !ending.isCancelAsked)
    return `${text} ${wantedText(jobId, preempted)}`;
  return ending.isCancelAsked && said !== "cancelled" ? `${text} (cancel was asked)` : text;
}

const junkText = ({ junkSignals }: JobView): string | undefined =>
  junkSignals === undefined
    ? undefined
    : `${counted(junkSignals, "signal")} from outside that said nothing`;

/** Launch extras of the last run. */
const extrasFacts = ({ attempts }: JobView): readonly (readonly [string, string])[] =>
  (attempts.at(-1)?.launchExtras ?? []).map(({ part, message }) => [part, message]);

function submittedText({ submittedAtMs }: JobView, { user }: JobEnding, nowMs: number): string {
  const by = user === undefined ? "" : ` by ${user}`;
  return `${timeText(submittedAtMs)} (${durationText(nowMs - submittedAtMs)} ago)${by}`;
}

function endedText({ endedAtMs }: JobEnding, nowMs: number): string | undefined {
  if (endedAtMs === undefined) return undefined;
  return `${timeText(endedAtMs)} (${durationText(nowMs - endedAtMs)} ago)`;
}

/** The failure of the whole job once it has ended, else that of its last run. */
function causeText({ attempts }: JobView, { outcome }: JobEnding): string | undefined {
  if (outcome?.kind === "failed") {
    const { code, lastLines } = outcome.failure;
    return `${code}: ${outcome.message}${quoted(lastLines)}`;
  }
  if (outcome?.kind === "terminated") return outcome.message;
  const last = attempts.at(-1)?.cause;
  return last === undefined ? undefined : `${last.code}: ${last.message}${quoted(last.lastLines)}`;
}

function waitsText({ pending, state, array }: JobView): string | undefined {
  const mayWait = state === "pending" || (array !== undefined && state === "running");
  if (!mayWait || pending === undefined) return undefined;
  return `${pending.code}: ${pending.message}`;
}

function runsOn(view: JobView, racks: Status["racks"]): string | undefined {
  const { state, attempts } = view;
  const last = attempts.at(-1);
  if (last === undefined || (state !== "running" && state !== "stopping")) return undefined;
  const degraded = degradedText(view, last);
  return `${degraded === undefined ? "" : `${degraded}\n`}${gpusText(last.gpus, racks)}`;
}

/** Of the last run: expected and measured bandwidth. */
function bandwidthText({ attempts }: JobView, live: readonly RunProgress[]): string | undefined {
  const last = attempts.at(-1);
  if (last === undefined) return undefined;
  const measuredGbs = last.measuredGbs ?? live.flatMap((run) => run.measuredGbs ?? []).at(0);
  return runBandwidthText({ ...last, ...(measuredGbs !== undefined && { measuredGbs }) });
}

/** Of all of the job's GPUs that show it. */
function useText(live: readonly RunProgress[]): string | undefined {
  const gpus = live.flatMap(({ gpuUse = [] }) => gpuUse);
  if (gpus.length === 0) return undefined;
  const { use, watts, memoryMiB, memoryOfMiB, tensor, idleMs } = sumOfUse(gpus);
  return [
    `${percentText(use)} of ${counted(gpus.length, "GPU")}`,
    ...(tensor === undefined ? [] : [`tensor cores ${percentText(tensor)}`]),
    ...(memoryMiB === undefined || memoryOfMiB === undefined
      ? []
      : [`memory ${percentText(memoryMiB / memoryOfMiB)}`]),
    ...(watts === undefined ? [] : [`${String(Math.round(watts))} W`]),
    ...(idleMs < SHORT_IDLE_MS ? [] : [`all idle for ${durationText(idleMs)}`]),
  ].join(", ");
}

/** Of the last run, once it has ended. */
function peakText({ attempts }: JobView): string | undefined {
  const bytes = attempts.at(-1)?.peakMemoryBytes;
  return bytes === undefined
    ? undefined
    : `${amountText("memoryBytes", bytes)}, file cache included`;
}

function servedText(live: readonly RunProgress[]): string | undefined {
  const [served] = live.flatMap((run) => run.served ?? []);
  return served && `${served.url}, ${served.line}`;
}

const LIVE_COLUMNS: readonly Column[] = [
  { title: "HOST", least: 12 },
  { title: "PHASE" },
  { title: "FOR", isRight: true },
  { title: "TRIES", isRight: true },
  { title: "LAST FAILURE", least: 12 },
];

function liveRow(run: RunProgress, nowMs: number): readonly string[] {
  return [
    run.host ?? "",
    run.phase,
    run.startedAtMs === undefined ? "" : durationText(nowMs - run.startedAtMs),
    String(run.tries),
    run.lastFailure ?? "",
  ];
}

const ATTEMPT_COLUMNS: readonly Column[] = [
  { title: "RUN", isRight: true },
  { title: "LEASE" },
  { title: "WHERE", least: 12 },
  { title: "WAITED", isRight: true },
  { title: "LASTED", isRight: true },
  { title: "END", least: 10 },
];

function attemptRow(attempt: JobView["attempts"][number], nowMs: number): readonly string[] {
  const { requestedAtMs, grantedAtMs, startedAtMs, endedAtMs, cause, end, preempted } = attempt;
  const isGone = preempted !== undefined && end !== undefined;
  return [
    String(attempt.attempt),
    attempt.leaseId,
    hostsText(attempt.gpus.map(({ host }) => host)),
    durationText(grantedAtMs - requestedAtMs),
    durationText((endedAtMs ?? nowMs) - (startedAtMs ?? grantedAtMs)),
    givenUpText(attempt) ?? (isGone ? "preempted" : (cause?.code ?? end ?? "runs")),
  ];
}

function quoted(lastLines: string | undefined): string {
  if (lastLines === undefined || lastLines.trim() === "") return "";
  return `\n  | ${lastLines.trimEnd().replaceAll("\n", "\n  | ")}`;
}
