/**
 * @file Packs one request, host or grant as a row, and unpacks it. New fields go to the end of a row.
 *
 * Cost: O(fields). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import { jobId, leaseId, runId, token, type HostId, type JobId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { ms } from "../../domain/values/units.ts";
import { interner, type Interner } from "../../lib/interner.ts";
import { longId, shortId } from "../../lib/short-uuid.ts";
import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { HostStatus, OutboxGrant } from "./ledger.ts";
import { keptStatus } from "./kept-shape.ts";
import { at, entry, isThere, orphan, since, type Packed } from "./codec-values.ts";

export interface Tables {
  /** Hosts beyond those of `shape`, which come first. */
  readonly hosts: readonly HostId[];
  readonly texts: readonly string[];
  readonly profiles: readonly Profile[];
  readonly agents: readonly AgentRow[];
  readonly reasons: readonly ReasonRow[];
}

/** What many requests have in common. */
export type Profile = Pick<
  PendingRequest,
  | "tenant"
  | "class"
  | "priority"
  | "gang"
  | "constraints"
  | "timeLimitMs"
  | "preemption"
  | "checkpoint"
>;

export type RequestRow = readonly [
  jobId: string,
  runId: string,
  seq: number,
  /** `SAME_AS_JOB` when it is the job's id. */
  name: number,
  profile: number,
  submitted: Packed,
  requested: Packed,
  arrival: number,
  avoidHosts?: readonly number[] | null,
  slots?: number | null,
  patienceMs?: number | null,
  round?: number,
  /** After its request. */
  entered?: Packed,
];

export type HostRow = readonly [
  host: number,
  agent: number,
  /** 1: drained; 2: fenced. */
  flags: number,
  drainReason?: string | null,
  fenceMs?: number | null,
  /** Of a fenced host, which cannot be silent: since when it is fenced. */
  silentSinceMs?: number | null,
  lastEpoch?: string | null,
  toldAtMs?: number | null,
  gpuDrains?: readonly (readonly [mask: number, reason: string, sinceMs: number])[],
];
/** The names of its queues have `MARK` for the epoch. */
export type AgentRow = readonly [
  epoch: string,
  runQueue: string,
  orderQueue: string,
  address: string,
  isVerbatim: 0 | 1,
];
export type OutboxRow = readonly [
  token: number,
  reason: number,
  predictedGBs?: number | null,
  bandwidth?: BandwidthRow,
];
type BandwidthRow = readonly [
  method: number,
  predictedGbs: number | null,
  bestGbs: number | null,
  compactGbs: number | null,
  /** Indices of texts. */
  model: number | null,
  fallback: number | null,
];
export type ReasonRow = readonly [
  code: number,
  /** With `MARK` for the job's id; 1 when the text is as it is. */
  message: string,
  isVerbatim: 0 | 1,
  numbers: PendingReason["numbers"],
  holders: readonly JobId[],
  wakeOn: PendingReason["wakeOn"],
];

/** Stands for the job's id in messages, so that equal situations of two jobs are one entry, and for epochs in queue names. */
export const MARK = "\u007f";
const NO_AGENT = -1;
const DRAINED = 1;
const FENCED = 2;

const SAME_AS_JOB = -1;

/** The tables while they grow. */
export interface Shared {
  readonly hosts: Interner<HostId>;
  readonly texts: Interner<string>;
  readonly profiles: Interner<Profile>;
  readonly agents: Interner<AgentRow>;
  readonly reasons: Interner<ReasonRow>;
}

export const newShared = (hosts: readonly HostId[]): Shared => ({
  hosts: interner<HostId>((host) => host, hosts),
  texts: interner<string>((text) => text),
  profiles: interner(profileKey),
  agents: interner<AgentRow>((agent) => JSON.stringify(agent)),
  reasons: interner(reasonKey),
});

/** The table holds whole requests while it grows. */
export function profileOf(request: Profile): Profile {
  const { tenant, class: jobClass, priority, gang, constraints } = request;
  const { timeLimitMs, preemption, checkpoint } = request;
  const profile = { tenant, class: jobClass, priority, gang, constraints };
  return {
    ...profile,
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(preemption !== undefined && { preemption }),
    ...(checkpoint !== undefined && { checkpoint }),
  };
}

/** Equal for equal profiles only. */
export const profileKey = (profile: Profile): string =>
  `${formerProfileKey(profile)}${askedKey(profile)}`;

/** The same for profiles that differ only in what they ask of hosts, or train: as sizes were counted before `ASKED_SIZE_RULES`. */
export const formerProfileKey = (profile: Profile): string =>
  `${ownerKey(profile)} ${profile.gang.timeoutMs} ${formerGangKey(profile)}`;

export const ownerKey = ({
  tenant,
  class: jobClass,
  priority,
}: Pick<Profile, "tenant" | "class" | "priority">): string => `${tenant} ${jobClass} ${priority}`;

