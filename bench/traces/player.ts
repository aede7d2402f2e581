/**
 * @file Plays simulations of `bench traces` one after the other, here or in a thread of its own.
 *
 * A simulation depends on its case, its policy and the seed alone, so where it is played changes no figure. Threads need compiled code:
 * where only sources exist, all is played here.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { BenchRequest } from "../bench.ts";
import { workloadOf, type TraceCase, type TraceName } from "./definition.ts";
import { TRACE_ENTRANTS } from "./entrants.ts";
import type { Figures } from "./figures.ts";
import { traceFiles, type Found } from "./files.ts";
import type { PolicyName } from "./names.ts";
import { playOne } from "./play-one.ts";

/** What all simulations of a run share. */
export interface PlayTerms {
  readonly seed: number;
  /** Jobs of a window. */
  readonly most: number;
  readonly datasets?: string;
}

export interface PlayTask {
  readonly its: TraceCase;
  readonly policy: PolicyName;
}

export interface Player {
  readonly play: (task: PlayTask) => Promise<Figures>;
  readonly close: () => Promise<void>;
}

export type Ear = Pick<BenchRequest, "say" | "interrupted">;

/** In this thread. It remembers the traces that it has read. */
export function playerHere({ seed, most, datasets }: PlayTerms, ear: Ear): Player {
  const read = new Map<TraceName, Found>();
  return {
    async play({ its, policy }) {
      const file = read.get(its.trace) ?? (await traceFiles(its.trace, datasets));
      read.set(its.trace, file);
      const entrant = TRACE_ENTRANTS.find(({ name }) => name === policy);
      if (file.trace === undefined || entrant === undefined)
        throw new Error(file.why ?? `no policy is called ${policy}`);
      const workload = workloadOf(file.trace, its, { seed, most });
      return playOne({ its, workload, entrant, seed }, ear);
    },
    close: () => Promise.resolve(),
  };
}

export type ThreadWord =
  | { readonly kind: "say"; readonly line: string }
  | { readonly kind: "played"; readonly figures: Figures }
  | { readonly kind: "failed"; readonly error: unknown };

/** In a thread of its own; undefined where there is no compiled code. */
export function playerApart(terms: PlayTerms, { say, interrupted }: Ear): Player | undefined {
  const file = compiledFile();
  if (!existsSync(file)) return undefined;
  const thread = new Worker(file, { workerData: terms });
  const stop = (): void => void thread.terminate();
  interrupted.addEventListener("abort", stop, { once: true });
  return {
    play: async (task) =>
      new Promise((resolve, reject) => {
        const settle = (end: () => void): void => {
          thread.removeAllListeners();
          end();
        };
        thread.on("message", (word: ThreadWord) => {
          if (word.kind === "say") say(word.line);
          else if (word.kind === "failed") settle(() => reject(word.error));
          else settle(() => resolve(word.figures));
        });
        thread.once("error", (error) => settle(() => reject(error)));
        thread.once("exit", (code) =>
          settle(() =>
            reject(interrupted.reason ?? new Error(`a player ended with exit code ${code}`)),
          ),
        );
        thread.postMessage(task);
      }),
    async close() {
      interrupted.removeEventListener("abort", stop);
      await thread.terminate();
    },
  };
}

/** Sources use the copy of the last build. */
function compiledFile(): string {
  const here = fileURLToPath(new URL("./player-thread.js", import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? here.replace(/bench\/traces\/([^/]+)$/, "dist/bench/traces/$1")
    : here;
}
