/**
 * @file One host as its agent serves it: its folder, its tokens, and the launches that are not known to be over.
 *
 * Everything here can be made again from the folder: a restarted agent opens it and goes on.
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { HostId, JobId, LeaseId } from "../../domain/ids.ts";
import type { RunOrder } from "../agent-contract.ts";
import { failure } from "./failures.ts";
import { batchDir, batchesDir, launchFiles, type StoredOrder } from "./launch.ts";
import { phaseOf, rootsOf, runKey, type LocalRun, type RunRef } from "./local-run.ts";
import { membersOf } from "./process-table.ts";
import { makeFolder, readFile } from "./state-files.ts";
import { hostLayout, type HostLayout } from "./state-layout.ts";
import { openTokenBook, type TokenBook } from "./token-book.ts";

export interface AgentHost {
  readonly id: HostId;
  readonly gpuCount: number;
  readonly layout: HostLayout;
  readonly tokens: TokenBook;
  /** Launches without a report, by `runKey`. */
  readonly open: Map<string, LocalRun>;
}

export interface HostPlace {
  readonly stateDir: string;
  readonly fleet: string;
  readonly id: HostId;
  readonly gpuCount: number;
}

export function openHost({ stateDir, fleet, id, gpuCount }: HostPlace): AgentHost {
  const layout = hostLayout(stateDir, fleet, id);
  const host: AgentHost = {
    id,
    gpuCount,
    layout,
    tokens: openTokenBook(layout.tokens, gpuCount),
    open: new Map(),
  };
  for (const name of readdirSync(layout.leases)) {
    const leaseDir = join(layout.leases, name);
    for (const dir of [leaseDir, ...batchDirsOf(leaseDir)]) {
      const files = launchFiles(dir);
      if (existsSync(files.report)) continue;
      const stored = readFile<StoredOrder>(files.order);
      if (stored === undefined || phaseOf(files).kind === "revoked") continue;
      const run = newRun(host, refOf(stored.order), stored);
      host.open.set(runKey(run), run);
    }
  }
  return host;
}

export const refOf = ({ leaseId, taskBatch }: RunOrder): RunRef => ({
  leaseId,
  ...(taskBatch !== undefined && { batchSeq: taskBatch.seq }),
});

/** The folders of a lease's batches, the newest first. */
export function batchDirsOf(leaseDir: string): readonly string[] {
  if (!existsSync(batchesDir(leaseDir))) return [];
  return readdirSync(batchesDir(leaseDir))
    .map(Number)
    .sort((a, b) => b - a)
    .map((seq) => batchDir(leaseDir, seq));
}

/** The orders of a lease that this host has stored, from the newest batch; read one by one as they are asked for. */
export function* storedOrders(host: AgentHost, lease: LeaseId): Generator<RunOrder, undefined> {
  const leaseDir = host.layout.leaseDir(lease);
  for (const dir of [leaseDir, ...batchDirsOf(leaseDir)]) {
    const stored = readFile<StoredOrder>(launchFiles(dir).order);
    if (stored !== undefined) yield stored.order;
  }
}

export function newestOrder(host: AgentHost, lease: LeaseId): RunOrder | undefined {
  const [newest] = storedOrders(host, lease);
  return newest;
}

/** The launch of a lease, known or new. An order for another job under the same lease is refused: one of the two is stale. */
export function runOf(host: AgentHost, ref: RunRef, jobId: JobId): LocalRun {
  const run = findRun(host, ref, jobId);
  host.open.set(runKey(ref), run);
  return run;
}

/** As `runOf`, for somebody who only has a look: a new one is not counted as open. */
export function findRun(host: AgentHost, ref: RunRef, jobId: JobId): LocalRun {
  const run =
    host.open.get(runKey(ref)) ??
    newRun(host, ref, readFile<StoredOrder>(launchFiles(dirOf(host, ref)).order));
  const other = (run.stored?.order ?? newestOrder(host, ref.leaseId))?.jobId ?? jobId;
  if (other !== jobId) {
    throw failure(
      "STALE_TOKEN",
      `${ref.leaseId} belongs to job ${other} on ${host.id}, not to ${jobId}: its fleet has counted this token twice. Let the fleet count on above ${host.tokens.highest()}.`,
    );
  }
  return run;
}

/** The launches of a lease that have no report. */
export const openRuns = (host: AgentHost, lease: LeaseId): readonly LocalRun[] =>
  [...host.open.values()].filter(({ leaseId }) => leaseId === lease);

/** Forgets a lease of which the host holds nothing: it was refused, or only an order to stop has named it. */
export function forgetUnstored(host: AgentHost, run: LocalRun): void {
  if (run.stored === undefined) host.open.delete(runKey(run));
}

/** Launches of which something still runs, a shim that is on its way included. */
export function livingRuns(host: AgentHost): readonly LocalRun[] {
  return [...host.open.values()].filter(({ files }) => {
    const phase = phaseOf(files);
    if (phase.kind === "revoked") return false;
    if (phase.kind === "running" || phase.kind === "starting") return true;
    return membersOf(rootsOf(files, phase)).length > 0;
  });
}

/** Launches that a shim has taken, or may be about to take. */
export const startedRuns = (host: AgentHost): readonly LocalRun[] =>
  [...host.open.values()].filter(
    ({ files }) => phaseOf(files).kind !== "unclaimed" || existsSync(files.plan),
  );

/** Launches under a lower token on any of these GPUs, and earlier batches of the same lease. */
export function lowerRuns(host: AgentHost, order: RunOrder, mask: number): readonly LocalRun[] {
  return [...host.open.values()].filter(({ stored }) => {
    if (stored === undefined || (maskOn(stored.order) & mask) === 0) return false;
    return stored.order.token < order.token || isFollowedBy(stored.order, order);
  });
}

/** This host's GPUs in an order; 0 when it has none. */
export const maskOn = ({ gang, host }: RunOrder): number =>
  gang.find((part) => part.host === host)?.mask ?? 0;

/** Whether the second is a later batch of the first one's lease. */
export const isFollowedBy = (earlier: RunOrder, later: RunOrder): boolean =>
  earlier.leaseId === later.leaseId && (earlier.taskBatch?.seq ?? 0) < (later.taskBatch?.seq ?? 0);

const dirOf = ({ layout }: AgentHost, { leaseId, batchSeq }: RunRef): string =>
  batchSeq === undefined ? layout.leaseDir(leaseId) : batchDir(layout.leaseDir(leaseId), batchSeq);

function newRun(host: AgentHost, ref: RunRef, stored: StoredOrder | undefined): LocalRun {
  const dir = dirOf(host, ref);
  makeFolder(dir);
  return {
    leaseId: ref.leaseId,
    ...(ref.batchSeq !== undefined && { batchSeq: ref.batchSeq }),
    files: launchFiles(dir),
    stored,
    halt: new AbortController(),
    hurry: new AbortController(),
    stopping: undefined,
    attempts: 0,
  };
}
