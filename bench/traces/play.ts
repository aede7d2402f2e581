/**
 * @file Plays the cases of `bench traces` under every policy, several simulations at a time, and gives the figures of each.
 *
 * Simulations begin in the order of the cases; a player that has ended one takes the next, so players idle during the last ones alone.
 */

import type { BenchRequest } from "../bench.ts";
import { caseName, type TraceCase, type TraceName } from "./definition.ts";
import type { TraceEntrant } from "./entrants.ts";
import type { Figures } from "./figures.ts";
import { traceFiles } from "./files.ts";
import { playerApart, playerHere, type Player, type PlayTask } from "./player.ts";

const SECOND_MS = 1_000;

/** A case with the figures of each policy, by its name. */
export interface Played {
  readonly its: TraceCase;
  readonly figures: ReadonlyMap<string, Figures>;
}

export interface PlayedAll {
  readonly played: readonly Played[];
  /** Traces that could not be read, with the reason. */
  readonly missing: ReadonlyMap<TraceName, string>;
}

interface PlayOptions {
  readonly entrants: readonly TraceEntrant[];
  readonly most: number;
  /** Simulations at a time; 1 plays all in this thread. */
  readonly parallel: number;
}

export async function playAll(
  request: BenchRequest,
  cases: readonly TraceCase[],
  options: PlayOptions,
): Promise<PlayedAll> {
  const missing = await unreadable(request, cases);
  const readable = cases.filter(({ trace }) => !missing.has(trace));
  const tasks = readable.flatMap((its) =>
    options.entrants.map(({ name }): PlayTask => ({ its, policy: name })),
  );
  const figures = await playTasks(request, tasks, options);
  const played = readable.map((its) => ({
    its,
    figures: new Map(
      tasks.flatMap((task, at) => {
        const own = figures[at];
        return task.its === its && own !== undefined ? [[task.policy, own] as const] : [];
      }),
    ),
  }));
  return { played, missing };
}

async function unreadable(
  request: BenchRequest,
  cases: readonly TraceCase[],
): Promise<ReadonlyMap<TraceName, string>> {
  const missing = new Map<TraceName, string>();
  for (const trace of new Set(cases.map((its) => its.trace))) {
    const { why } = await traceFiles(trace, request.text("datasets"));
    if (why !== undefined) missing.set(trace, why);
  }
  return missing;
}

async function playTasks(
  request: BenchRequest,
  tasks: readonly PlayTask[],
  { most, parallel }: PlayOptions,
): Promise<readonly Figures[]> {
  const { seed, say } = request;
  const datasets = request.text("datasets");
  const terms = { seed, most, ...(datasets !== undefined && { datasets }) };
  const open = (): Player =>
    (parallel > 1 ? playerApart(terms, request) : undefined) ?? playerHere(terms, request);
  const figures: Figures[] = [];
  const startMs = performance.now();
  let next = 0;
  let ended = 0;

  async function playOn(player: Player): Promise<void> {
    for (let task = tasks[next]; task !== undefined; task = tasks[next]) {
      request.interrupted.throwIfAborted();
      const at = next;
      next += 1;
      figures[at] = await player.play(task);
      ended += 1;
      const seconds = ((performance.now() - startMs) / SECOND_MS).toFixed(0);
      const of = `${String(ended)} of ${String(tasks.length)} simulations after ${seconds} s`;
      say(`${caseName(task.its)}, window ${task.its.window}, ${task.policy}: ${of}`);
    }
  }

  const players = Array.from({ length: Math.max(1, Math.min(parallel, tasks.length)) }, open);
  try {
    await Promise.all(players.map(playOn));
  } finally {
    // Where one has failed, the others end as well.
    next = tasks.length;
    await Promise.all(players.map(async ({ close }) => close()));
  }
  return figures;
}
