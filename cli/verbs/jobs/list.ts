/** @file `orbweaver list`: jobs, newest first; waiting and running ones by default. */

import type { Command } from "commander";
import { Option } from "commander";
import {
  JOB_STATES,
  parseJobState,
  type JobFilter,
  type ListedJob,
} from "../../../client/index.ts";
import { JOB_CLASSES } from "../../../domain/job/job.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { stateColour } from "../../terminal/colour.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { durationText } from "../../terminal/duration.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { whereText } from "../../text/place.ts";
import type { Session } from "../../command/session.ts";
import { tableText, type Column } from "../../terminal/table.ts";
import { watch } from "../../terminal/watch.ts";

interface ListValues extends ConnectionOptionValues {
  readonly class?: string;
  readonly tenant?: string;
  readonly state?: string;
  readonly cluster?: string;
  readonly all?: boolean;
  readonly limit: number;
  readonly watch?: boolean;
  readonly json?: boolean;
}

export function listVerb(context: CommandContext): Command {
  const verb = context
    .verb("list")
    .alias("ls")
    .summary("list jobs")
    .description(
      "Lists jobs, newest first: those that wait or run, and with --all also those that have ended. A job array is one line with the number of its tasks that have ended.\n\nThe column WHERE shows the hosts of a running job and the reason code of a waiting one; `orbweaver explain` gives the details. GPUS shows 48/64 for a gang that is smaller than requested. WHERE shows `for JOB` when the scheduler takes the GPUs for another job.\n\nThe list comes from the search index, so a job that is being stopped is listed as running until it ends. `orbweaver status` asks the job itself.",
    )
    .addOption(new Option("--class <class>", "only jobs of this class").choices(JOB_CLASSES))
    .option("--tenant <tenant>", "only jobs of this tenant")
    .addOption(new Option("--state <state>", "only jobs in this state").choices(JOB_STATES))
    .option("--cluster <cluster>", "only jobs that run, or last ran, in this cluster")
    .option("-a, --all", "include ended jobs")
    .option("-n, --limit <count>", "most jobs to list", wholeNumber("--limit", 1), 100)
    .option("-w, --watch", "redraw every two seconds until Ctrl-C")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver list", "waiting and running jobs"],
        [
          "orbweaver list --tenant research --state pending",
          "waiting jobs of a tenant, with reasons",
        ],
        ["orbweaver list --all --limit 20 --json", "the last 20 jobs, for a script"],
      ]),
    )
    .action(async (values: ListValues) => {
      if (values.watch === true && values.json === true) {
        throw new OrbweaverError(
          "BAD_INPUT",
          "--watch redraws a table and --json prints one document. Give one of them.",
        );
      }
      await context.withSession(values, async (session) => {
        if (values.watch === true) {
          await watch(context.io, async () =>
            table(context, await jobsOf(session, values), session.fleet),
          );
          context.exitWith(EXIT.interrupted);
          return;
        }
        const jobs = await jobsOf(session, values);
        if (values.json === true) context.printJson({ jobs });
        else context.print(table(context, jobs, session.fleet));
      });
    });
  return addConnectionOptions(verb);
}

async function jobsOf({ client }: Session, values: ListValues): Promise<readonly ListedJob[]> {
  const filter: JobFilter = {
    limit: values.limit,
    ...(values.class !== undefined && { class: values.class }),
    ...(values.tenant !== undefined && { tenant: values.tenant }),
    ...(values.state !== undefined && { state: parseJobState(values.state) }),
    ...(values.cluster !== undefined && { cluster: values.cluster }),
    ...(values.all === true && { all: true }),
  };
  const jobs: ListedJob[] = [];
  for await (const job of client.list(filter)) jobs.push(job);
  return jobs;
}

const COLUMNS: readonly Column[] = [
  { title: "JOB", least: 16 },
  { title: "CLASS" },
  { title: "TENANT", least: 6 },
  { title: "STATE" },
  { title: "GPUS", isRight: true },
  { title: "WHERE", least: 8 },
  { title: "WAITED", isRight: true },
];

function table(context: CommandContext, jobs: readonly ListedJob[], fleet: string): string {
  if (jobs.length === 0) return "no jobs";
  const nowMs = context.io.nowMs();
  const rows = jobs.map((job) => [
    job.jobId,
    job.class ?? "",
    job.tenant ?? "",
    stateColour(context.colours, job.state) + progressText(job),
    gpusText(job),
    whereText(job, fleet),
    waitedText(job, nowMs),
  ]);
  return tableText(COLUMNS, rows, widthOf(context.io.stdout));
}

/** Of an array: how many of its tasks have ended. */
function progressText({ tasks }: ListedJob): string {
  if (tasks === undefined) return "";
  const ended = tasks.completed + tasks.failed + tasks.cancelled;
  return ` ${String(ended)}/${String(tasks.count)}`;
}

/** `48/64` of a gang that is smaller than the job asked for. */
function gpusText({ gpus, gpusRequested }: ListedJob): string {
  const wanted = gpusRequested === undefined ? "" : `/${String(gpusRequested)}`;
  return gpus === undefined ? "" : `${String(gpus)}${wanted}`;
}

/** From the submission to the present lease, or to now; unknown for an ended job. */
function waitedText(job: ListedJob, nowMs: number): string {
  if (job.endedAtMs !== undefined) return "";
  return durationText((job.grantedAtMs ?? nowMs) - job.submittedAtMs);
}
