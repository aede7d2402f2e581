/**
 * @file Packs one waiting request as a row of the compact form, and unpacks it. New fields go to the end of a row.
 *
 * A row does not depend on its neighbours, so the size of a ledger is a sum over its rows (size-account.ts). Lists of constraints, shapes and
 * avoided hosts are written once, whatever else differs between their requests; so are a request's owner and its gang. The timeout of a gang
 * stands in the row of its request: it is often its own. Requests of former rules have rows in codec-rows.ts.
 * Cost: O(fields). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { JOB_CLASSES, type Constraints, type Gang } from "../../domain/job/job.ts";
import { jobId, runId, tenantId, type HostId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { ms } from "../../domain/values/units.ts";
import type { Interner } from "../../lib/interner.ts";
import { fixedNumber, fixedText } from "../../lib/packed-number.ts";
import { longId, shortId, uuidFrom } from "../../lib/short-uuid.ts";
import type { Profile } from "./codec-rows.ts";
import { at, entry, isThere, orphan, since, type Packed } from "./codec-values.ts";
import { keptGang, type Writable } from "./kept-shape.ts";

/** What is written once however often it occurs: constraints, shapes of gangs, avoided hosts. */
export type SharedList = Constraints | readonly number[] | readonly HostId[];

export interface CompactTables {
  readonly texts: readonly string[];
  readonly lists: readonly SharedList[];
  /** Of leases. */
  readonly profiles: readonly ProfileRow[];
  readonly owners: readonly OwnerRow[];
  readonly gangs: readonly GangRow[];
}

/** The tables of requests while they grow. */
export interface CompactShared {
  readonly texts: Interner<string>;
  readonly lists: Interner<SharedList>;
  readonly profiles: Interner<Profile>;
  readonly owners: Interner<Owner>;
  readonly gangs: Interner<GangTerms>;
}

export type Owner = Pick<Profile, "tenant" | "class" | "priority">;

/** The rest of a profile; its timeout counts for nothing in the table. */
export type GangTerms = Omit<Profile, keyof Owner>;

/** What many requests have in common. */
export type ProfileRow = readonly [
  tenant: number,
  jobClass: number,
  priority: number,
  gpus: number,
  min: number,
  timeoutMs: number,
  constraints: number,
  timeLimitMs?: number | null,
  preemption?: RuleRow | null,
  checkpoint?: CheckpointRow | null,
  shapes?: number | null,
  mayGrow?: 1 | null,
];

type RuleRow = readonly [isPreemptible: 0 | 1, mayShrink: 0 | 1, minRuntimeMs: number];
type CheckpointRow = readonly [graceMs: number, intervalMs?: number];

export type OwnerRow = readonly [tenant: number, jobClass: number, priority: number];

export type GangRow = readonly [
  gpus: number,
  min: number,
  constraints: number,
  timeLimitMs?: number | null,
  preemption?: RuleRow | null,
  checkpoint?: CheckpointRow | null,
  shapes?: number | null,
  mayGrow?: 1 | null,
];

export type CompactRequestRow = readonly [
  /**
   * Time of submission, arrival, run, owner, gang and its timeout in seconds, each in its width, then the job's id. Where one of them does not
   * fit: `!`, owner, gang and the job's id.
   */
  identity: string,
  ...rest: RestOfRow,
];

/** As fleets wrote them before requests had owners and gangs. */
export type FormerRequestRow = readonly [identity: string, profile: number, ...rest: RestOfRow];

type RestOfRow = readonly [
  /** -1: the job's id; below: as many of its first characters, and one more. */
  name?: number,
  more?: MoreRow,
];

type MoreRow = readonly [
  /** 1 when absent. */
  seq?: number | null,
  requested?: Packed | null,
  avoidHosts?: number | null,
  slots?: number | null,
  patienceMs?: number | null,
  round?: number | null,
  entered?: Packed | null,
  /** Of a row whose identity has not all of them; a former one has its timeout elsewhere. */
  own?: readonly [run: string, submitted: Packed, arrival: number, timeoutMs?: number] | null,
];

