/**
 * @file What there is to tell of a fleet: notices from folded events, from the queue, and from how jobs ended. Pure.
 *
 * The same history gives the same notices with the same ids, so what is read again is told once.
 */

import type { NoticeEvent, NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { durationText } from "../../page/text.ts";
import type { HostStatus, Ledger } from "../../scheduling/ledger/ledger.ts";
import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";
import type { Folded } from "../follow/fleet-run.ts";
import type { IdleJob } from "../use/idle-jobs.ts";
import type { JobRecord } from "../history/database.ts";

export interface Notice {
  readonly id: string;
  readonly event: NoticeEvent;
  readonly atMs: number;
  /** One line for people. */
  readonly text: string;
  readonly job?: NoticeJob;
  readonly hosts?: readonly string[];
  /** Facts of the event, for programs. */
  readonly facts?: Readonly<Record<string, string | number>>;
}

export interface NoticeJob {
  readonly id: string;
  readonly tenant: string;
  readonly class: string;
  readonly gpus: number;
  readonly name?: string;
  readonly user?: string;
}

/** A notice names no more hosts. */
const MOST_HOSTS = 20;

export function noticesOf({
  event,
  before,
  ledger,
}: Pick<Folded, "event" | "before" | "ledger">): readonly Notice[] {
  const atMs = event.nowMs;
  return [
    ...(before.leases === ledger.leases ? [] : leaseNotices(before, ledger, atMs)),
    ...(before.hosts === ledger.hosts ? [] : hostNotices(before, ledger, atMs)),
  ];
}

function leaseNotices(before: Ledger, ledger: Ledger, atMs: number): readonly Notice[] {
  const notices: Notice[] = [];
  for (const [id, lease] of ledger.leases) {
    const former = before.leases.get(id);
    if (former === lease) continue;
    if (former?.state === "granted" && lease.state === "held" && !hasOther(ledger, lease))
      notices.push(startNotice(lease, atMs));
    if (lease.eviction !== undefined && former !== undefined && former.eviction === undefined)
      notices.push(preemptionNotice(lease, lease.eviction, atMs));
  }
  return notices;
}

/** An array holds many leases; it starts with the first. */
const hasOther = ({ leases }: Ledger, { id, jobId }: Lease): boolean =>
  [...leases.values()].some(
    (other) => other.jobId === jobId && other.id !== id && other.state === "held",
  );

function startNotice(lease: Lease, atMs: number): Notice {
  const job = jobOf(lease);
  const hosts = lease.gpus.map(({ host }) => host);
  const waitedSeconds = Math.max(0, Math.round((lease.grantedAtMs - lease.requestedAtMs) / 1_000));
  const where = hosts.length === 1 ? (hosts[0] ?? "") : `${hosts.length} hosts`;
  return {
    id: `started:${lease.id}`,
    event: "started",
    atMs,
    text: `${job.id} starts on ${gpusText(job.gpus)} of ${where}`,
    job,
    hosts: hosts.slice(0, MOST_HOSTS),
    facts: { lease: lease.id, waitedSeconds },
  };
}

function preemptionNotice(
  lease: Lease,
  { forJob, lostGpuSeconds }: NonNullable<Lease["eviction"]>,
  atMs: number,
): Notice {
  const job = jobOf(lease);
  const why = forJob === job.id ? "to go on with more GPUs" : `for ${forJob}`;
  return {
    id: `preempted:${lease.id}`,
    event: "preempted",
    atMs,
    text: `${job.id} gives up its ${gpusText(job.gpus)} ${why}; about ${Math.round(lostGpuSeconds)} GPU-seconds of work are lost`,
    job,
    facts: { lease: lease.id, forJob, lostGpuSeconds },
  };
}

const jobOf = ({ jobId, tenant, gpus, class: name }: Lease): NoticeJob => {
  return { id: jobId, tenant, class: name, gpus: gpuCountOf(gpus) };
};

const gpusText = (count: number): string => `${count} GPU${count === 1 ? "" : "s"}`;

interface HostChange {
  readonly event: NoticeEvent;
  readonly text: string;
  /** Of some of its GPUs, and not of the host. */
  readonly ofGpus?: true;
  readonly is: (status: HostStatus, former: HostStatus) => boolean;
  readonly reasonOf?: (status: HostStatus) => string | undefined;
}

const isAway = ({ isDrained, silentSinceMs, isFenced }: HostStatus): boolean =>
  isDrained || silentSinceMs !== undefined || isFenced === true;

const HOST_CHANGES: readonly HostChange[] = [
  {
    event: "host-drained",
    text: "drained",
    is: (status, former) => status.isDrained && !former.isDrained,
    reasonOf: ({ drainReason }) => drainReason,
  },
  {
    event: "host-drained",
    text: "GPUs drained",
    ofGpus: true,
    is: (status, former) => (drainedMask(status) & ~drainedMask(former)) !== 0,
    reasonOf: ({ gpuDrains }) => gpuDrains?.at(-1)?.reason,
  },
  {
    event: "host-silent",
    text: "silent",
    is: (status, former) =>
      status.silentSinceMs !== undefined && former.silentSinceMs === undefined,
  },
  {
    event: "host-back",
    text: "back",
    is: (status, former) => isAway(former) && !isAway(status),
  },
  {
    event: "host-back",
    text: "GPUs back",
    ofGpus: true,
    is: (status, former) => (drainedMask(former) & ~drainedMask(status)) !== 0,
  },
];

/** The hosts that changed alike in one event are one notice. */
function hostNotices(before: Ledger, ledger: Ledger, atMs: number): readonly Notice[] {
  const changed = [...ledger.hosts].flatMap(([host, status]) => {
    const former = before.hosts.get(host);
    return former === undefined || former === status ? [] : [{ host, status, former }];
  });
  return HOST_CHANGES.flatMap(({ event, text, ofGpus, is, reasonOf }): readonly Notice[] => {
    const those = changed.filter(({ status, former }) => is(status, former));
    const [first] = those;
    if (first === undefined) return [];
    const hosts = those.map(({ host }) => host);
    const reason = reasonOf?.(first.status);
    const rest = hosts.length === 1 ? "" : ` and ${hosts.length - 1} more`;
    return [
      {
        id: `${event}:${first.host}:${ofGpus === true ? "gpus:" : ""}${atMs}`,
        event,
        atMs,
        text: `${first.host}${rest}: ${text}${reason === undefined ? "" : `, ${reason}`}`,
        hosts: hosts.slice(0, MOST_HOSTS),
        facts: { hosts: hosts.length, ...(reason !== undefined && { reason }) },
      },
    ];
  });
}

/** Of a job inside the fleet that has waited for so long; undefined before. Those in lobbies are not in the ledger. */
export function waitNotice(
  { jobId: id, seq, tenant, gang, requestedAtMs, name, ...request }: PendingRequest,
  reason: PendingReason | undefined,
  { nowMs, afterMs }: { readonly nowMs: number; readonly afterMs: number },
): Notice | undefined {
  const waitedMs = nowMs - requestedAtMs;
  if (waitedMs < afterMs) return undefined;
  const why = reason === undefined ? "" : `: ${reason.code}: ${reason.message}`;
  return {
    id: `waiting:${id}:${seq}:${requestedAtMs}:${afterMs}`,
    event: "waiting",
    atMs: requestedAtMs + afterMs,
    text: `${id} has waited for ${gpusText(gang.gpus)} for ${durationText(waitedMs)}${why}`,
    job: { id, tenant, class: request.class, gpus: gang.gpus, name },
    facts: {
      waitedSeconds: Math.round(waitedMs / 1_000),
      ...(reason !== undefined && { code: reason.code }),
    },
  };
}

/** Once for each lease. */
export function idleNotice(idle: IdleJob, nowMs: number): Notice {
  const { job: id, tenant, gpus, idleMs, lease, rule } = idle;
  const isSuspended = rule.act === "suspend" && idle.class !== "inference";
  return {
    id: `gpu-idle:${lease}:${Math.round((nowMs - idleMs) / 60_000)}`,
    event: "gpu-idle",
    atMs: nowMs,
    text: `${id} has used none of its ${gpusText(gpus)} for ${durationText(idleMs)}${isSuspended ? "; it is suspended" : ""}`,
    job: { id, tenant, class: idle.class, gpus },
    facts: { lease, idleSeconds: Math.round(idleMs / 1_000) },
  };
}

const FAILURES: readonly string[] = ["failed", "terminated", "timed out"];

export function endNotice(record: JobRecord): Notice {
  const { job: id, run, name, tenant, user, gpus, outcome, why, endedMs, submittedMs } = record;
  const isFailure = FAILURES.includes(outcome);
  return {
    id: `ended:${id}:${run}`,
    event: isFailure ? "failed" : "ended",
    atMs: endedMs,
    text: `${id} ${outcome === "timed out" || outcome === "completed" || outcome === "failed" ? outcome : `was ${outcome}`}${isFailure && why !== "" ? `: ${why}` : ""}`,
    job: { id, tenant, class: record.class, gpus, name, ...(user !== "" && { user }) },
    facts: { outcome, why, seconds: Math.round((endedMs - submittedMs) / 1_000) },
  };
}

/** A failure is also an end. */
export const isTold = (on: readonly NoticeEvent[], { event }: Notice): boolean =>
  on.includes(event) || (event === "failed" && on.includes("ended"));

export function isFor({ on, tenants, classes }: NoticeTarget, notice: Notice): boolean {
  const { job } = notice;
  if (!isTold(on, notice)) return false;
  if (job === undefined) return true;
  return (
    (tenants?.includes(job.tenant) ?? true) && (classes?.some((name) => name === job.class) ?? true)
  );
}
