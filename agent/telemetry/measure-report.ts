/**
 * @file Reports the bandwidth that running gangs have measured of their collectives to the cluster's bandwidth model.
 *
 * For a gang over several hosts of one cluster the host reports whose processes wrote the file (`bandwidth-file.ts`). A run has windows of
 * ten minutes; in each the first figure is reported, and once more at the run's end if it differs. So a job costs its model a
 * few notes an hour, however long its file grows. Notes go in one batch every `everyMs`; a batch that failed goes with the next one.
 * Batches of array tasks are left out: they have no file.
 * Cost: a stat for each running gang and look.
 */

import { clusterOf, type ClusterId } from "../../domain/values/ids.ts";
import type { MeasuredNote } from "../../protocol/messages.ts";
import type { RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import type { System } from "../ports/system.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import { readBandwidth, type MeasuredFigure } from "../folder/bandwidth-file.ts";
import { phaseOf } from "../runs/local-run.ts";

/** Brings notes to the bandwidth model of a cluster, or fails. */
export type TellModel = (cluster: ClusterId, notes: readonly MeasuredNote[]) => Promise<void>;

export interface MeasureReporting {
  readonly hosts: Iterable<AgentHost>;
  readonly tellModel: TellModel;
  readonly closing: AbortSignal;
  readonly system: System;
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
const MAX_NOTES = 200;
/** Notes that wait while the model does not answer; the oldest are dropped first. */
const MAX_WAITING = 2_000;

export function reportMeasured(options: MeasureReporting): MeasureReports {
  const { tellModel, closing, system, everyMs = EVERY_MS } = options;
  const { files, clock } = system;
  const hosts = [...options.hosts];
  /** The last report on a run: its window and figure. */
  const reported = new Map<string, readonly [window: number, gbs: number]>();
  const waiting: MeasuredNote[] = [];

  const note = (order: RunOrder, { gbs, messages }: MeasuredFigure, isEnd: boolean): void => {
    const [window, former] = [windowOf(order, clock.nowMs()), reported.get(keyOf(order))];
    const isKnown = former?.[0] === window && (!isEnd || former[1] === gbs);
    if (isKnown) return;
    reported.set(keyOf(order), [window, gbs]);
    const measured = { window, gbs, atMs: clock.nowMs() };
    waiting.push(noteOf(order, { ...measured, ...(messages !== undefined && { messages }) }));
    if (waiting.length > MAX_WAITING) waiting.shift();
  };

  const look = (): void => {
    for (const host of hosts) {
      for (const run of host.open.values()) {
        const order = run.stored?.order;
        if (order === undefined || !isNotified(order) || phaseOf(run).kind !== "running") continue;
        const measured = readBandwidth(files, run.files.dir);
        if (measured !== undefined) note(order, measured, false);
      }
    }
  };

  const send = async (): Promise<void> => {
    const clusters = new Map<ClusterId, MeasuredNote[]>();
    for (const waitingNote of waiting.splice(0)) {
      const [first] = waitingNote.gpus;
      if (first === undefined) continue;
      const cluster = clusterOf(first.host);
      clusters.set(cluster, [...(clusters.get(cluster) ?? []), waitingNote]);
    }
    for (const [cluster, notes] of clusters) {
      try {
        await tellModel(cluster, notes.slice(0, MAX_NOTES));
        waiting.push(...notes.slice(MAX_NOTES));
      } catch {
        waiting.push(...notes);
      }
    }
  };

  const run = async (): Promise<void> => {
    while (!closing.aborted) {
      await clock.pause(everyMs, closing);
      if (!closing.aborted) look();
      if (waiting.length > 0) await send();
    }
  };

  return {
    ended(order, { measuredGbs, messages, hasStarted }) {
      if (hasStarted && measuredGbs !== undefined && isNotified(order))
        note(order, { gbs: measuredGbs, ...(messages !== undefined && { messages }) }, true);
      reported.delete(keyOf(order));
    },
    done: run(),
  };
}

/** Over several hosts of one cluster; the bandwidth inside a host is read from its table. */
const isNotified = ({ gang, taskBatch }: RunOrder): boolean =>
  taskBatch === undefined &&
  gang.length > 1 &&
  new Set(gang.map(({ host }) => clusterOf(host))).size === 1;

const keyOf = ({ leaseId, host }: RunOrder): string => `${leaseId} ${host}`;

/** Counted from the grant, so that a restarted agent counts the same. */
const windowOf = ({ holder }: RunOrder, nowMs: number): number =>
  Math.max(0, Math.floor((nowMs - holder.grantedAtMs) / WINDOW_MS));

const noteOf = (
  { jobId, holder, attempt, gang }: RunOrder,
  measured: Pick<MeasuredNote, "window" | "gbs" | "atMs" | "messages">,
): MeasuredNote => ({
  jobId,
  runId: holder.runId,
  attempt,
  gpus: gang.map(({ host, mask }) => ({ host, mask })),
  ...measured,
});