const TIME_WIDTH = 7;
const ARRIVAL_WIDTH = 5;
const UUID_WIDTH = 22;
const ARRIVAL_END = TIME_WIDTH + ARRIVAL_WIDTH;
const FIXED_WIDTH = ARRIVAL_END + UUID_WIDTH;
const INDEX_WIDTH = 3;
const TIMEOUT_WIDTH = 4;
const BARE = "!";
const SAME_AS_JOB = -1;

/** A row up to its last field that says something. */
function trimmed<Row extends readonly unknown[]>(row: Row): Row {
  let { length } = row;
  while (length > 0 && !isThere(row[length - 1])) length -= 1;
  return row.slice(0, length) as unknown as Row; // a prefix of its tuple
}

/** Of a lease. */
export function packProfile(profile: Profile, shared: CompactShared): ProfileRow {
  const { tenant, class: jobClass, priority, gang } = profile;
  const [gpus, min, constraints, ...rest] = gangRow(profile, shared);
  return trimmed([
    shared.texts.indexOf(tenant),
    JOB_CLASSES.indexOf(jobClass),
    priority,
    gpus,
    min,
    gang.timeoutMs,
    constraints,
    ...rest,
  ]);
}

export const packGang = (terms: GangTerms, shared: CompactShared): GangRow =>
  trimmed(gangRow(terms, shared));

function gangRow(
  { gang, constraints, timeLimitMs, preemption, checkpoint }: GangTerms,
  { lists }: CompactShared,
): GangRow {
  return [
    gang.gpus,
    gang.min,
    lists.indexOf(constraints),
    timeLimitMs ?? null,
    preemption === undefined
      ? null
      : [preemption.isPreemptible ? 1 : 0, preemption.mayShrink ? 1 : 0, preemption.minRuntimeMs],
    checkpoint === undefined
      ? null
      : checkpoint.intervalMs === undefined
        ? [checkpoint.graceMs]
        : [checkpoint.graceMs, checkpoint.intervalMs],
    gang.shapes === undefined ? null : lists.indexOf(gang.shapes),
    gang.mayGrow === true ? 1 : null,
  ];
}

export function unpackProfile(
  row: ProfileRow,
  tables: Pick<CompactTables, "texts" | "lists">,
): Profile {
  const [tenant, jobClass, priority, gpus, min, timeoutMs, constraints, ...rest] = row;
  const terms = unpackGang([gpus, min, constraints, ...rest], tables);
  const gang = keptGang(terms.gang, ms(timeoutMs));
  return { ...unpackOwner([tenant, jobClass, priority], tables), ...terms, gang };
}

export const packOwner = (
  { tenant, class: jobClass, priority }: Owner,
  { texts }: CompactShared,
): OwnerRow => [texts.indexOf(tenant), JOB_CLASSES.indexOf(jobClass), priority];

export const unpackOwner = (
  [tenant, jobClass, priority]: OwnerRow,
  { texts }: Pick<CompactTables, "texts">,
): Owner => ({
  tenant: tenantId(entry(texts, tenant)),
  class: entry(JOB_CLASSES, jobClass),
  priority,
});

/** Without its timeout. */
export function unpackGang(row: GangRow, { lists }: Pick<CompactTables, "lists">): GangTerms {
  const [gpus, min, constraints, timeLimitMs, preemption, checkpoint, shapes, mayGrow] = row;
  return {
    gang: {
      gpus,
      min,
      timeoutMs: ms(0),
      ...(isThere(shapes) && { shapes: entry(lists, shapes) as readonly number[] }), // as it was packed
      ...(mayGrow === 1 && { mayGrow: true as const }),
    },
    constraints: entry(lists, constraints) as Constraints, // as it was packed
    ...(isThere(timeLimitMs) && { timeLimitMs: ms(timeLimitMs) }),
    ...(isThere(preemption) && {
      preemption: {
        isPreemptible: preemption[0] === 1,
        mayShrink: preemption[1] === 1,
        minRuntimeMs: ms(preemption[2]),
      },
    }),
    ...(isThere(checkpoint) && {
      checkpoint: {
        graceMs: ms(checkpoint[0]),
        ...(checkpoint[1] !== undefined && { intervalMs: ms(checkpoint[1]) }),
      },
    }),
  };
}

