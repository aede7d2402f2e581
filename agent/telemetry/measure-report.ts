/**
 * @file Reports the bandwidth and the steps that running gangs have measured, and what they send, to the cluster's bandwidth model.
 *
 * For a gang over several hosts of one cluster the host reports whose processes wrote the file (`bandwidth-file.ts`). A run has windows of
 * ten minutes; in each the first figure is reported, and once more at the run's end if it differs. So a job costs its model a
 * few notes an hour, however long its file grows. Likewise the typical step (`steps-file.ts`) of a gang whose model was planned, and what a gang of
 * several GPUs sends (`sent-file.ts`), which the host of rank 0 knows. Notes go in one batch every `everyMs`; a batch that failed goes with the next one.
 * Batches of array tasks are left out: they have no file.
 * Cost: a stat for each running gang and look.
 */

import { extraText, PLANNED_STEP_FILE } from "../../domain/lease/launch-extras.ts";
import { readPlannedStep, type PlannedStep } from "../../domain/model/step-record.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import { clusterOf, type ClusterId } from "../../domain/values/ids.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import type { MeasuredNote, SentNote, StepNote } from "../../protocol/messages.ts";
import type { RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import { ORDER_FILE } from "../../protocol/collective-files.ts";
import type { System } from "../ports/system.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import { readBandwidth, type MeasuredFigure } from "../folder/bandwidth-file.ts";
import { readSent } from "../folder/sent-file.ts";
import { readSteps } from "../folder/steps-file.ts";
import { launchFiles } from "../folder/launch-files.ts";
import { phaseOf } from "../runs/local-run.ts";

/** Brings notes to the bandwidth model of a cluster, or fails. */
export type TellModel = (cluster: ClusterId, notes: readonly AnyNote[]) => Promise<void>;

type AnyNote = MeasuredNote | StepNote | SentNote;

export interface MeasureReporting {
  readonly hosts: Iterable<Pick<AgentHost, "id" | "layout" | "open">>;
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
  const waiting: (readonly [ClusterId, AnyNote])[] = [];
  const wait = (order: RunOrder, made: AnyNote): void => {
    const [first] = order.gang;
    if (first !== undefined) waiting.push([clusterOf(first.host), made]);
    if (waiting.length > MAX_WAITING) waiting.shift();
  };
  const bandwidths = newsOfWindows();
  const steps = newsOfWindows();
  const sents = newsOfWindows();

  const note = (order: RunOrder, { gbs, messages }: MeasuredFigure, isEnd: boolean): void => {
    const atMs = clock.nowMs();
    const window = windowOf(order, atMs);
    if (!bandwidths.isNew(keyOf(order), { window, figure: gbs, isEnd })) return;
    const measured = { window, gbs, atMs };
    wait(order, noteOf(order, { ...measured, ...(messages !== undefined && { messages }) }));
  };

  const noteStep = (order: RunOrder, measuredMs: number, isEnd: boolean): void => {
    const atMs = clock.nowMs();
    const now = { window: windowOf(order, atMs), figure: measuredMs, isEnd };
    if (!steps.isNew(keyOf(order), now)) return;
    const planned = plannedIn(order);
    if (planned === undefined) return;
    const { jobId, holder, attempt } = order;
    const { runId, tenant } = holder;
    wait(order, { jobId, tenant, runId, attempt, planned, measuredMs, atMs });
  };

  const noteSent = (order: RunOrder, launchDir: string, isEnd: boolean): void => {
    const atMs = clock.nowMs();
    const window = windowOf(order, atMs);
    if (!isSending(order) || !(isEnd || sents.isDue(keyOf(order), window))) return;
    const sent = readSent(files, launchDir);
    if (sent === undefined) return;
    sents.isNew(keyOf(order), { window, figure: 0, isEnd });
    const { jobId, jobName: name, holder, gang, model } = order;
    const { tenant, class: jobClass } = holder;
    const gpus = gpuCountOf(gang);
    const sender = { tenant, class: jobClass, name, gpus, ...(model !== undefined && { model }) };
    wait(order, { ...sender, jobId, sent, atMs });
  };

  const look = (): void => {
    for (const host of hosts) {
      for (const run of host.open.values()) {
        const order = run.stored?.order;
        if (order === undefined || phaseOf(run).kind !== "running") continue;
        const measured = isNotified(order) ? readBandwidth(files, run.files.dir) : undefined;
        if (measured !== undefined) note(order, measured, false);
        const stepMs = isPlanned(order) ? readSteps(files, run.files.dir) : undefined;
        if (stepMs !== undefined) noteStep(order, stepMs, false);
        noteSent(order, run.files.dir, false);
      }
    }
  };

  const send = async (): Promise<void> => {
    const clusters = new Map<ClusterId, AnyNote[]>();
    for (const [cluster, waitingNote] of waiting.splice(0))
      clusters.set(cluster, [...(clusters.get(cluster) ?? []), waitingNote]);
    for (const [cluster, notes] of clusters) {
      const again = (left: readonly AnyNote[]): void =>
        void waiting.push(...left.map((each) => [cluster, each] as const));
      try {
        await tellModel(cluster, notes.slice(0, MAX_NOTES));
        again(notes.slice(MAX_NOTES));
      } catch {
        again(notes);
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
    ended(order, { measuredGbs, messages, stepMs, hasStarted }) {
      if (hasStarted && measuredGbs !== undefined && isNotified(order))
        note(order, { gbs: measuredGbs, ...(messages !== undefined && { messages }) }, true);
      if (hasStarted && stepMs !== undefined && isPlanned(order)) noteStep(order, stepMs, true);
      const host = hosts.find(({ id }) => id === order.host);
      if (hasStarted && host !== undefined)
        noteSent(order, launchFiles(host.layout.leaseDir(order.leaseId)).dir, true);
      bandwidths.forget(keyOf(order));
      sents.forget(keyOf(order));
      steps.forget(keyOf(order));
    },
    done: run(),
  };
}

/** Over several hosts of one cluster; the bandwidth inside a host is read from its table. */
const isNotified = ({ gang, taskBatch }: RunOrder): boolean =>
  taskBatch === undefined &&
  gang.length > 1 &&
  new Set(gang.map(({ host }) => clusterOf(host))).size === 1;

/** With its collectives tuned: the plugin counts what it sends. */
const isSending = ({ gang, taskBatch, launchExtras }: RunOrder): boolean =>
  taskBatch === undefined &&
  gpuCountOf(gang) > 1 &&
  extraText(launchExtras, ORDER_FILE) !== undefined;

const isPlanned = ({ launchExtras }: RunOrder): boolean =>
  extraText(launchExtras, PLANNED_STEP_FILE) !== undefined;

function plannedIn({ launchExtras }: RunOrder): PlannedStep | undefined {
  const text = extraText(launchExtras, PLANNED_STEP_FILE);
  return text === undefined ? undefined : readPlannedStep(parsedJson(text));
}

/** Of each run the last report: its window and figure. */
function newsOfWindows() {
  const reported = new Map<string, readonly [window: number, figure: number]>();
  return {
    /** Another window, or at the run's end another figure. It counts as reported from then on. */
    isNew(
      run: string,
      now: { readonly window: number; readonly figure: number; readonly isEnd: boolean },
    ): boolean {
      const former = reported.get(run);
      if (former?.[0] === now.window && (!now.isEnd || former[1] === now.figure)) return false;
      reported.set(run, [now.window, now.figure]);
      return true;
    },
    isDue: (run: string, window: number): boolean => reported.get(run)?.[0] !== window,
    forget: (run: string) => void reported.delete(run),
  };
}

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
