/** @file Plays the steps of an upgrade, each once, and again from the start where a fault of rules 1 that both releases know has broken the fleet. */

import { setTimeout as sleep } from "node:timers/promises";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { failedTasks, histories, inheritedFault } from "./fleet-histories.ts";
import { startTwoReleases, type TwoReleases } from "./two-releases.ts";

export interface Step {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** What came of each step, by its name: undefined where it has held. */
export type Outcomes = ReadonlyMap<string, { readonly error: unknown } | undefined>;

/** A fleet of rules 1 breaks in about one play of fifty on a busy machine. */
const MOST_PLAYS = 3;
const LOOK_EVERY_MS = 5_000;
const STEP_WITHIN_MS = 900_000;

/**
 * Fleets of rules 1 have a fault that rules 3 have mended (docs/decisions/0014, the fourth cause): a question that is answered while a plan is made can leave a history
 * that neither release replays, and jobs ask at each launch. Such a play says nothing of this release, so it is told and begun anew. Whatever this release alone gets wrong fails the step.
 */
export async function play(steps: (two: TwoReleases) => readonly Step[]): Promise<Outcomes> {
  for (let nth = 1; ; nth += 1) {
    const two = await startTwoReleases();
    try {
      const outcomes = await inTurn(two, steps(two));
      const isHeld = [...outcomes.values()].every((outcome) => outcome === undefined);
      const fault = isHeld || nth === MOST_PLAYS ? undefined : await faultOf(two);
      if (fault === undefined) return outcomes;
      for (const [name, outcome] of outcomes)
        if (outcome !== undefined) process.stderr.write(`${name}: ${String(outcome.error)}\n`);
      process.stderr.write(
        `a fleet of rules 1 has broken by their known fault, so play ${nth + 1}: ${fault}\n`,
      );
    } finally {
      await two.end();
    }
  }
}

async function inTurn(two: TwoReleases, steps: readonly Step[]): Promise<Outcomes> {
  process.stderr.write(`the release before rules 2: ${two.from}\n`);
  const outcomes = new Map<string, { readonly error: unknown } | undefined>();
  for (const { name, run } of steps) {
    const failed = [...outcomes].find(([, outcome]) => outcome !== undefined)?.[0];
    if (failed !== undefined)
      outcomes.set(name, {
        error: new Error(`not played, since a step before has failed: ${failed}`),
      });
    else
      outcomes.set(
        name,
        await within(two, run).then(
          () => undefined,
          (error: unknown) => ({ error }),
        ),
      );
  }
  return outcomes;
}

/** Ends a step as soon as a task of the fleet has failed: nothing would move again. */
async function within(two: TwoReleases, run: () => Promise<void>): Promise<void> {
  const over = new AbortController();
  try {
    await Promise.race([run(), untilBroken(two, over.signal)]);
  } finally {
    over.abort();
  }
}

async function untilBroken(two: TwoReleases, over: AbortSignal): Promise<never> {
  const workflowId = fleetWorkflowId(two.fleet);
  for (const endAtMs = Date.now() + STEP_WITHIN_MS; ;) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: over });
    // A busy server may not answer; the next look does.
    const history = await two.temporal.workflow
      .getHandle(workflowId)
      .fetchHistory()
      .catch(() => undefined);
    const [failed] = history === undefined ? [] : failedTasks([{ workflowId, history }]);
    if (failed !== undefined) throw new Error(`a task of the fleet has failed: ${failed}`);
    if (Date.now() > endAtMs)
      throw new Error(`the step has not ended in ${STEP_WITHIN_MS / 1000} s`);
  }
}

async function faultOf(two: TwoReleases): Promise<string | undefined> {
  for (const each of await histories(two)) {
    const fault = each.type === "fleet" ? await inheritedFault(two, each) : undefined;
    if (fault !== undefined) return fault;
  }
  return undefined;
}