export function packCompactRequest(
  request: PendingRequest,
  shared: CompactShared,
): CompactRequestRow {
  const { jobId: job, seq, avoidHosts, slots, patienceMs, round, enteredAtMs } = request;
  const { submittedAtMs, requestedAtMs } = request;
  const identity = identityOf(request);
  const terms = `${indexText(shared.owners.indexOf(request))}${indexText(shared.gangs.indexOf(request))}`;
  const timeout = timeoutText(request);
  const isWhole = identity !== undefined && timeout !== undefined;
  const more: MoreRow = trimmed([
    seq === 1 ? null : seq,
    requestedAtMs === submittedAtMs ? null : since(requestedAtMs, submittedAtMs),
    avoidHosts === undefined ? null : shared.lists.indexOf(avoidHosts),
    slots ?? null,
    patienceMs ?? null,
    round ?? null,
    enteredAtMs === undefined ? null : since(enteredAtMs, requestedAtMs),
    isWhole
      ? null
      : [shortId(request.runId), since(submittedAtMs), request.arrival, request.gang.timeoutMs],
  ]);
  const name = nameOf(request, shared);
  const begin = isWhole ? `${identity}${terms}${timeout}${job}` : `${BARE}${terms}${job}`;
  if (more.length > 0) return [begin, name, more];
  return name === SAME_AS_JOB ? [begin] : [begin, name];
}

/** Time, arrival and run. */
function identityOf({ submittedAtMs, arrival, runId: run }: PendingRequest): string | undefined {
  const time = fixedText(submittedAtMs, TIME_WIDTH);
  const place = fixedText(arrival, ARRIVAL_WIDTH);
  const short = shortId(run);
  if (time === undefined || place === undefined) return undefined;
  return short.length === UUID_WIDTH + 1 && short.startsWith("~") && !short.startsWith("~~")
    ? `${time}${place}${short.slice(1)}`
    : undefined;
}

/** A ledger never has as many requests as there are texts of this width. */
const indexText = (index: number): string => fixedText(index, INDEX_WIDTH) ?? orphan(`${index}`);

const timeoutText = ({ gang: { timeoutMs } }: PendingRequest): string | undefined =>
  fixedText(timeoutMs / 1_000, TIMEOUT_WIDTH);

/** Where the row of a request refers to. */
type RowTerms = Readonly<Record<"owner" | "gang", number>>;

export function termsOf([identity]: CompactRequestRow): RowTerms {
  const from = termsAt(identity);
  const middle = from + INDEX_WIDTH;
  return {
    owner: fixedNumber(identity, from, middle),
    gang: fixedNumber(identity, middle, middle + INDEX_WIDTH),
  };
}

const termsAt = (identity: string): number =>
  identity.startsWith(BARE) ? BARE.length : FIXED_WIDTH;

/** The row with other indices of its owner, its gang and its name, as far as that has one. */
export function withTerms(
  [identity, , ...more]: CompactRequestRow,
  { owner, gang, name }: RowTerms & { readonly name: number | undefined },
): CompactRequestRow {
  const from = termsAt(identity);
  const moved = `${identity.slice(0, from)}${indexText(owner)}${indexText(gang)}${identity.slice(from + 2 * INDEX_WIDTH)}`;
  return name === undefined ? [moved] : [moved, name, ...more];
}

/** Whether it refers to hosts that it avoids. */
export const isAvoiding = ([, , more]: CompactRequestRow): boolean =>
  isThere(more?.[AVOIDED_HOSTS]);

/** Place in the last part of a row. */
const AVOIDED_HOSTS = 2;

function nameOf({ jobId: job, name }: PendingRequest, { texts }: CompactShared): number {
  if (name === job) return SAME_AS_JOB;
  return name.length > 0 && job.startsWith(name) ? -1 - name.length : texts.indexOf(name);
}

