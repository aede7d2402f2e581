/**
 * @file One host as its agent serves it: its folder, its tokens, and the launches that are not known to be over.
 *
 * A restarted agent rebuilds all of it from the folder and goes on.
 */

import { join } from "node:path";
import type { HostId, JobId, LeaseId } from "../../domain/values/ids.ts";
import type { RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import { MARKS_ALONE, type Containment } from "../containment/container.ts";
import type { HostGpu } from "../containment/host-gpus.ts";
import type { HostResources } from "../containment/limits.ts";
import type { CheckLease } from "../health/lease-checks.ts";
import type { FindLaunchFault } from "../health/launch-fault.ts";
import { failure } from "../system/failures.ts";
import {
  batchDir,
  batchesDir,
  launchFiles,
  type Claim,
  type StoredOrder,
} from "../folder/launch-files.ts";
import { phaseOf, rootsOf, runKey, type Launch, type LocalRun, type RunRef } from "./local-run.ts";
import type { Files } from "../ports/files.ts";
import type { System } from "../ports/system.ts";
import type { WeightsPool } from "../ports/weights.ts";
import { readJson, replaceJson } from "../folder/json-files.ts";
import { membersOf } from "./launch-processes.ts";
import { hostLayout, ownerName, type HostLayout, type HostPlace } from "../system/state-layout.ts";
import { openTokenStore, type TokenStore } from "../folder/token-store.ts";

export interface AgentHost {
  readonly id: HostId;
  readonly gpuCount: number;
  readonly system: System;
  readonly layout: HostLayout;
  readonly tokens: TokenStore;
  readonly containment: Containment;
  /** What launches share in proportion to their GPUs. */
  readonly resources: HostResources;
  /** By their places; none where the machine's driver shows none, or the host's GPUs are made up. Others from the look on that finds others. */
  gpus?: readonly HostGpu[];
  /** Where services leave the weights of their models; absent: nowhere. */
  readonly weights?: WeightsPool;
  /** Names this host of this fleet among all that agents of the machine serve. */
  readonly owner: string;
  /** The user as whom it runs an order, where that is not the agent's own. */
  readonly jobUid?: (order: RunOrder) => number | undefined;
  /** Called once for each launch, when its report is written. */
  readonly settled?: (order: RunOrder, report: RunReport) => void;
  /** The operator's programs around each launch. */
  readonly checkLease?: CheckLease;
  /** Absent where nobody looks at the host's GPUs. */
  readonly findFault?: FindLaunchFault;
  /** Settled when the tokens are known; `tokens.isReady` says whether they are. */
  readonly ready: Promise<void>;
  /** Launches without a report, by `runKey`. */
  readonly open: Map<string, LocalRun>;
  /** The newest batch with an order, by the lease's folder, where that was looked at: a lease may have had thousands. */
  readonly newestBatch: Map<string, number>;
}

export interface HostSetup extends HostPlace {
  readonly gpuCount: number;
  /** By default the marks alone. */
  readonly containment?: Containment;
  /** By default none: only what a job asks for is limited. */
  readonly resources?: HostResources;
  readonly gpus?: AgentHost["gpus"];
  readonly weights?: AgentHost["weights"];
  /** By default one made from the folder's name. */
  readonly owner?: string;
  readonly jobUid?: AgentHost["jobUid"];
  readonly settled?: AgentHost["settled"];
  readonly checkLease?: CheckLease;
  readonly findFault?: AgentHost["findFault"];
  /** Asks the fleet for the tokens where the folder holds none; never fails. By default a missing file is that of a new host. */
  readonly heal?: (host: Pick<AgentHost, "id" | "gpuCount" | "tokens">) => Promise<void>;
}

export function openHost(setup: HostSetup, system: System): AgentHost {
  const {
    gpuCount,
    containment = MARKS_ALONE,
    resources = {},
    gpus,
    weights,
    owner,
    jobUid,
    settled,
    checkLease,
    findFault,
    heal,
    ...place
  } = setup;
  const { files: disk } = system;
  const layout = hostLayout(disk, place);
  const tokens = openTokenStore(disk, layout.tokens, gpuCount);
  const isAsked = heal !== undefined && tokens.lost !== undefined;
  if (isAsked) tokens.awaitHeal();
  const host: AgentHost = {
    id: place.id,
    gpuCount,
    system,
    layout,
    tokens,
    ready: isAsked ? heal({ id: place.id, gpuCount, tokens }) : Promise.resolve(),
    containment,
    resources,
    ...(gpus !== undefined && { gpus }),
    ...(weights !== undefined && { weights }),
    ...(jobUid !== undefined && { jobUid }),
    ...(settled !== undefined && { settled }),
    ...(checkLease !== undefined && { checkLease }),
    ...(findFault !== undefined && { findFault }),
    owner: owner ?? ownerName([layout.dir]),
    open: new Map(),
    newestBatch: new Map(),
  };
  for (const name of disk.list(layout.leases)) {
    // No lease has such a name: it is being removed, perhaps half gone.
    if (name.startsWith(".")) continue;
    const leaseDir = join(layout.leases, name);
    for (const dir of [leaseDir, ...batchDirsOf(disk, leaseDir)]) {
      const files = launchFiles(dir);
      if (disk.stat(files.report) !== undefined) continue;
      const stored = readJson<StoredOrder>(disk, files.order);
      if (stored === undefined || isClaimBroken({ files, system })) {
        giveUp({ files, system });
        continue;
      }
      if (phaseOf({ files, system }).kind === "revoked") continue;
      const run = newRun(host, refOf(stored.order), stored);
      host.open.set(runKey(run), run);
    }
  }
  return host;
}

/** A shim has taken it, and nobody can say which. */
const isClaimBroken = ({ files, system }: Launch): boolean =>
  system.files.stat(files.claim) !== undefined && phaseOf({ files, system }).kind === "unclaimed";

/** Files that cannot be read say nothing that may be relied on: this launch may not start again, and what runs of it is a stray. */
function giveUp({ files, system }: Launch): void {
  if (system.files.stat(files.claim) === undefined && system.files.stat(files.order) === undefined)
    return;
  const claim: Claim = {
    kind: "revoked",
    reason: "its files on this host could not be read",
    atMs: system.clock.nowMs(),
  };
  replaceJson(system.files, files.claim, claim);
}

export const refOf = ({ leaseId, taskBatch }: RunOrder): RunRef => ({
  leaseId,
  ...(taskBatch !== undefined && { batchSeq: taskBatch.seq }),
});

/** The folders of a lease's batches, the newest first. */
export function batchDirsOf(disk: Files, leaseDir: string): readonly string[] {
  return disk
    .list(batchesDir(leaseDir))
    .map(Number)
    .sort((a, b) => b - a)
    .map((seq) => batchDir(leaseDir, seq));
}

/** The orders of a lease that this host has stored, from the newest batch; read one by one as they are asked for. */
export function* storedOrders(host: AgentHost, lease: LeaseId): Generator<RunOrder, undefined> {
  const leaseDir = host.layout.leaseDir(lease);
  const { files: disk } = host.system;
  for (const dir of [leaseDir, ...batchDirsOf(disk, leaseDir)]) {
    const order = orderIn(disk, dir);
    if (order !== undefined) yield order;
  }
}

export function newestOrder(host: AgentHost, lease: LeaseId): RunOrder | undefined {
  const leaseDir = host.layout.leaseDir(lease);
  const known = host.newestBatch.get(leaseDir);
  const kept =
    known === undefined ? undefined : orderIn(host.system.files, batchDir(leaseDir, known));
  if (kept !== undefined) return kept;
  const [newest] = storedOrders(host, lease);
  if (newest?.taskBatch !== undefined) host.newestBatch.set(leaseDir, newest.taskBatch.seq);
  return newest;
}

const orderIn = (disk: Files, dir: string): RunOrder | undefined =>
  readJson<StoredOrder>(disk, launchFiles(dir).order)?.order;

/** Writes the order that the run has from now on. */
export function storeOrder({ system, layout, newestBatch }: AgentHost, run: LocalRun): void {
  replaceJson(system.files, run.files.order, run.stored);
  const leaseDir = layout.leaseDir(run.leaseId);
  const known = newestBatch.get(leaseDir);
  if (known !== undefined && run.batchSeq !== undefined)
    newestBatch.set(leaseDir, Math.max(known, run.batchSeq));
}

/** The launch of a lease, known or new. An order for another job under the same lease is refused: one of the two is stale. */
export function runOf(host: AgentHost, ref: RunRef, jobId: JobId): LocalRun {
  const run = findRun(host, ref, jobId);
  host.open.set(runKey(ref), run);
  return run;
}

/** As `runOf`, for a look alone: a new one is not counted as open. */
export function findRun(host: AgentHost, ref: RunRef, jobId: JobId): LocalRun {
  const run =
    host.open.get(runKey(ref)) ??
    newRun(
      host,
      ref,
      readJson<StoredOrder>(host.system.files, launchFiles(dirOf(host, ref)).order),
    );
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
  return [...host.open.values()].filter((run) => {
    const phase = phaseOf(run);
    if (phase.kind === "revoked") return false;
    if (phase.kind === "running" || phase.kind === "starting") return true;
    const roots = rootsOf(run, phase);
    return (roots.grouped?.length ?? 0) > 0 || membersOf(host.system.processes, roots).length > 0;
  });
}

/** Launches that a shim has taken, or may be about to take. */
export const startedRuns = (host: AgentHost): readonly LocalRun[] =>
  [...host.open.values()].filter(
    (run) =>
      phaseOf(run).kind !== "unclaimed" || host.system.files.stat(run.files.plan) !== undefined,
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

/** Throws NOT_ALLOWED for a batch whose number is none: orders are not parsed, and `../` would lead to a launch that somebody else has written. */
function dirOf({ id, layout }: AgentHost, { leaseId, batchSeq }: RunRef): string {
  if (batchSeq === undefined) return layout.leaseDir(leaseId);
  if (Number.isSafeInteger(batchSeq)) return batchDir(layout.leaseDir(leaseId), batchSeq);
  throw failure("NOT_ALLOWED", `${id}: a batch of ${leaseId} has no whole number`);
}

function newRun(host: AgentHost, ref: RunRef, stored: StoredOrder | undefined): LocalRun {
  const dir = dirOf(host, ref);
  host.system.files.makeFolder(dir);
  return {
    leaseId: ref.leaseId,
    ...(ref.batchSeq !== undefined && { batchSeq: ref.batchSeq }),
    files: launchFiles(dir),
    system: host.system,
    stored,
    halt: new AbortController(),
    fault: new AbortController(),
    hurry: new AbortController(),
    kill: new AbortController(),
    stopping: undefined,
    clearing: undefined,
    attempts: 0,
    isReported: false,
  };
}

/** A run that was reset may give other tasks the number of a batch that the host has had: its report says nothing of them, and it may still run. */
export function refuseOtherTasks({ stored }: LocalRun, order: RunOrder): void {
  const known = stored?.order.taskBatch?.tasks;
  const { leaseId, host, taskBatch } = order;
  if (known === undefined || known.join() === taskBatch?.tasks.join()) return;
  throw failure(
    "NOT_ALLOWED",
    `batch ${taskBatch?.seq} of ${leaseId} had other tasks on ${host}, before its job was reset`,
  );
}
