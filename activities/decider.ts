/**
 * @file Runs `decide` in a worker thread under a wall deadline; when it throws or overruns, the baseline answers instead.
 *
 * The deadline is short because the workflow task that waits for the answer only buffers so many signals. The thread keeps
 * the measured tables that it has loaded and what the compiler has made of the code: one that overran, on a busy machine say,
 * goes on to its end, and only one that stays silent for long is thrown away.
 */

import { Worker } from "node:worker_threads";
import type { Plan } from "../domain/plan.ts";
import { decideBaseline } from "../scheduling/decide.ts";
import { unpackLedger, type PackedLedger } from "../scheduling/ledger-codec.ts";
import { ownThreadFile } from "./thread-file.ts";

export const DECIDE_DEADLINE_MS = 200;
/** The first answer of a fresh thread also pays for starting it. */
const START_DEADLINE_MS = 3_000;
/** A thread that has not answered a question for so long is stuck. */
const STUCK_MS = 10_000;

export interface Decider {
  decide(snapshot: PackedLedger, nowMs: number): Promise<Plan>;
  close(): Promise<void>;
}

export interface DeciderOptions {
  /** Folder of the store with the fleet's measured tables. */
  readonly storeDir: string;
  readonly onFallback: (reason: string) => void;
  /** The compiled code of the thread, when it is not beside this file. */
  readonly threadFile?: string;
}

export type DecideAnswer =
  { readonly id: number; readonly plan: Plan } | { readonly id: number; readonly error: string };

export function createDecider({
  storeDir,
  onFallback,
  threadFile = ownThreadFile("decide-thread"),
}: DeciderOptions): Decider {
  let isWarm = false;
  let lastId = 0;
  /** Questions that the thread still works at although nobody waits for their answers. */
  let overdue = 0;
  const open = (): Worker => {
    isWarm = false;
    overdue = 0;
    const opened = new Worker(threadFile, { workerData: { storeDir } });
    opened.unref();
    opened.once("exit", () => {
      if (thread === opened) thread = undefined;
    });
    return opened;
  };
  // Started before the first question: an open workflow task waits for the answer.
  let thread: Worker | undefined = open();
  const drop = (stuck: Worker): void => {
    void stuck.terminate();
    if (thread === stuck) thread = undefined;
  };

  async function ask(snapshot: PackedLedger, nowMs: number): Promise<Plan> {
    const current = (thread ??= open());
    // Behind an overdue question this one would be late as well, and so would all after it.
    if (overdue > 0) throw new Error("the last question has not been answered yet");
    const id = (lastId += 1);
    const deadlineMs = isWarm ? DECIDE_DEADLINE_MS : START_DEADLINE_MS;
    return new Promise<Plan>((resolve, reject) => {
      let isOverdue = false;
      const settle = (): void => {
        if (isOverdue && thread === current) overdue -= 1;
        clearTimeout(deadline);
        clearTimeout(stuck);
        current.off("message", onMessage);
        current.off("error", onError);
      };
      const onMessage = (answer: DecideAnswer): void => {
        if (answer.id !== id) return;
        isWarm = true;
        settle();
        // Nobody listens any more to an answer that comes late.
        if ("plan" in answer) resolve(answer.plan);
        else reject(new Error(answer.error));
      };
      const onError = (error: Error): void => {
        settle();
        reject(error);
        drop(current);
      };
      const deadline = setTimeout(() => {
        isOverdue = thread === current;
        if (isOverdue) overdue += 1;
        reject(new Error(`no plan within ${deadlineMs} ms`));
      }, deadlineMs);
      const stuck = setTimeout(() => {
        settle();
        drop(current);
      }, STUCK_MS);
      stuck.unref();
      current.on("message", onMessage);
      current.on("error", onError);
      current.postMessage({ id, snapshot, nowMs });
    });
  }

  return {
    async decide(snapshot, nowMs) {
      try {
        return await ask(snapshot, nowMs);
      } catch (error) {
        onFallback(error instanceof Error ? error.message : String(error));
        return decideBaseline(unpackLedger(snapshot), nowMs);
      }
    },
    async close() {
      await thread?.terminate();
    },
  };
}
