/** @file The jobs of a group as one: how many are in which state, the GPUs that they hold, those that failed, and why the others wait. */

import type { ListedJob } from "../../client/index.ts";
import { groupChoice } from "../../domain/job/job-labels.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { stateColour } from "../terminal/colour.ts";
import { factsText } from "../terminal/table.ts";
import type { CommandContext } from "./command-context.ts";
import type { FleetSession } from "./service-session.ts";

/** As many as a submit service lists. */
const MOST = 1_000;
const SHOWN_FAILED = 8;

/** Throws NOT_FOUND for a group without a job. */
export async function tellGroup(
  context: CommandContext,
  { client }: FleetSession,
  { group, isJson }: { readonly group: string; readonly isJson: boolean },
): Promise<void> {
  const jobs: ListedJob[] = [];
  const filter = { labels: [groupChoice(group)], all: true, limit: MOST };
  for await (const job of client.list(filter)) jobs.push(job);
  if (jobs.length === 0)
    throw new OrbweaverError(
      "NOT_FOUND",
      `there is no job of group ${group}. A group is what its jobs say of themselves (group: ${group}, or submit --group ${group}); one of the last second may be missing.`,
    );
  const states = counted(jobs.map(({ state }) => state));
  const waits = counted(jobs.flatMap(({ pending }) => pending?.code ?? []));
  const gpus = jobs.reduce((sum, { hosts, gpus = 0 }) => sum + (hosts.length > 0 ? gpus : 0), 0);
  const failed = jobs.flatMap(({ jobId, state }) => (FAILED.has(state) ? [jobId] : []));
  if (isJson) {
    const isCut = jobs.length === MOST && { isCut: true };
    context.printJson({ group, count: jobs.length, ...isCut, states, gpus, failed, waits, jobs });
    return;
  }
  const { colours } = context;
  const more =
    failed.length > SHOWN_FAILED ? `, and ${String(failed.length - SHOWN_FAILED)} more` : "";
  const inStates = Object.entries(states).map(([state, count]) => {
    const said = jobs.find((job) => job.state === state)?.state;
    return `${String(count)} ${said === undefined ? state : stateColour(colours, said)}`;
  });
  context.print(
    factsText([
      ["group", group],
      ["jobs", `${jobs.length === MOST ? "the newest " : ""}${String(jobs.length)}`],
      ["states", inStates.join(", ")],
      ["GPUs", gpus === 0 ? undefined : `${String(gpus)} held`],
      ["waits", Object.keys(waits).length === 0 ? undefined : countsOf(waits)],
      [
        "failed",
        failed.length === 0 ? undefined : `${failed.slice(0, SHOWN_FAILED).join(", ")}${more}`,
      ],
    ]),
  );
}

const FAILED: ReadonlySet<string> = new Set(["failed", "terminated", "timed-out"]);

const countsOf = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([word, count]) => `${word} ${String(count)}`)
    .join(", ");

function counted(words: readonly string[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return Object.fromEntries([...counts].sort(([one], [other]) => byCodeUnit(one, other)));
}
