/**
 * @file The tuner of one kind of communicator (cluster and topology class): hears what steps took under which arm, and publishes the
 * policy that follows from it.
 *
 * Hosts report the rewards of their runs by updates and are answered with the policy that is right by now; who starts a job asks
 * without rewards. Reports that come while a policy is being made share the next one. The policy is made by a local activity, so its answer
 * is in history and the science may improve; when it cannot be made, the last good one stands. Memory is bounded (collective-memory.ts).
 * History: about 4 events a report, fewer when they come together; continues as new at 400 by its own count.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  patched,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
} from "@temporalio/workflow";
import type { CollectiveActivities } from "../../protocol/collectives-contract.ts";
import type { CollectiveReward } from "../../domain/bandwidth/collective-evidence.ts";
import {
  COLLECTIVE_TUNER_RULES,
  collectiveTunerQuery,
  MAX_REPORTED_REWARDS,
  reportRewardsUpdate,
  resetCollectivesUpdate,
  type CollectiveTunerInput,
  type CollectiveTunerView,
  type RewardReport,
} from "../../protocol/collective-messages.ts";
import {
  forgotten,
  NO_COLLECTIVE_MEMORY,
  takeInRewards,
  viewOfWorld,
  withPolicy,
  worldOf,
} from "./collective-memory.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { PROVEN_LEARNER_RULES } from "../../protocol/word-proof.ts";
import {
  answerAboutDisbelieved,
  askFleetForProof,
  hearWords,
  onProvenUpdate,
} from "../runtime/proven-words.ts";
import { onJunk } from "../runtime/signal-intake.ts";
import { areWordsWaiting } from "../runtime/word-gate.ts";
import { collectiveSummary } from "./collective-summary.ts";

const CONTINUE_AT_EVENTS = 400;
const EVENTS_PER_REPORT = 4;
const EVENTS_PER_POLICY = 3;
const OWN_TASK_AFTER_MS = 1;

const { tunePolicy } = proxyLocalActivities<CollectiveActivities>({
  summary: "the next policy to measure",
  startToCloseTimeout: "10s",
  retry: { maximumAttempts: 3 },
});

export async function collectiveTuner(input: CollectiveTunerInput): Promise<never> {
  const { fleet, topology, rules = 1 } = input;
  let memory = input.memory ?? NO_COLLECTIVE_MEMORY;
  let events = 0;
  const proofAsked =
    rules < PROVEN_LEARNER_RULES ? undefined : askFleetForProof(fleetWorkflowId(fleet));
  /** For which worlds a policy is to be made anew, and which makings are over: of each, a count. */
  const asked = new Map<boolean, number>();
  const made = new Map<boolean, number>();

  const view = (): CollectiveTunerView => {
    const { worlds, heard, repeated, unfit } = memory;
    return { fleet, topology, worlds: worlds.map(viewOfWorld), heard, repeated, unfit };
  };
  const show = (): void => setCurrentDetails(collectiveSummary(view()));
  /** Resolves when a making that began after this is over. */
  const remade = async (hasOverlap: boolean): Promise<void> => {
    const turn = (asked.get(hasOverlap) ?? 0) + 1;
    asked.set(hasOverlap, turn);
    await condition(() => (made.get(hasOverlap) ?? 0) >= turn);
  };

  setHandler(collectiveTunerQuery, view);
  onJunk(() => (events += EVENTS_PER_REPORT));
  answerAboutDisbelieved();
  onProvenUpdate(
    reportRewardsUpdate,
    async (report) => {
      events += EVENTS_PER_REPORT;
      const { hasOverlap } = report;
      const taken = takeInRewards(memory, report);
      memory = taken.memory;
      if (taken.isNew || worldOf(memory, hasOverlap).policy.version === 0) await remade(hasOverlap);
      return worldOf(memory, hasOverlap).policy;
    },
    // Who asks for the policy alone changes nothing.
    { validate: checkReport, isQuestion: ({ rewards }) => rewards.length === 0 },
  );
  onProvenUpdate(resetCollectivesUpdate, async () => {
    events += EVENTS_PER_REPORT;
    memory = forgotten(memory);
    await Promise.all(memory.worlds.map(({ hasOverlap }) => remade(hasOverlap)));
    return view();
  });

  show();
  if (proofAsked !== undefined) await proofAsked;
  for (;;) {
    await condition(() => areWordsWaiting() || pending() !== undefined || mayContinue());
    // Not beside the local activity.
    if (areWordsWaiting()) {
      events += await hearWords();
      continue;
    }
    const hasOverlap = pending();
    if (hasOverlap !== undefined) {
      await make(hasOverlap);
      show();
      continue;
    }
    // Not in the task in which a local activity has ended: its answer comes before reports that are in the same task, which the run would never hear (decision 173).
    if (!patched("own-task-end")) break;
    await sleep(OWN_TASK_AFTER_MS);
    if (mayEnd()) break;
  }
  return continueAsNew<typeof collectiveTuner>({
    fleet,
    topology,
    rules: COLLECTIVE_TUNER_RULES,
    memory,
  });

  /** Nobody is left waiting for an answer. */
  function mayContinue(): boolean {
    return events >= CONTINUE_AT_EVENTS && allHandlersFinished();
  }

  /** Also nothing has come that the next run would not know. */
  function mayEnd(): boolean {
    return mayContinue() && !areWordsWaiting() && pending() === undefined;
  }

  /** A world that is due; that without overlap goes first. */
  function pending(): boolean | undefined {
    return [false, true].find((world) => (asked.get(world) ?? 0) > (made.get(world) ?? 0));
  }

  async function make(hasOverlap: boolean): Promise<void> {
    const turn = asked.get(hasOverlap) ?? 0;
    events += EVENTS_PER_POLICY;
    try {
      const evidence = worldOf(memory, hasOverlap);
      const answer = await tunePolicy({ topology, evidence, version: memory.version + 1 });
      memory = withPolicy(memory, hasOverlap, answer);
    } catch {
      // The last good policy stands; the next report has it tried again.
    }
    made.set(hasOverlap, turn);
  }
}

function checkReport(report: RewardReport): void {
  const given = report as Partial<RewardReport> | undefined; // whoever has the server's address may send anything
  const isReport =
    typeof given?.hasOverlap === "boolean" &&
    typeof given.run === "string" &&
    given.run.length <= 300 &&
    Array.isArray(given.rewards) &&
    given.rewards.length <= MAX_REPORTED_REWARDS &&
    given.rewards.every(isReward);
  if (!isReport) {
    throw ApplicationFailure.nonRetryable(
      `a report of rewards needs hasOverlap, run and at most ${MAX_REPORTED_REWARDS} rewards`,
      "BAD_INPUT",
    );
  }
}

function isReward(reward: unknown): boolean {
  if (typeof reward !== "object" || reward === null) return false;
  const { step, version, minBytes, maxBytes, calls, micros, slowestMicros, arm, collective } =
    reward as CollectiveReward; // each is looked at here
  const numbers = [step, version, minBytes, maxBytes, calls, micros, slowestMicros ?? micros];
  return numbers.every(Number.isSafeInteger) && [arm, collective].every(isWord);
}

const isWord = (value: unknown): boolean => typeof value === "string" && value.length < 64;
