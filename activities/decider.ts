/**
 * @file Runs `decide` in a worker thread under a wall deadline; when it throws or overruns, the baseline answers instead.
 *
 * The deadline is short because the workflow task that waits for the answer only buffers so many signals. The thread keeps
 * the measured tables that it has loaded; a thread that overran is thrown away.
 */

import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Plan } from "../domain/plan.ts";
import { decideBaseline } from "../scheduling/decide.ts";
import { unpackLedger, type PackedLedger } from "../scheduling/ledger-codec.ts";

export const DECIDE_DEADLINE_MS = 200;
/** The first answer of a fresh thread also pays for starting it. */
const START_DEADLINE_MS = 3_000;

export interface Decider {
  decide(snapshot: PackedLedger, nowMs: number): Promise<Plan>;
  close(): Promise<void>;
}

export interface DeciderOptions {
  /** Folder of the store with the fleet's measured tables. */
  readonly storeDir: string;
  readonly onFallback: (reason: string) => void;
}

export type DecideAnswer =
  { readonly id: number; readonly plan: Plan } | { readonly id: number; readonly error: string };

export function createDecider({ storeDir, onFallback }: DeciderOptions): Decider {
  let isWarm = false;
  let lastId = 0;
  const open = (): Worker => {
    isWarm = false;
    const opened = new Worker(threadFile(), { workerData: { storeDir } });
    opened.unref();
    return opened;
  };
  // Started before the first question: an open workflow task waits for the answer.
  let thread: Worker | undefined = open();
  const drop = (): void => {
    void thread?.terminate();
    thread = undefined;
  };

  async function ask(snapshot: PackedLedger, nowMs: number): Promise<Plan> {
    const current = (thread ??= open());
    const id = (lastId += 1);
    const deadlineMs = isWarm ? DECIDE_DEADLINE_MS : START_DEADLINE_MS;
    return new Promise<Plan>((resolve, reject) => {
      const settle = (act: () => void): void => {
        clearTimeout(timer);
        current.off("message", onMessage);
        current.off("error", onError);
        act();
      };
      const onMessage = (answer: DecideAnswer): void => {
        if (answer.id !== id) return;
        isWarm = true;
        settle(() => ("plan" in answer ? resolve(answer.plan) : reject(new Error(answer.error))));
      };
      const onError = (error: Error): void => {
        settle(() => reject(error));
        drop();
      };
      const timer = setTimeout(() => {
        settle(() => reject(new Error(`no plan within ${deadlineMs} ms`)));
        drop();
      }, deadlineMs);
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

/** Threads need compiled code: from the sources (as tests run them) the build's copy is used. */
function threadFile(): string {
  const here = fileURLToPath(new URL("./decide-thread.js", import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? here.replace(/activities\/decide-thread\.js$/, "dist/activities/decide-thread.js")
    : here;
}
