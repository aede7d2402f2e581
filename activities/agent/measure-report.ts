/**
 * @file Tells the cluster's bandwidth model what running gangs have measured of their collectives.
 *
 * Of a gang over several hosts of one cluster, by the host whose processes wrote the file (`bandwidth-file.ts`). A run has windows of
 * ten minutes; in each it tells the first figure that it sees and once more at its end, if that says something else: a job costs its model a
 * few words an hour, however long its file grows. Words go in one batch every `everyMs`; what is not heard goes with the next one.
 * Batches of array tasks are left out: they have no file.
 * Cost: a stat for each running gang and look.
 */

import { clusterOf, type ClusterId } from "../../domain/ids.ts";
import type { MeasuredWord } from "../../workflows/messages.ts";
import type { RunOrder, RunReport } from "../agent-contract.ts";
import { abortablePause } from "./abortable-pause.ts";
import type { AgentHost } from "./agent-host.ts";
import { readBandwidth } from "./bandwidth-file.ts";
import { phaseOf } from "./local-run.ts";

/** Brings words to the bandwidth model of a cluster, or fails. */
export type TellModel = (cluster: ClusterId, words: readonly MeasuredWord[]) => Promise<void>;

export interface MeasureReporting {
  readonly hosts: Iterable<AgentHost>;
  readonly tellModel: TellModel;
  readonly closing: AbortSignal;
  readonly nowMs: () => number;
  readonly everyMs?: number;
}

export interface MeasureReports {
  /** The run of this order has ended. */
  ended(order: RunOrder, report: RunReport): void;
  /** Resolves when the agent ends. */
  readonly done: Promise<void>;
}

const EVERY_MS = 15_000;
const WINDOW_MS = 600_000;
/** In one signal; well below what one may carry. */
const MAX_WORDS = 200;
/** That wait while nobody hears; the oldest go first. */
const MAX_WAITING = 2_000;

export function reportMeasured(options: MeasureReporting): MeasureReports {
  const { tellModel, closing, nowMs, everyMs = EVERY_MS } = options;
  const hosts = [...options.hosts];
  /** What was last said of a run: its window and figure. */
  const said = new Map<string, readonly [window: number, gbs: number]>();
  const waiting: MeasuredWord[] = [];

  const note = (order: RunOrder, gbs: number, isEnd: boolean): void => {
    const [window, former] = [windowOf(order, nowMs()), said.get(keyOf(order))];
    const isSaid = former?.[0] === window && (!isEnd || former[1] === gbs);
    if (isSaid) return;
    said.set(keyOf(order), [window, gbs]);
    waiting.push(wordOf(order, { window, gbs, atMs: nowMs() }));
    if (waiting.length > MAX_WAITING) waiting.shift();
  };

  const look = (): void => {
    for (const host of hosts) {
      for (const run of host.open.values()) {
        const order = run.stored?.order;
        if (order === undefined || !isTold(order) || phaseOf(run.files).kind !== "running")
          continue;
        const gbs = readBandwidth(run.files.dir);
        if (gbs !== undefined) note(order, gbs, false);
      }
    }
  };

  const send = async (): Promise<void> => {
    const clusters = new Map<ClusterId, MeasuredWord[]>();
    for (const word of waiting.splice(0)) {
      const [first] = word.gpus;
      if (first === undefined) continue;
      const cluster = clusterOf(first.host);
      clusters.set(cluster, [...(clusters.get(cluster) ?? []), word]);
    }
    for (const [cluster, words] of clusters) {
      try {
        await tellModel(cluster, words.slice(0, MAX_WORDS));
        waiting.push(...words.slice(MAX_WORDS));
      } catch {
        waiting.push(...words);
      }
    }
  };

  const run = async (): Promise<void> => {
    while (!closing.aborted) {
      await abortablePause(everyMs, closing);
      if (!closing.aborted) look();
      if (waiting.length > 0) await send();
    }
  };

  return {
    ended(order, { measuredGbs, hasStarted }) {
      if (hasStarted && measuredGbs !== undefined && isTold(order)) note(order, measuredGbs, true);
      said.delete(keyOf(order));
    },
    done: run(),
  };
}

/** Over several hosts of one cluster; what is inside a host is read from its table. */
const isTold = ({ gang, taskBatch }: RunOrder): boolean =>
  taskBatch === undefined &&
  gang.length > 1 &&
  new Set(gang.map(({ host }) => clusterOf(host))).size === 1;

const keyOf = ({ leaseId, host }: RunOrder): string => `${leaseId} ${host}`;

/** Counted from the grant, so that a restarted agent counts the same. */
const windowOf = ({ holder }: RunOrder, nowMs: number): number =>
  Math.max(0, Math.floor((nowMs - holder.grantedAtMs) / WINDOW_MS));

const wordOf = (
  { jobId, holder, attempt, gang }: RunOrder,
  measured: Pick<MeasuredWord, "window" | "gbs" | "atMs">,
): MeasuredWord => ({
  jobId,
  runId: holder.runId,
  attempt,
  gpus: gang.map(({ host, mask }) => ({ host, mask })),
  ...measured,
});
