/** @file What the runs of a fleet of two releases have written, and which release is to blame where a run does not replay. */

import type { History } from "@temporalio/common/lib/proto-utils.js";
import { Worker } from "@temporalio/worker";
import path from "node:path";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { ROOT } from "../support/world.ts";
import type { TwoReleases } from "./two-releases.ts";

export interface Kept {
  readonly workflowId: string;
  readonly type: string;
  readonly history: History;
  /** Before the commit either release may have to go on with it. */
  readonly isBefore: boolean;
}

/** A process of this release; those of the old one say nothing of rules. */
const NEW_IDENTITY = new RegExp(`orbweaver=\\S+ rules=${NEWEST_RULES}`);

export async function histories({ temporal }: TwoReleases): Promise<readonly Kept[]> {
  const kept: Kept[] = [];
  for await (const { workflowId, runId, type } of temporal.workflow.list()) {
    const history = await temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    const isBefore = identities(history).some((identity) => !NEW_IDENTITY.test(identity));
    kept.push({ workflowId, type, history, isBefore });
  }
  return kept;
}

const identities = ({ events }: History): readonly string[] =>
  (events ?? []).flatMap(
    ({ workflowTaskStartedEventAttributes: started }) => started?.identity ?? [],
  );

type Replayed = Pick<Kept, "workflowId" | "history">;

export async function replayErrors(
  bundle: string,
  kept: readonly Replayed[],
): Promise<readonly string[]> {
  const errors: string[] = [];
  const results = Worker.runReplayHistories(
    { workflowBundle: { codePath: bundle }, dataConverter: createConverters().worker },
    kept.map(({ workflowId, history }) => ({ workflowId, history })),
  );
  for await (const { workflowId, error } of results)
    if (error !== undefined) errors.push(`${workflowId}: ${error.message}`);
  return errors;
}

export const bundleOf = (root: string): string => path.join(root, "dist/workflow-bundle.js");

/** Tasks that failed on a worker, of all runs. A signal that comes with the last command of a run fails that task, and the next one goes on. */
export const failedTasks = (kept: readonly Replayed[]): readonly string[] =>
  kept
    .flatMap(({ workflowId, history }) =>
      (history.events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
        failed ? [`${workflowId}: ${String(failed.cause)} ${failed.failure?.message ?? ""}`] : [],
      ),
    )
    .filter((text) => !text.includes("UnhandledCommand"));

/** As the SDK marks it. A replay also ends in an error where a part of a history stops within a local activity. */
const NONDETERMINISM = "TMPRL1100";

/**
 * The fault of rules 1 that a run has met (docs/decisions/0014, the fourth cause; mended by rules 3): the old release does not replay it, and has written it itself or shares that with this
 * one. Undefined where this release alone is to answer: it does not replay what the old one does, or wrote what only the old one does not. `oldRoot`: the folder of the old release.
 */
export async function inheritedFault(
  { oldRoot }: Pick<TwoReleases, "oldRoot">,
  { workflowId, history }: Replayed,
): Promise<string | undefined> {
  const starts = taskStarts(history);
  const failsIn = async (root: string, nth: number): Promise<string | undefined> => {
    const begun = { workflowId, history: upTo(history, starts[nth]) };
    const errors = await replayErrors(bundleOf(root), [begun]);
    return errors.find((text) => text.includes(NONDETERMINISM));
  };
  let [replays, fails] = [0, starts.length - 1];
  if (fails < 1 || (await failsIn(oldRoot, fails)) === undefined) return undefined;
  while (fails - replays > 1) {
    const middle = Math.floor((replays + fails) / 2);
    if ((await failsIn(oldRoot, middle)) === undefined) replays = middle;
    else fails = middle;
  }
  const { at = 0, identity = "" } = starts[replays] ?? {};
  const isOurs = NEW_IDENTITY.test(identity);
  if (isOurs && !isAfterLocal(history, at)) return undefined;
  if (isOurs && (await failsIn(ROOT, fails)) === undefined) return undefined;
  return `event ${at}, a task of ${identity}: ${await failsIn(oldRoot, fails)}`;
}

/** Whether a local activity, as that which makes a plan, ended in the task before: what comes of it was left to this one. */
function isAfterLocal({ events }: History, at: number): boolean {
  const backward = (events ?? []).slice(0, at - 1).reverse();
  const count = backward.findIndex((event) => event.workflowTaskCompletedEventAttributes);
  return backward.slice(0, count).some((event) => event.markerRecordedEventAttributes);
}

interface TaskStart {
  /** Of its event. */
  readonly at: number;
  readonly identity: string;
}

/** Of the tasks that were completed, and of the last one. */
function taskStarts({ events }: History): readonly TaskStart[] {
  const completed = new Set(
    (events ?? []).map((event) =>
      Number(event.workflowTaskCompletedEventAttributes?.startedEventId ?? 0),
    ),
  );
  const all = (events ?? []).flatMap(({ eventId, workflowTaskStartedEventAttributes: started }) =>
    started ? [{ at: Number(eventId), identity: started.identity ?? "" }] : [],
  );
  return all.filter(({ at }, nth) => completed.has(at) || nth === all.length - 1);
}

const upTo = (history: History, start: TaskStart | undefined): History => ({
  ...history,
  events: (history.events ?? []).slice(0, start?.at ?? 0),
});
