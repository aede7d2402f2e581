/** @file The flags of `submit` that set keys of the job file; `job-flags.ts` merges their values into it. */

import { arrayFlag } from "./array-tasks.ts";
import { Option, type Command } from "commander";
import { DEPENDENCY_EVENTS, FAILED_DEPENDENCY_RULES } from "../../domain/job/dependency.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { keyValue, nameList, wholeNumber } from "./option-values.ts";

export function addJobOptions(verb: Command): Command {
  return verb
    .option("-g, --gpus <count>", "GPUs that the job needs at once", wholeNumber("--gpus", 1))
    .option(
      "--min <count>",
      "smallest gang that is accepted after the gang timeout",
      wholeNumber("--min", 1),
    )
    .option("--gang-timeout <duration>", "time after which smaller gangs are accepted, e.g. 10m")
    .option("--grow", "restart a smaller gang at full size when there is room")
    .option("--name <name>", "name of the job (default: derived from its command)")
    .addOption(new Option("--class <class>", "class of the job").choices(JOB_CLASSES))
    .option("--tenant <tenant>", "tenant whose quota the job uses")
    .option(
      "--priority <number>",
      "jobs of a tenant start in order of priority, highest first",
      readPriority,
    )
    .option(
      "-l, --label <KEY=VALUE>",
      "label by which `list` and `cancel` find the job; repeatable",
      keyValue("--label"),
    )
    .option("--group <name>", "group that is listed, shown and cancelled as one")
    .option(
      "-e, --env <KEY=VALUE>",
      "environment variable of the processes; repeatable",
      keyValue("--env"),
    )
    .option(
      "--workdir <folder>",
      "working folder of the processes, as the hosts see it (default: this folder where they are known to have it)",
    )
    .option(
      "--sync",
      "send this folder (or that of --workdir), so that hosts run the job in a copy of it; .orbweaverignore says what stays",
    )
    .addOption(
      new Option("--launch <how>", "one process for each GPU or each host").choices([
        "per-gpu",
        "per-host",
      ]),
    )
    .option("--gpu-type <types>", "only GPUs of these types, e.g. H100,H200", nameList)
    .option("--memory <size>", "least memory of each GPU, e.g. 80GiB")
    .option("--cluster <clusters>", "only in these clusters", nameList)
    .option("--jurisdiction <names>", "only under one of these jurisdictions, e.g. EU", nameList)
    .option("--same-host", "all GPUs in one host")
    .option("--anti-affinity <label>", "never on a host with another job of this label")
    .option("--preempt", "allow preemption: the job writes a checkpoint and is queued again")
    .option("--no-preempt", "forbid preemption")
    .option("--shrink", "allow preemption of only its GPUs above --min")
    .option("--min-runtime <duration>", "time after its start in which the job is not preempted")
    .option("--time-limit <duration>", "longest time of a run, e.g. 2h")
    .option("--deadline <duration>", "time after its submission by which the job must have ended")
    .option(
      "--attempts <count>",
      "number of runs in total when processes fail",
      wholeNumber("--attempts", 1),
    )
    .option(
      "--fleets <fleets>",
      "other fleets that may run the job, asked in turn, e.g. eu,us",
      nameList,
    )
    .option("--patience <duration>", "time to wait for each fleet, e.g. 2m")
    .option(
      "--array <tasks>",
      "run this many tasks, each with its own ARRAY_INDEX; or those that are named, as in 0-99:5%10 (every fifth, ten at once)",
      arrayFlag,
    )
    .option(
      "--parallel <count>",
      "most tasks of an array that run at once",
      wholeNumber("--parallel", 1),
    )
    .option(
      "--after <JOB[:on]>",
      `wait for a job: until its success (default), ${DEPENDENCY_EVENTS.slice(1).join(", ")}; repeatable`,
      (text: string, former: readonly string[] | undefined) => [...(former ?? []), text],
    )
    .addOption(
      new Option(
        "--on-failed-dependency <what>",
        "once --after can never come true: end the job (default), or release it",
      ).choices(FAILED_DEPENDENCY_RULES),
    )
    .option("--hold", "hold the job until `orbweaver release`")
    .option(
      "--queue-anyway",
      "queue the job also where the fleet would never start it as it is, e.g. before new hosts come",
    );
}

export function readPriority(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new OrbweaverError(
    "BAD_INPUT",
    `--priority ${JSON.stringify(text)} is not a whole number. Write one from -1000 to 1000.`,
  );
}
