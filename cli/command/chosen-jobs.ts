/**
 * @file The jobs that a verb changes: those named by their ids, or all that fit the same flags as in `list`.
 *
 * On a terminal the number is asked for before anything is changed. The list comes from the search index: a job of the last second may be missing.
 */

import type { Command } from "commander";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { JobState } from "../../client/index.ts";
import { counted } from "../terminal/duration.ts";
import type { CommandContext } from "./command-context.ts";
import { addJobFilterOptions, jobFilterOf, type JobFilterValues } from "./job-filter-options.ts";
import type { FleetSession } from "./service-session.ts";

export interface ChosenJobsValues extends JobFilterValues {
  readonly yes?: boolean;
}

export interface JobChoice {
  readonly jobIds: readonly string[];
  readonly values: ChosenJobsValues;
  /** As in `cancel 12 jobs?`. */
  readonly verb: string;
  /** The states in which the verb makes sense; the default of a choice that names none. */
  readonly states: readonly JobState[];
}

export function addChosenJobsOptions(verb: Command): Command {
  return addJobFilterOptions(verb).option(
    "-y, --yes",
    "do not ask before several jobs are changed",
  );
}

/** Throws BAD_INPUT when ids and flags are mixed, or when neither is given; asks where the flags choose. */
export async function chosenJobs(
  context: CommandContext,
  { client }: FleetSession,
  { jobIds, values, verb, states }: JobChoice,
): Promise<readonly string[]> {
  const filter = jobFilterOf(values, context.io.nowMs());
  const isChosen = Object.keys(filter).length > 0;
  if (!isChosen && jobIds.length > 0) return jobIds;
  if (isChosen === jobIds.length > 0) {
    throw new OrbweaverError(
      "BAD_INPUT",
      isChosen
        ? `ids and flags both choose jobs to ${verb}. Give ids, or flags such as --label team=vision.`
        : `no job to ${verb} is named. Give ids, or flags such as --label team=vision or --me.`,
    );
  }
  const wanted = [filter.state ?? []].flat();
  const senseless = wanted.find((state) => !states.includes(state));
  if (senseless !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${verb} is not for jobs that are ${senseless}. Choose among those that are ${states.join(", ")}.`,
    );
  const found: string[] = [];
  for await (const { jobId, state } of client.list(filter))
    if (states.some((each) => each === state)) found.push(jobId);
  if (found.length === 0) context.say("no jobs fit");
  return found.length === 0 || (await isAgreed(context, found, { values, verb })) ? found : [];
}

async function isAgreed(
  { io, say }: CommandContext,
  found: readonly string[],
  { values, verb }: Pick<JobChoice, "values" | "verb">,
): Promise<boolean> {
  if (values.yes === true || io.askLine === undefined) return true;
  const named = found.slice(0, NAMED).join(", ");
  const more = found.length > NAMED ? `, … (${String(found.length - NAMED)} more)` : "";
  const answer = await io.askLine(
    `${verb} ${counted(found.length, "job")}: ${named}${more}? [y/N] `,
  );
  if (/^y(es)?$/i.test(answer.trim())) return true;
  say("nothing was changed");
  return false;
}

const NAMED = 5;
