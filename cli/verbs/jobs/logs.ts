/** @file `orbweaver logs JOB`: the output of the job's processes, once or followed. */

import type { Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { neverStarted, type LogOptions } from "../../../client/index.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { logOptions, logWriter } from "../../command/log-options.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { untilInterrupted } from "../../terminal/until-interrupted.ts";

interface LogsValues extends ConnectionOptionValues {
  readonly follow?: boolean;
  readonly rank?: number | "all";
  readonly tail?: number;
  readonly attempt?: number;
  readonly task?: number;
  readonly raw?: boolean;
  readonly json?: boolean;
}

export function logsVerb(context: CommandContext): Command {
  const verb = context
    .verb("logs")
    .summary("show the output of a job's processes")
    .description(
      "Shows the output of all ranks with `[rank]` before each line, or of one of them. Works from any machine that reaches Temporal; the logs stay on the hosts. On a terminal control characters are shown, not obeyed; a pipe or file gets the bytes.",
    )
    .argument("<job>", "job id")
    .option("-f, --follow", "follow the log until the job has ended, across its runs")
    .option("-r, --rank <rank>", "number of a rank, or `all` (default; of a task: 0)", readRank)
    .option("-n, --tail <lines>", "only the last lines of each rank", wholeNumber("--tail", 0))
    .option(
      "--attempt <number>",
      "an earlier run of the job, counted from 1",
      wholeNumber("--attempt", 1),
    )
    .option("-t, --task <number>", "number of a task of a job array", wholeNumber("--task", 0))
    .option("--raw", "pass control characters on to a terminal, colours among them")
    .option("--json", "answer with one JSON document (not with --follow)")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver logs -f train-7", "follow all ranks"],
        ["orbweaver logs train-7 --tail 5", "the last lines of each rank"],
        ["orbweaver logs train-7 --rank 3", "the output of rank 3"],
        ["orbweaver logs train-7 --attempt 1", "the output of the first run"],
        ["orbweaver logs sweep-3 --task 17 -f", "follow one task of an array"],
      ]),
    )
    .action(async (jobId: string, values: LogsValues) => {
      if (values.follow === true && values.json === true) {
        throw new OrbweaverError(
          "BAD_INPUT",
          "--follow streams text, but --json prints one document. Give only one of them.",
        );
      }
      await context.withFleet(values, async ({ client }) => {
        const job = client.job(jobId);
        let [hasStarted, hasPrinted] = [false, false];
        const options = logOptions(context, chosen(values));
        const onAttempt: LogOptions["onAttempt"] = (attempt) => {
          hasStarted = true;
          options.onAttempt?.(attempt);
        };
        const texts = job.logs({ ...options, onAttempt });
        if (values.json === true) {
          let text = "";
          for await (const part of texts) text += part;
          const { task, rank } = chosen(values);
          const of = { jobId, ...(task !== undefined && { task }), rank: rank ?? 0 };
          context.printJson({ ...of, text });
          return;
        }
        if (values.task !== undefined) hasStarted = true;
        const write = logWriter(context.io, { isRaw: values.raw === true });
        for await (const text of untilInterrupted(texts, context.io.interrupted)) {
          hasPrinted ||= text !== "";
          write(text);
        }
        if (context.io.interrupted.aborted) return context.exitWith(EXIT.interrupted);
        if (hasStarted && (hasPrinted || values.tail === 0)) return;
        const { outcome } = await job.ending();
        if (!hasStarted) throw neverStarted(jobId, outcome?.kind ?? "unknown");
        context.say(`${nothingOf(jobId, values)}${outcome === undefined ? " so far" : ""}`);
      });
    });
  return addServiceOptions(verb);
}

function chosen({ follow, rank, tail, attempt, task }: LogsValues): LogOptions {
  return {
    ...(follow !== undefined && { follow }),
    ...((rank !== undefined || task === undefined) && { rank: rank ?? "all" }),
    ...(tail !== undefined && { tail }),
    ...(attempt !== undefined && { attempt }),
    ...(task !== undefined && { task }),
  };
}

function nothingOf(jobId: string, { task, rank }: LogsValues): string {
  const part = task === undefined ? "" : `task ${String(task)} of `;
  const of = rank === undefined || rank === "all" ? "" : `rank ${String(rank)} of `;
  return `${of}${part}${jobId} has printed nothing`;
}

function readRank(text: string): number | "all" {
  return text === "all" ? "all" : wholeNumber("--rank", 0)(text);
}
