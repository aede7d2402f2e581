/** @file The flags that choose jobs, the same for `list` and for verbs that change many jobs at once. */

import { Option, type Command } from "commander";
import { parseJobState, type JobFilter } from "../../client/index.ts";
import { groupChoice } from "../../domain/job/job-labels.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { parseDuration } from "../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { nameList } from "./option-values.ts";

export interface JobFilterValues {
  readonly class?: string;
  readonly tenant?: string;
  readonly state?: readonly string[];
  readonly cluster?: string;
  readonly user?: string;
  readonly me?: boolean;
  readonly label?: readonly string[];
  readonly group?: string;
  readonly name?: string;
  readonly gpuType?: string;
  readonly olderThan?: string;
  readonly newerThan?: string;
}

export function addJobFilterOptions(verb: Command): Command {
  return verb
    .addOption(new Option("--class <class>", "only jobs of this class").choices(JOB_CLASSES))
    .option("--tenant <tenant>", "only jobs of this tenant")
    .option("--user <user>", "only jobs that this user has signed")
    .option("--me", "only jobs that you have signed")
    .option("--state <states>", "only jobs in these states, e.g. pending,held", nameList)
    .option(
      "-l, --label <key=value>",
      "only jobs with this label, or with this key; repeatable",
      nameList,
    )
    .option("--group <name>", "only jobs of this group")
    .option("--name <pattern>", "only jobs with this name or id; * is any text, ? one character")
    .option("--gpu-type <type>", "only jobs that hold this type of GPU, or wait for it by name")
    .option("--cluster <cluster>", "only jobs that run, or last ran, in this cluster")
    .option("--older-than <duration>", "only jobs submitted longer ago than this, e.g. 2h")
    .option("--newer-than <duration>", "only jobs submitted less long ago than this, e.g. 1d");
}

/** Throws BAD_INPUT for a value that no job can have. */
export function jobFilterOf(values: JobFilterValues, nowMs: number): JobFilter {
  const { class: jobClass, tenant, cluster, name, gpuType, label, olderThan, newerThan } = values;
  if (values.me === true && values.user !== undefined)
    throw new OrbweaverError("BAD_INPUT", "--me and --user both name a user. Give one of them.");
  const { user, group } = values;
  const labels = [...(label ?? []), ...(group === undefined ? [] : [groupChoice(group)])];
  const states = (values.state ?? []).map(parseJobState);
  const [state, ...others] = states;
  const before = olderThan === undefined ? undefined : ago("--older-than", olderThan, nowMs);
  const after = newerThan === undefined ? undefined : ago("--newer-than", newerThan, nowMs);
  return {
    ...(jobClass !== undefined && { class: jobClass }),
    ...(tenant !== undefined && { tenant }),
    ...(state !== undefined && { state: others.length === 0 ? state : states }),
    ...(cluster !== undefined && { cluster }),
    ...(values.me === true && { isMine: true as const }),
    ...(user !== undefined && { user }),
    ...(labels.length > 0 && { labels }),
    ...(name !== undefined && { name }),
    ...(gpuType !== undefined && { gpuType }),
    ...(before !== undefined && { submittedBeforeMs: before }),
    ...(after !== undefined && { submittedAfterMs: after }),
  };
}

function ago(flag: string, text: string, nowMs: number): number {
  const length = parseDuration(text);
  if (length.kind === "read") return nowMs - length.value;
  const { message, remedy } = length;
  throw new OrbweaverError("BAD_INPUT", `${flag} ${text}: ${message}. To mend it, ${remedy}.`);
}
