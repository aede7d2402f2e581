/** @file `orbweaver list`: jobs, newest first; waiting and running ones by default. */

import { Option, type Command } from "commander";
import type { ListedJob } from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import {
  addJobFilterOptions,
  jobFilterOf,
  type JobFilterValues,
} from "../../command/job-filter-options.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { nameList, wholeNumber } from "../../command/option-values.ts";
import type { FleetSession } from "../../command/service-session.ts";
import { csvText } from "../../terminal/csv-text.ts";
import { tableText } from "../../terminal/table.ts";
import { watch } from "../../terminal/watch.ts";
import { placesInQueue } from "../../../scheduling/explain/queue-order.ts";
import {
  cellOf,
  JOB_COLUMN_NAMES,
  jobColumn,
  PLACE,
  sortedJobs,
  USUAL_COLUMNS,
  WIDE_COLUMNS,
  type ListView,
} from "../../text/job-columns.ts";

/** `json` and `yaml` are made of the one document of every verb. */
const FORMATS = ["table", "wide", "json", "yaml", "csv", "name"] as const;

interface ListValues extends ConnectionOptionValues, JobFilterValues {
  readonly all?: boolean;
  readonly ended?: boolean;
  readonly since?: string;
  readonly history?: string;
  readonly limit: number;
  readonly columns?: readonly string[];
  readonly sort?: string;
  readonly wide?: boolean;
  readonly output?: string;
  readonly watch?: boolean;
  readonly json?: boolean;
}

export function listVerb(context: CommandContext): Command {
  const verb = addJobFilterOptions(
    context
      .verb("list")
      .alias("ls")
      .summary("list jobs")
      .description(
        "Lists jobs, newest first: those that wait or run, and with --all also those that have ended. A job array is one line with the number of its tasks that have ended.\n\nThe column WHERE shows the hosts of a running job and the reason code of a waiting one; `orbweaver explain` gives the details. GPUS shows 48/64 for a gang that is smaller than requested. PLACE, where a column or the order asks for it, is the place in the queue that `orbweaver queue` and `orbweaver explain` show. WHERE shows `for JOB` when the scheduler takes the GPUs for another job.\n\nThe list comes from the search index, so a job that is being stopped is listed as running until it ends. `orbweaver status` asks the job itself.",
      ),
  )
    .option("-a, --all", "include ended jobs")
    .option(
      "--ended",
      "only ended jobs, from the history database, also those that Temporal has dropped",
    )
    .option("--since <duration>", "with --ended: of this time, e.g. 30d; 1d when absent")
    .option("--history <file>", "with --ended: this history database")
    .option("-n, --limit <count>", "most jobs to list", wholeNumber("--limit", 1), 100)
    .option("--columns <names>", `only these columns: ${JOB_COLUMN_NAMES.join(", ")}`, nameList)
    .option("--sort <column>", "in the order of this column; -column for the other way round")
    .option("--wide", "more columns, and nothing is cut")
    .addOption(new Option("-o, --output <format>", "form of the answer").choices(FORMATS))
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
        [
          "orbweaver list --me --label sweep=lr-7 --older-than 2h",
          "old jobs of one sweep of yours",
        ],
        ["orbweaver list --columns job,user,gpus,age --sort -age", "own columns, the oldest first"],
        ["orbweaver cancel $(orbweaver list --name 'probe-*' -o name)", "ids for another command"],
        ["orbweaver list --ended --since 90d -o csv", "what ended in 90 days, for a spreadsheet"],
        ["orbweaver list --all --limit 20 --json", "the last 20 jobs, for a script"],
      ]),
    )
    .action((values: ListValues) => list(context, values));
  return addServiceOptions(verb);
}

async function list(context: CommandContext, values: ListValues): Promise<void> {
  const { columns, sort = "", output = "table" } = values;
  // A name that no column has is refused before anything is asked.
  for (const name of columns ?? []) jobColumn(name);
  if (sort !== "") jobColumn(sort.replace(/^-/, ""));
  // `-o json` and `-o yaml` have set it (`command/output-format.ts`).
  const isDocument = values.json === true;
  if (values.ended !== true && (values.since ?? values.history) !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "--since and --history choose among ended jobs. Add --ended, or say --newer-than.",
    );
  if (values.ended === true) {
    const { printEnded } = await import("../../history/ended.ts");
    return await printEnded(context, values);
  }
  if (values.watch === true && (isDocument || output === "csv" || output === "name")) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--watch redraws a table, and other forms are printed once. Leave --watch or the form out.",
    );
  }
  const wantsPlaces = [...(columns ?? []), sort.replace(/^-/, "")].some(
    (name) => name.toLowerCase() === PLACE,
  );
  const look = async (session: FleetSession): Promise<Listed> => {
    const nowMs = context.io.nowMs();
    const places = wantsPlaces && placesInQueue(await session.client.fleet(), { nowMs });
    const { fleet } = session;
    const { colours } = context;
    const view = { fleet, nowMs, colours, ...(places !== false && { places }) };
    return { jobs: await jobsOf(session, values, view), view };
  };
  if (values.watch === true) {
    await context.withFleet(values, (session) =>
      watch(context.io, async () => table(context, await look(session), values)),
    );
    context.exitWith(EXIT.interrupted);
    return;
  }
  const listed = await context.readFleet(values, look);
  const { jobs, view } = listed;
  if (isDocument) context.printJson({ jobs });
  else if (output === "name") for (const { jobId } of jobs) context.print(jobId);
  else if (output === "csv") context.print(csv(jobs, columns ?? WIDE_COLUMNS, view));
  else context.print(table(context, listed, values));
}

interface Listed {
  readonly jobs: readonly ListedJob[];
  readonly view: ListView;
}

/** Sorting needs all jobs that fit, or the limit would keep the newest and not the first of that order. */
async function jobsOf(
  { client }: FleetSession,
  values: ListValues,
  view: ListView,
): Promise<readonly ListedJob[]> {
  const { sort, limit, all } = values;
  const filter = {
    ...jobFilterOf(values, view.nowMs),
    ...(all === true && { all: true }),
    ...(sort === undefined && { limit }),
  };
  const jobs: ListedJob[] = [];
  for await (const page of client.listPages(filter)) for (const job of page) jobs.push(job);
  return sort === undefined ? jobs : sortedJobs(jobs, sort, view).slice(0, limit);
}

/** On a terminal long names are shortened; a program that reads the table gets every id whole. */
function table({ io }: CommandContext, { jobs, view }: Listed, values: ListValues): string {
  if (jobs.length === 0) return "no jobs";
  const isWide = values.wide === true || values.output === "wide";
  const names = values.columns ?? (isWide ? WIDE_COLUMNS : USUAL_COLUMNS);
  const columns = names.map((name) => {
    const { least, ...column } = jobColumn(name);
    const isWhole = isWide || (column.name === "job" && io.stdout.isTTY !== true);
    return { ...column, ...(least !== undefined && !isWhole && { least }) };
  });
  const rows = jobs.map((job) => columns.map((column) => cellOf(column, job, view)));
  return tableText(columns, rows, isWide ? Infinity : widthOf(io.stdout));
}

function csv(jobs: readonly ListedJob[], names: readonly string[], view: ListView): string {
  const columns = names.map(jobColumn);
  const rows = jobs.map((job) => columns.map(({ value }) => String(value(job, view) ?? "")));
  return csvText([columns.map(({ name }) => name), ...rows]);
}
