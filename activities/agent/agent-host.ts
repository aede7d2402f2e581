/**
 * @file One host as its agent serves it: its folder, its tokens, and the launches that are not known to be over.
 *
 * Everything here can be made again from the folder: a restarted agent opens it and goes on.
 */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { HostId, LeaseId } from "../../domain/ids.ts";
import type { RunOrder } from "../agent-contract.ts";
import { failure } from "./failures.ts";
import { launchFiles, type StoredOrder } from "./launch.ts";
import { phaseOf, rootsOf, type LocalRun } from "./local-run.ts";
import { membersOf } from "./process-table.ts";
import { makeFolder, readFile } from "./state-files.ts";
import { hostLayout, type HostLayout } from "./state-layout.ts";
import { openTokenBook, type TokenBook } from "./token-book.ts";

export interface AgentHost {
  readonly id: HostId;
  readonly gpuCount: number;
  readonly layout: HostLayout;
  readonly tokens: TokenBook;
  /** Launches without a report. */
  readonly open: Map<LeaseId, LocalRun>;
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
    const files = launchFiles(join(layout.leases, name));
    const stored = readFile<StoredOrder>(files.order);
    if (stored === undefined || existsSync(files.report) || phaseOf(files).kind === "revoked")
      continue;
    host.open.set(stored.order.leaseId, newRun(host, stored.order.leaseId, stored));
  }
  return host;
}

/** The launch of a lease, known or new. An order for another job under the same lease is refused: one of the two is stale. */
export function runOf(host: AgentHost, lease: LeaseId, order?: Pick<RunOrder, "jobId">): LocalRun {
  const known = host.open.get(lease);
  const run =
    known ??
    newRun(host, lease, readFile<StoredOrder>(launchFiles(host.layout.leaseDir(lease)).order));
  if (order !== undefined && run.stored !== undefined && run.stored.order.jobId !== order.jobId) {
    throw failure(
      "STALE_TOKEN",
      `${lease} belongs to job ${run.stored.order.jobId} on ${host.id}, not to ${order.jobId}: its fleet has counted this token twice. Let the fleet count on above ${host.tokens.highest()}.`,
    );
  }
  if (known === undefined) host.open.set(lease, run);
  return run;
}

/** Forgets a lease of which the host holds nothing: it was refused, or only an order to stop has named it. */
export function forgetUnstored(host: AgentHost, { leaseId, stored }: LocalRun): void {
  if (stored === undefined) host.open.delete(leaseId);
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

/** Launches under a lower token on any of these GPUs. */
export function lowerRuns(host: AgentHost, order: RunOrder, mask: number): readonly LocalRun[] {
  return [...host.open.values()].filter(({ stored }) => {
    if (stored === undefined || stored.order.token >= order.token) return false;
    return (maskOn(stored.order) & mask) !== 0;
  });
}

/** This host's GPUs in an order; 0 when it has none. */
export const maskOn = ({ gang, host }: RunOrder): number =>
  gang.find((part) => part.host === host)?.mask ?? 0;

function newRun(host: AgentHost, lease: LeaseId, stored: StoredOrder | undefined): LocalRun {
  const dir = host.layout.leaseDir(lease);
  makeFolder(dir);
  return {
    leaseId: lease,
    files: launchFiles(dir),
    stored,
    halt: new AbortController(),
    hurry: new AbortController(),
    stopping: undefined,
    attempts: 0,
  };
}
