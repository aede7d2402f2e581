/** @file `orbweaver list`: jobs newest first, those that wait or run unless more is asked for. */

import type { Command } from "commander";
import { Option } from "commander";
import { JOB_STATES, parseJobState, type JobFilter, type ListedJob } from "../../client/index.ts";
import { JOB_CLASSES } from "../../domain/job.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { stateColour } from "../colour.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { durationText } from "../duration.ts";
import { EXIT } from "../exit-code.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { wholeNumber } from "../option-values.ts";
import { whereText } from "../place.ts";
import type { Session } from "../session.ts";
import { tableText, type Column } from "../table.ts";
import { watch } from "../watch.ts";

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

export function listVerb(kit: Kit): Command {
  const verb = kit
    .verb("list")
    .alias("ls")
    .summary("show jobs")
    .description(
      "Shows jobs, newest first: those that wait or run, with --all also those that have ended.\n" +
        "A job array is one line, with how many of its tasks have ended.\n" +
        "Under `where` stands the reason's code while a job waits; `orbweaver explain` says more.\n" +
        "GPUS is 48/64 for a gang that got fewer than it asked for; `for JOB` stands under `where`\n" +
        "when its GPUs are wanted for another job.\n" +
        "A job that is being stopped is listed as running until it has ended: jobs are not asked\n" +
        "one by one. `orbweaver status` asks.",
    )
    .addOption(new Option("--class <class>", "only this class").choices(JOB_CLASSES))
    .option("--tenant <tenant>", "only this tenant's")
    .addOption(new Option("--state <state>", "only in this state").choices(JOB_STATES))
    .option("--cluster <cluster>", "only those that run, or ran last, in this cluster")
    .option("-a, --all", "ended jobs too")
    .option("-n, --limit <count>", "at most this many", wholeNumber("--limit", 1), 100)
    .option("-w, --watch", "redraw every two seconds until Ctrl-C")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver list", "what waits and runs"],
        ["orbweaver list --tenant research --state pending", "who of a tenant waits, and why"],
        ["orbweaver list --all --limit 20 --json", "the last 20 for a script"],
      ]),
    )
    .action(async (values: ListValues) => {
      if (values.watch === true && values.json === true) {
        throw new OrbweaverError(
          "BAD_INPUT",
          "--watch redraws a table and --json prints one document. Give one of them.",
        );
      }
      await kit.withSession(values, async (session) => {
        if (values.watch === true) {
          await watch(kit.io, async () => table(kit, await jobsOf(session, values), session.fleet));
          kit.exitWith(EXIT.interrupted);
          return;
        }
        const jobs = await jobsOf(session, values);
        if (values.json === true) kit.printJson({ jobs });
        else kit.print(table(kit, jobs, session.fleet));
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

function table(kit: Kit, jobs: readonly ListedJob[], fleet: string): string {
  if (jobs.length === 0) return "no jobs";
  const nowMs = kit.io.nowMs();
  const rows = jobs.map((job) => [
    job.jobId,
    job.class ?? "",
    job.tenant ?? "",
    stateColour(kit.colours, job.state) + progressText(job),
    gpusText(job),
    whereText(job, fleet),
    waitedText(job, nowMs),
  ]);
  return tableText(COLUMNS, rows, widthOf(kit.io.stdout));
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

/** From the submission to the present lease, or to now; unknown of a job that has ended. */
function waitedText(job: ListedJob, nowMs: number): string {
  if (job.endedAtMs !== undefined) return "";
  return durationText((job.grantedAtMs ?? nowMs) - job.submittedAtMs);
}