type Terms = Omit<Profile, "tenant" | "class" | "priority">;

/** Of the rest, but for the timeout. */
export const gangKey = (terms: Terms): string => `${formerGangKey(terms)}${askedKey(terms)}`;

const askedKey = ({ constraints: { resources, training } }: Pick<Terms, "constraints">): string =>
  resources === undefined && training === undefined ? "" : JSON.stringify([resources, training]);

/** Without what is asked of hosts, or trained. Most fields are numbers or absent, so this is far cheaper than JSON of the whole. */
export function formerGangKey({
  gang,
  constraints,
  timeLimitMs,
  preemption,
  checkpoint,
}: Terms): string {
  const { gpus, min, shapes, mayGrow } = gang;
  const { jurisdictions, clusters, gpuTypes, gpuMemoryGiB, maxClusters, isSameHost, isSameFabric } =
    constraints;
  const { antiAffinity, hosts, prefer, messages } = constraints;
  const rule =
    preemption === undefined
      ? ""
      : `${preemption.isPreemptible} ${preemption.mayShrink} ${preemption.minRuntimeMs}`;
  const grace = checkpoint === undefined ? "" : `${checkpoint.graceMs} ${checkpoint.intervalMs}`;
  const lists = shapes ?? jurisdictions ?? clusters ?? hosts ?? gpuTypes ?? antiAffinity;
  const rest =
    lists === undefined
      ? ""
      : JSON.stringify([shapes, jurisdictions, clusters, hosts, gpuTypes, antiAffinity]);
  return `${timeLimitMs} ${gpus} ${min} ${mayGrow} ${gpuMemoryGiB} ${maxClusters} ${isSameHost} ${isSameFabric} ${prefer} ${messages === undefined ? "" : `${messages.collective} ${messages.bytes} `}${rule}/${grace}/${rest}`;
}

/** Ids and codes have no white space, so the parts cannot run into each other. */
export const reasonKey = ([code, text, isVerbatim, numbers, holders, wakeOn]: ReasonRow): string =>
  `${code} ${isVerbatim} ${holders.join(" ")} ${wakeOn.join(",")} ${JSON.stringify(numbers)} ${text}`;

export function packRequest(
  request: PendingRequest,
  former: PendingRequest | undefined,
  shared: Shared,
): RequestRow {
  const { jobId: job, name, avoidHosts, slots, patienceMs, round = 0, enteredAtMs } = request;
  const row = [
    job,
    shortId(request.runId),
    request.seq,
    name === job ? SAME_AS_JOB : shared.texts.indexOf(name),
    shared.profiles.indexOf(request),
    since(request.submittedAtMs, former?.submittedAtMs),
    since(request.requestedAtMs, request.submittedAtMs),
    request.arrival - (former?.arrival ?? 0),
  ] as const;
  const avoided = avoidHosts?.map(shared.hosts.indexOf);
  const rest = [avoided ?? null, slots ?? null, patienceMs ?? null] as const;
  if (enteredAtMs !== undefined)
    return [...row, ...rest, round, since(enteredAtMs, request.requestedAtMs)];
  if (round > 0) return [...row, ...rest, round];
  if (patienceMs !== undefined) return [...row, avoided ?? null, slots ?? null, patienceMs];
  if (slots !== undefined) return [...row, avoided ?? null, slots];
  return avoided === undefined ? row : [...row, avoided];
}

export function unpackRequest(
  [job, run, seq, name, profile, submitted, requested, arrival, ...rest]: RequestRow,
  former: PendingRequest | undefined,
  names: Tables,
): PendingRequest {
  const [avoidHosts, slots, patienceMs, round = 0, entered] = rest;
  const submittedAtMs = at(submitted, former?.submittedAtMs);
  const requestedAtMs = at(requested, submittedAtMs);
  return {
    jobId: jobId(job),
    runId: runId(longId(run)),
    seq,
    name: name === SAME_AS_JOB ? job : entry(names.texts, name),
    ...entry(names.profiles, profile),
    submittedAtMs,
    requestedAtMs,
    ...(isThere(avoidHosts) && {
      avoidHosts: avoidHosts.map((host) => entry(names.hosts, host)),
    }),
    ...(isThere(slots) && { slots }),
    ...(isThere(patienceMs) && { patienceMs: ms(patienceMs) }),
    ...(round > 0 && { round }),
    ...(entered !== undefined && { enteredAtMs: at(entered, requestedAtMs) }),
    arrival: (former?.arrival ?? 0) + arrival,
  };
}

