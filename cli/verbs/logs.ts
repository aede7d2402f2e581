/** @file `orbweaver logs JOB`: what the job's processes wrote, now and, when followed, as it comes. */

import type { Command } from "commander";
import { OrbweaverError } from "../../domain/failure.ts";
import { neverStarted, type LogOptions } from "../../client/index.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { EXIT } from "../exit-code.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { logOptions } from "../log-options.ts";
import { wholeNumber } from "../option-values.ts";
import { untilInterrupted } from "../until-interrupted.ts";

interface LogsValues extends ConnectionOptionValues {
  readonly follow?: boolean;
  readonly rank?: number | "all";
  readonly tail?: number;
  readonly attempt?: number;
  readonly task?: number;
  readonly json?: boolean;
}

export function logsVerb(kit: Kit): Command {
  const verb = kit
    .verb("logs")
    .summary("show what a job's processes wrote")
    .description(
      "Shows what rank 0 wrote, or another rank, or all of them with `[rank]` before each line.\n" +
        "Works from any machine that reaches Temporal; the logs themselves stay on the hosts.",
    )
    .argument("<job>", "job id")
    .option("-f, --follow", "go on until the job has ended, over its retries too")
    .option("-r, --rank <rank>", "a rank, or `all`", readRank)
    .option("-n, --tail <lines>", "only the last lines of each rank", wholeNumber("--tail", 0))
    .option("--attempt <number>", "an earlier run of the job", wholeNumber("--attempt", 1))
    .option("-t, --task <number>", "of a job array: which task", wholeNumber("--task", 0))
    .option("--json", "answer with one JSON document (not with --follow)")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver logs -f train-7", "follow rank 0"],
        ["orbweaver logs train-7 --rank all --tail 5", "the last lines of each rank"],
        ["orbweaver logs train-7 --attempt 1", "why did the first run fail?"],
        ["orbweaver logs sweep-3 --task 17 -f", "follow one task of an array"],
      ]),
    )
    .action(async (jobId: string, values: LogsValues) => {
      if (values.follow === true && values.json === true) {
        throw new OrbweaverError(
          "BAD_INPUT",
          "--follow has no end and --json prints one document. Give one of them.",
        );
      }
      await kit.withSession(values, async ({ client }) => {
        const job = client.job(jobId);
        let hasStarted = false;
        const options = logOptions(kit, chosen(values));
        const onAttempt: LogOptions["onAttempt"] = (attempt) => {
          hasStarted = true;
          options.onAttempt?.(attempt);
        };
        const texts = job.logs({ ...options, onAttempt });
        if (values.json === true) {
          let text = "";
          for await (const part of texts) text += part;
          const { task } = values;
          const of = { jobId, ...(task !== undefined && { task }), rank: values.rank ?? 0 };
          kit.printJson({ ...of, text });
          return;
        }
        if (values.task !== undefined) hasStarted = true;
        for await (const text of untilInterrupted(texts, kit.io.interrupted))
          kit.io.stdout.write(text);
        if (kit.io.interrupted.aborted) kit.exitWith(EXIT.interrupted);
        else if (!hasStarted) {
          throw neverStarted(jobId, (await job.ending()).outcome?.kind ?? "unknown");
        }
      });
    });
  return addConnectionOptions(verb);
}

function chosen({ follow, rank, tail, attempt, task }: LogsValues): LogOptions {
  return {
    ...(follow !== undefined && { follow }),
    ...(rank !== undefined && { rank }),
    ...(tail !== undefined && { tail }),
    ...(attempt !== undefined && { attempt }),
    ...(task !== undefined && { task }),
  };
}

function readRank(text: string): number | "all" {
  return text === "all" ? "all" : wholeNumber("--rank", 0)(text);
}