type Lists = Pick<CompactTables, "texts" | "lists">;

export function unpackCompactRequest(
  row: CompactRequestRow,
  tables: Lists & { readonly owners: readonly Owner[]; readonly gangs: readonly GangTerms[] },
): PendingRequest {
  const identity = row[0];
  const own = row[2]?.[OWN];
  const { owner, gang } = termsOf(row);
  const end = (isThere(own) ? BARE.length : FIXED_WIDTH) + 2 * INDEX_WIDTH;
  const timeoutMs = isThere(own)
    ? (own[3] ?? 0)
    : 1_000 * fixedNumber(identity, end, end + TIMEOUT_WIDTH);
  const terms = entry(tables.gangs, gang);
  return unpackRequest(identity, {
    job: identity.slice(isThere(own) ? end : end + TIMEOUT_WIDTH),
    owner: entry(tables.owners, owner),
    terms,
    gang: keptGang(terms.gang, ms(timeoutMs)),
    name: row[1],
    more: row[2],
    tables,
  });
}

export function unpackFormerRequest(
  row: FormerRequestRow,
  tables: Lists & { readonly profiles: readonly Profile[] },
): PendingRequest {
  const [identity, place, name, more] = row;
  const profile = entry(tables.profiles, place);
  return unpackRequest(identity, {
    job: identity.slice(isThere(more?.[OWN]) ? BARE.length : FIXED_WIDTH),
    owner: profile,
    terms: profile,
    gang: profile.gang,
    name,
    more,
    tables,
  });
}

/** Place of `own` in the last part of a row. */
const OWN = 7;

interface UnpackedTerms {
  readonly job: string;
  readonly owner: Owner;
  /** But for its gang. */
  readonly terms: GangTerms;
  readonly gang: Gang;
  readonly name: number | undefined;
  readonly more: MoreRow | undefined;
  readonly tables: Lists;
}

/** Field by field, in the order of `keptRequest`: spreading thousands of small objects into each other costs more than all else. */
function unpackRequest(
  identity: string,
  { job, owner, terms, gang, name = SAME_AS_JOB, more = NOTHING_MORE, tables }: UnpackedTerms,
): PendingRequest {
  const own = more[OWN];
  const isBare = isThere(own);
  const submittedAtMs = isBare ? at(own[1]) : fixedNumber(identity, 0, TIME_WIDTH);
  const requestedAtMs = isThere(more[1]) ? at(more[1], submittedAtMs) : submittedAtMs;
  const run = isBare ? longId(own[0]) : uuidFrom(identity, ARRIVAL_END);
  const { tenant, class: jobClass, priority } = owner;
  const { constraints, timeLimitMs, preemption, checkpoint } = terms;
  const request: Writable<PendingRequest> = {
    jobId: jobId(job),
    runId: runId(run),
    seq: more[0] ?? 1,
    name:
      name === SAME_AS_JOB ? job : name < 0 ? job.slice(0, -1 - name) : entry(tables.texts, name),
    tenant,
    class: jobClass,
    priority,
    gang,
    constraints,
    submittedAtMs,
    requestedAtMs,
    arrival: isBare ? own[2] : fixedNumber(identity, TIME_WIDTH, ARRIVAL_END),
  };
  if (timeLimitMs !== undefined) request.timeLimitMs = timeLimitMs;
  if (preemption !== undefined) request.preemption = preemption;
  if (checkpoint !== undefined) request.checkpoint = checkpoint;
  const [, , avoidHosts, slots, patienceMs, round, entered] = more;
  if (isThere(avoidHosts))
    request.avoidHosts = entry(tables.lists, avoidHosts) as readonly HostId[]; // as it was packed
  if (isThere(slots)) request.slots = slots;
  if (isThere(patienceMs)) request.patienceMs = ms(patienceMs);
  if (isThere(round)) request.round = round;
  if (isThere(entered)) request.enteredAtMs = at(entered, requestedAtMs);
  return request;
}

const NOTHING_MORE: MoreRow = [];
