/**
 * @file A thread of the decider: answers questions in their order, each under a wall deadline, and keeps the ledgers of fleets.
 *
 * It keeps what it has loaded, so a question that overruns is worked on to its end; while one is overdue no other is asked, because its
 * answer would be late as well. Only a thread that stays silent for long is replaced. A thread that has died is replaced by the next question.
 */

import { Worker } from "node:worker_threads";
import type {
  AskedQuestion,
  KnownRuns,
  ThreadAnswer,
  ThreadData,
  ThreadQuestion,
  Told,
} from "./decide-messages.ts";

/** The first answer of a new thread includes its start. */
const START_DEADLINE_MS = 3_000;
/** Its next ones run code that the engine has not compiled yet: the second took 254 ms where the tenth took 50. */
const COLD_DEADLINE_MS = 1_000;
const COLD_ANSWERS = 5;
/** A thread that has not answered for this long counts as stuck. */
const STUCK_MS = 10_000;

export interface KeepingThread {
  /**
   * Throws when the thread fails, overruns the deadline, or is still busy with an overdue question. Even then the thread gets what it is
   * to follow.
   */
  readonly ask: (question: AskedQuestion, deadlineMs: number) => Promise<Told>;
  /** What the thread is to follow; nobody waits for a plan. */
  readonly tell: (question: AskedQuestion) => void;
  /** Forgotten by a thread that dies, until it is told again. */
  readonly know: (runs: KnownRuns) => void;
  /** Whether the thread was given a ledger of the fleet; it may have dropped it since. */
  readonly keeps: (fleet: string) => boolean;
  readonly close: () => Promise<void>;
}

interface Waiting {
  readonly settle: (outcome: ThreadAnswer | Error) => void;
}

export function openKeepingThread(threadFile: string, workerData: ThreadData): KeepingThread {
  let answered = 0;
  let lastId = 0;
  /** Overdue questions on which the thread still works. */
  let overdue = 0;
  let waiting = new Map<number, Waiting>();
  const kept = new Set<string>();
  // Started before the first question: an open workflow task waits for the answer.
  let thread: Worker | undefined = open();
  return {
    async ask(question, deadlineMs) {
      const asked = current();
      if (overdue > 0) {
        // Its answer would be late as well.
        tell(question);
        throw new Error("the last question has not been answered yet");
      }
      const answer = await answerOf(asked, post(question, { isFedOnly: false }), deadlineMs);
      if (answer.kind === "plan" || answer.kind === "stale") return answer;
      throw new Error(answer.kind === "error" ? answer.message : "the thread was only fed");
    },
    tell,
    know: (runs) => thread?.postMessage(runs),
    keeps: (fleet) => kept.has(fleet),
    close: async () => {
      await thread?.terminate();
    },
  };

  function tell(question: AskedQuestion): void {
    if (question.kind === "snapshot" || question.kind === "feed")
      post(question, { isFedOnly: true });
  }

  function post(question: AskedQuestion, { isFedOnly }: { readonly isFedOnly: boolean }): number {
    const to = current();
    lastId += 1;
    to.postMessage({ ...question, id: lastId, isFedOnly } satisfies ThreadQuestion);
    if (question.kind === "snapshot") kept.add(question.snapshot.fleet);
    return lastId;
  }

  function current(): Worker {
    return (thread ??= open());
  }

  function open(): Worker {
    const opened = new Worker(threadFile, { workerData });
    const asked = new Map<number, Waiting>();
    [answered, overdue, waiting] = [0, 0, asked];
    kept.clear();
    const end = (error: Error): void => {
      if (thread === opened) thread = undefined;
      for (const { settle } of asked.values()) settle(error);
      asked.clear();
    };
    opened.unref();
    opened.on("message", (answer: ThreadAnswer) => {
      if (thread === opened) answered += 1;
      asked.get(answer.id)?.settle(answer);
    });
    opened.once("error", end);
    opened.once("exit", (code) => end(new Error(`the thread ended with exit code ${code}`)));
    return opened;
  }

  function answerOf(asked: Worker, id: number, deadlineMs: number): Promise<ThreadAnswer> {
    const mostMs = Math.max(deadlineMs, leastDeadlineMs(answered));
    const own = waiting;
    return new Promise((resolve, reject) => {
      let isOverdue = false;
      const settle = (): void => {
        own.delete(id);
        if (isOverdue && thread === asked) overdue -= 1;
        clearTimeout(deadline);
        clearTimeout(stuck);
      };
      const deadline = setTimeout(() => {
        isOverdue = thread === asked;
        if (isOverdue) overdue += 1;
        reject(new Error(`no plan within ${mostMs} ms`));
      }, mostMs);
      const stuck = setTimeout(() => {
        settle();
        void asked.terminate();
        if (thread === asked) thread = undefined;
      }, STUCK_MS);
      stuck.unref();
      // No caller waits for a late answer.
      own.set(id, {
        settle(outcome) {
          settle();
          if (outcome instanceof Error) reject(outcome);
          else resolve(outcome);
        },
      });
    });
  }
}

/** Of a thread that has given so many answers. */
function leastDeadlineMs(answered: number): number {
  if (answered === 0) return START_DEADLINE_MS;
  return answered < COLD_ANSWERS ? COLD_DEADLINE_MS : 0;
}