export function packHost(
  host: HostId,
  {
    agent,
    isDrained,
    drainReason,
    fenceMs,
    silentSinceMs,
    isFenced,
    fencedAtMs,
    lastEpoch,
    toldAtMs,
    gpuDrains,
  }: HostStatus,
  shared: Shared,
): HostRow {
  const row = [
    shared.hosts.indexOf(host),
    agent === undefined ? NO_AGENT : shared.agents.indexOf(packAgent(agent)),
    (isDrained ? DRAINED : 0) + (isFenced === true ? FENCED : 0),
  ] as const;
  const sinceMs = isFenced === true ? fencedAtMs : silentSinceMs;
  const rest = [drainReason ?? null, fenceMs ?? null, sinceMs ?? null] as const;
  if (gpuDrains !== undefined) {
    const drains = gpuDrains.map(({ mask, reason, sinceMs: at }) => [mask, reason, at] as const);
    return [...row, ...rest, lastEpoch ?? null, toldAtMs ?? null, drains];
  }
  if (toldAtMs !== undefined) return [...row, ...rest, lastEpoch ?? null, toldAtMs];
  if (lastEpoch !== undefined) return [...row, ...rest, lastEpoch];
  if (sinceMs !== undefined) return [...row, ...rest];
  if (fenceMs !== undefined) return [...row, rest[0], rest[1]];
  return drainReason === undefined ? row : [...row, drainReason];
}

export function unpackHost(
  [host, agent, flags, drainReason, fenceMs, sinceMs, lastEpoch, toldAtMs, drains]: HostRow,
  names: Tables,
): readonly [HostId, HostStatus] {
  const isFenced = (flags & FENCED) !== 0;
  return [
    entry(names.hosts, host),
    keptStatus({
      isDrained: (flags & DRAINED) !== 0,
      ...(agent !== NO_AGENT && { agent: unpackAgent(entry(names.agents, agent)) }),
      ...(isThere(drainReason) && { drainReason }),
      ...(isThere(fenceMs) && { fenceMs }),
      ...(isThere(sinceMs) && !isFenced && { silentSinceMs: sinceMs }),
      ...(isFenced && { isFenced }),
      ...(isThere(sinceMs) && isFenced && { fencedAtMs: sinceMs }),
      ...(isThere(lastEpoch) && { lastEpoch }),
      ...(isThere(toldAtMs) && { toldAtMs }),
      ...(drains !== undefined && {
        gpuDrains: drains.map(([mask, reason, at]) => ({ mask, reason, sinceMs: at })),
      }),
    }),
  ];
}

function packAgent({ epoch, runQueue, orderQueue, address }: AgentAddress): AgentRow {
  const short = shortId(epoch);
  const isVerbatim = runQueue.includes(MARK) || orderQueue.includes(MARK);
  if (isVerbatim) return [short, runQueue, orderQueue, address, 1];
  return [short, runQueue.replaceAll(epoch, MARK), orderQueue.replaceAll(epoch, MARK), address, 0];
}

function unpackAgent([short, runQueue, orderQueue, address, isVerbatim]: AgentRow): AgentAddress {
  const epoch = longId(short);
  const named = (queue: string): string =>
    isVerbatim === 1 ? queue : queue.replaceAll(MARK, () => epoch);
  return { epoch, runQueue: named(runQueue), orderQueue: named(orderQueue), address };
}

export function packGrant(
  lease: Pick<Lease, "token"> | undefined,
  { reason, predictedGBs, bandwidth }: OutboxGrant,
  shared: Shared,
): OutboxRow {
  const row = [lease?.token ?? orphan("a grant"), shared.texts.indexOf(reason)] as const;
  if (bandwidth !== undefined)
    return [...row, predictedGBs ?? null, packBandwidth(bandwidth, shared)];
  return predictedGBs === undefined ? row : [...row, predictedGBs];
}

const PICK_METHODS = ["searched", "compact"] as const;

function packBandwidth(note: BandwidthNote, { texts }: Shared): BandwidthRow {
  const { method, predictedGbs, bestGbs, compactGbs, model, fallback } = note;
  return [
    PICK_METHODS.indexOf(method),
    predictedGbs ?? null,
    bestGbs ?? null,
    compactGbs ?? null,
    model === undefined ? null : texts.indexOf(model),
    fallback === undefined ? null : texts.indexOf(fallback),
  ];
}

function unpackBandwidth(
  [method, predictedGbs, bestGbs, compactGbs, model, fallback]: BandwidthRow,
  { texts }: Tables,
): BandwidthNote {
  return {
    ...(predictedGbs !== null && { predictedGbs }),
    ...(bestGbs !== null && { bestGbs }),
    ...(compactGbs !== null && { compactGbs }),
    ...(model !== null && { model: entry(texts, model) }),
    method: entry(PICK_METHODS, method),
    ...(fallback !== null && { fallback: entry(texts, fallback) }),
  };
}

export function unpackGrant(
  [tokens, reason, predictedGBs, bandwidth]: OutboxRow,
  names: Tables,
): readonly [Lease["id"], OutboxGrant] {
  return [
    leaseId(token(tokens)),
    {
      ...(isThere(predictedGBs) && { predictedGBs }),
      ...(isThere(bandwidth) && { bandwidth: unpackBandwidth(bandwidth, names) }),
      reason: entry(names.texts, reason),
    },
  ];
}
