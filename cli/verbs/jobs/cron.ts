/** @file `orbweaver cron`: the schedules that `submit --cron` made: list, pause, resume, run now, delete. */

import type { Command } from "commander";
import {
  openCronClient,
  type CronClient,
  type CronRun,
  type ListedCron,
  type ReadCron,
} from "../../../client/cron-client.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted, timeText } from "../../terminal/duration.ts";
import { widthOf } from "../../terminal/io.ts";
import { tableText, wholeNames, type Column } from "../../terminal/table.ts";
import { serviceFor } from "../../up/own-service.ts";

interface CronValues extends ConnectionOptionValues {
  readonly reason?: string;
  readonly json?: boolean;
}

export function cronVerb(context: CommandContext): Command {
  return context
    .verb("cron")
    .summary("list and change schedules of jobs")
    .description(
      "Lists, pauses and deletes the schedules that `orbweaver submit --cron` made. The submit service keeps their standing signatures, asks at each time whether their submitter may still submit the job, and writes each start into its audit. `orbweaver list --label cron=ID --all` lists the jobs of one.",
    )
    .addHelpText(
      "after",
      helpEnd([
        ['orbweaver submit --cron "0 3 * * *" --key nightly train.yaml', "make one"],
        ["orbweaver cron list", "when each runs next, and what its last times became"],
        ["orbweaver cron pause nightly", "let it start nothing until it is resumed"],
      ]),
    )
    .addCommand(listVerb(context))
    .addCommand(
      orderVerb(context, {
        name: "pause",
        summary: "let schedules start nothing until they are resumed",
        done: "paused",
        hasReason: true,
        act: (crons, cron, { reason }) => crons.pause(cron, reason),
        examples: [['orbweaver cron pause nightly --reason "holidays"', "until it is resumed"]],
      }),
    )
    .addCommand(
      orderVerb(context, {
        name: "resume",
        summary: "end a pause; times that passed meanwhile are left out",
        done: "resumed",
        act: (crons, cron) => crons.resume(cron),
        examples: [["orbweaver cron resume nightly", "from its next time on"]],
      }),
    )
    .addCommand(
      orderVerb(context, {
        name: "run",
        summary: "submit a job of a schedule now, too",
        done: "asked to start now; `orbweaver cron list` shows its job",
        act: (crons, cron) => crons.run(cron),
        examples: [["orbweaver cron run nightly", "try it, without waiting for its time"]],
      }),
    )
    .addCommand(
      orderVerb(context, {
        name: "delete",
        summary: "revoke the signature of schedules and delete them; their jobs go on",
        done: "revoked and deleted",
        act: (crons, cron) => crons.delete(cron),
        examples: [["orbweaver cron delete nightly", "for good"]],
      }),
    );
}

function listVerb(context: CommandContext): Command {
  const verb = context
    .verb("list")
    .summary("list schedules, with what their last times became")
    .description(
      "Lists the schedules that you may see. LAST is the job of the last time, or why there is none: `skipped` while a job of before had not ended, `refused` where its submitter may not submit it any more, `waits` while the submit service does not answer, `unknown` where the server has forgotten it, `not believed` for a schedule whose signature is forged, revoked, from before two rotations of the service's key, or of one that was deleted and put there again: it starts nothing. `unreadable` and `bad job file` are of schedules that start nothing and that operators can delete. --json has the last five times of each. At most 200 are listed, and of those that the service has not signed twenty; how many more there are is said.",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver cron list", "all that you may see"],
        ["orbweaver cron list --json", "for a script, with their last five times"],
      ]),
    )
    .action(async (values: CronValues) => {
      const { crons, left } = await openCronClient(await serviceFor(context, values)).list();
      if (values.json === true) context.printJson({ crons, ...(left && { left }) });
      else if (crons.length === 0) context.print("no schedule");
      else {
        const { stdout } = context.io;
        const columns = wholeNames(COLUMNS, ["CRON", "LAST"], stdout.isTTY === true);
        context.print(tableText(columns, crons.map(row), widthOf(stdout)));
      }
      if (left !== undefined && left.signed > 0)
        context.say(`${counted(left.signed, "more schedule")} not listed`);
      if (left !== undefined && left.unsigned > 0)
        context.say(
          `${counted(left.unsigned, "more schedule")} not listed, which start nothing: the service has not signed them`,
        );
    });
  return addServiceOptions(verb);
}

interface OrderVerb {
  readonly name: string;
  readonly summary: string;
  readonly done: string;
  readonly hasReason?: true;
  readonly act: (crons: CronClient, cron: string, values: CronValues) => Promise<void>;
  readonly examples: readonly (readonly [commandLine: string, what: string])[];
}

function orderVerb(
  context: CommandContext,
  { name, summary, done, hasReason, act, examples }: OrderVerb,
): Command {
  const verb = context
    .verb(name)
    .summary(summary)
    .description(`${summary[0]?.toUpperCase() ?? ""}${summary.slice(1)}.`)
    .argument("<cron...>", "ids of schedules; `orbweaver cron list` lists them");
  if (hasReason === true) verb.option("--reason <text>", "reason that `cron list` shows");
  verb
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd(examples))
    .action(async (names: readonly string[], values: CronValues) => {
      const crons = openCronClient(await serviceFor(context, values));
      for (const cron of names) {
        await act(crons, cron, values);
        if (values.json !== true) context.print(`${cron}  ${done}`);
      }
      if (values.json === true) context.printJson({ crons: names });
    });
  return addServiceOptions(verb);
}

const COLUMNS: readonly Column[] = [
  { title: "CRON", least: 12 },
  { title: "WHEN" },
  { title: "USER", least: 6 },
  { title: "OVERLAP" },
  { title: "NEXT" },
  { title: "LAST", least: 12 },
];

const row = (cron: ListedCron): readonly string[] =>
  "problem" in cron ? [cron.cron, "-", "-", "-", "-", `${cron.problem}: delete it`] : readRow(cron);

const readRow = (cron: ReadCron): readonly string[] => [
  cron.cron,
  `${cron.expression} ${cron.timeZone}`,
  cron.user,
  cron.overlap,
  cron.isPaused ? "paused" : cron.nextMs === undefined ? "-" : timeText(cron.nextMs),
  cron.isProven ? lastText(cron.runs[0]) : unprovenText(cron),
];

const unprovenText = ({ isPutBack }: ReadCron): string =>
  isPutBack === true
    ? "not believed: it was deleted, and is there again, or still"
    : "not believed: delete it and submit it again";

function lastText(run: CronRun | undefined): string {
  if (run === undefined) return "-";
  const { outcome } = run;
  switch (outcome.kind) {
    case "submitted":
      return outcome.jobId;
    case "skipped":
      return `skipped for ${outcome.former}`;
    case "refused":
      return `refused: ${outcome.message}`;
    case "waits":
    case "unknown":
      return outcome.kind;
  }
}
