/**
 * @file Decides for fleets in two threads: one runs `decide` under a wall deadline; when it fails or overruns, the baseline of the other answers.
 *
 * Both threads keep the ledgers of the fleets and are fed with the same events, so neither is asked more than the changes. Nothing is decided
 * on the main thread, which a worker needs for all of its tasks. If the baseline fails too, the plan is empty, says so (`method: "none"`),
 * and the next cycle comes soon. The deadline is short because the waiting workflow task can buffer only a limited number of signals.
 * Plans are kept by the names of their answers for the feedings that refer to them.
 */

import type { Plan } from "../domain/lease/plan.ts";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { DecideQuestion, Decision } from "../protocol/control-contract.ts";
import { planOfNone } from "../scheduling/cycle/decide.ts";
import type { ChainLink } from "../scheduling/ledger/event-chain.ts";
import {
  named,
  type AskedQuestion,
  type KnownRuns,
  type ThreadData,
  type Told,
  type WantedRuns,
} from "./decide-messages.ts";
import { openKeepingThread, type KeepingThread } from "./keeping-thread.ts";
import { ownThreadFile } from "./thread-file.ts";

export const DECIDE_DEADLINES = Object.freeze({
  /** Of a decision on a ledger that the thread keeps. */
  fedMs: 200,
  /** With a whole ledger to read first. */
  wholeMs: 1_000,
});
/** A feeding refers to the last plan of its fleet only. */
const MOST_PLANS = 64;

export interface Decider {
  /** On a ledger that no thread keeps. */
  decide(ledger: PackedLedger, nowMs: number): Promise<Plan>;
  decideNext(question: DecideQuestion): Promise<Decision>;
  /** The same question as the last one on this fleet, with what has been told since; undefined where it cannot be answered in time. */
  decideAgain(question: DecideQuestion): Promise<Decision | undefined>;
  /** What the last decision on a fleet would know of runs; undefined where it had no use for it. */
  wanted(fleet: string): WantedRuns | undefined;
  /** Its next prices are corrected by the steps that runs measured, and its next picks are for what jobs were seen to send. */
  know(runs: Omit<KnownRuns, "kind">): void;
  close(): Promise<void>;
}

export interface DeciderOptions {
  /** Folder of the store with the fleet's measured tables. */
  readonly storeDir: string;
  readonly onFallback: (reason: string) => void;
  /** `DECIDE_DEADLINES` when absent. */
  readonly deadlines?: { readonly fedMs: number; readonly wholeMs: number };
  /** The compiled code of the threads, when it is not beside this file. */
  readonly threadFile?: string;
}

export function createDecider({
  storeDir,
  onFallback,
  deadlines: { fedMs, wholeMs } = DECIDE_DEADLINES,
  threadFile = ownThreadFile("decide-thread"),
}: DeciderOptions): Decider {
  const open = (method: ThreadData["method"]): KeepingThread =>
    openKeepingThread(threadFile, { storeDir, method });
  const [clever, plain] = [open("decide"), open("baseline")];
  const plans = new Map<string, string>();
  const wanted = new Map<string, WantedRuns>();
  return {
    async decide(ledger, nowMs) {
      const once = { kind: "once", ledger, nowMs } as const;
      const decision = await decided(nowMs, {
        ask: () => clever.ask(once, wholeMs),
        askBaseline: () => plain.ask(once, wholeMs),
      });
      return decision.kind === "plan" ? decision.plan : planOfNone(nowMs);
    },
    async decideNext(question) {
      const { nowMs } = question;
      const told = toThread(question, plans);
      const { fleet, hash } = question.kind === "feed" ? question.feed : question.snapshot;
      // Of the last decision alone: where none comes in time, nobody waits for what a better one could know.
      wanted.delete(fleet);
      if (question.kind === "feed" && !clever.keeps(fleet)) return { kind: "stale", reason: "new" };
      plain.tell(told);
      const deadlineMs = question.kind === "feed" ? fedMs : wholeMs;
      return decided(nowMs, {
        ask: async () => {
          const answer = await clever.ask(told, deadlineMs);
          if (answer.kind === "plan" && answer.wanted !== undefined)
            wanted.set(fleet, answer.wanted);
          return answer;
        },
        askBaseline: () => plain.ask({ kind: "kept", fleet, hash, nowMs }, wholeMs),
      });
    },
    async decideAgain(question) {
      const { fleet, hash } = question.kind === "feed" ? question.feed : question.snapshot;
      const { nowMs } = question;
      try {
        return decisionOf(await clever.ask({ kind: "kept", fleet, hash, nowMs }, fedMs));
      } catch (error) {
        onFallback(messageOf(error));
        return undefined;
      }
    },
    wanted: (fleet) => wanted.get(fleet),
    know(runs) {
      clever.know({ kind: "known", ...runs });
    },
    async close() {
      await Promise.all([clever.close(), plain.close()]);
    },
  };

  async function decided(
    nowMs: number,
    { ask, askBaseline }: Readonly<Record<"ask" | "askBaseline", () => Promise<Told>>>,
  ): Promise<Decision> {
    try {
      return decisionOf(await ask());
    } catch (error) {
      onFallback(messageOf(error));
    }
    try {
      return decisionOf(await askBaseline());
    } catch (error) {
      onFallback(`no baseline either: ${messageOf(error)}`);
      return decisionOf({ kind: "plan", ...named(planOfNone(nowMs)) });
    }
  }

  function decisionOf(told: Told): Decision {
    if (told.kind === "stale") return { kind: "stale", reason: told.reason };
    const { planText, answer } = told;
    plans.set(answer, planText);
    for (const oldest of plans.keys()) {
      if (plans.size <= MOST_PLANS) break;
      plans.delete(oldest);
    }
    return { kind: "plan", plan: JSON.parse(planText) as Plan, answer }; // as the thread wrote it
  }
}

/** With the plans that its links name, as far as they are known. */
function toThread(question: DecideQuestion, plans: ReadonlyMap<string, string>): AskedQuestion {
  if (question.kind === "snapshot") return question;
  const named = question.feed.links.flatMap((text) => {
    const link = JSON.parse(text) as ChainLink; // written by `extendChain`
    const planText = link.kind === "plan-of" ? plans.get(link.answer) : undefined;
    return link.kind === "plan-of" && planText !== undefined
      ? [[link.answer, planText] as const]
      : [];
  });
  return { ...question, plans: new Map(named) };
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
