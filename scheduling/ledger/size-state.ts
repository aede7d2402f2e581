/**
 * @file The account of a ledger's size in bytes (size-account.ts), as it is kept from event to event, and the empty one.
 *
 * Cost: O(description). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import {
  packGang,
  packOwner,
  packProfile,
  type GangTerms,
  type Owner,
  type SharedList,
} from "./codec-compact-rows.ts";
import { hostIdsOf } from "./codec-notes.ts";
import {
  formerGangKey,
  formerProfileKey,
  gangKey,
  ownerKey,
  profileKey,
  reasonKey,
  type AgentRow,
  type Profile,
  type ReasonRow,
  type Shared,
} from "./codec-rows.ts";
import { ASKED_SIZE_RULES } from "./ledger.ts";
import { jsonBytes, keptKeys, sizeTable, type SizeTable } from "./size-table.ts";

/** Bytes of the parts that change row by row. Changes by the functions of this file alone. */
export interface SizeAccount {
  /** Rows with their commas, by part. */
  readonly rows: Record<RowPart, number>;
  /** What leases may add to their rows before they end, which nobody can refuse. */
  growth: number;
  /** How many requests wait, for the digits of their places. */
  requests: number;
  readonly tables: SizeTables;
  /** What the flows of requests and running leases need once they have been served. */
  readonly flows: SizeTable<string>;
  /** Of the parts that are measured whole, as they were last measured. */
  readonly sections: Record<SectionName, number>;
  /** The values that were. */
  readonly measured: Map<SectionName, unknown>;
  /** 1 while rows come, -1 while they go. */
  sign: 1 | -1;
}

export type RowPart = "requests" | "reasons" | "leases" | "hosts" | "outbox" | "reservations";

/** Parts of the compact form that refer to no table. */
export type SectionName =
  | "shape"
  | "service"
  | "evictions"
  | "runs"
  | "ownEstimates"
  | "latencyDemand"
  | "models"
  | "links"
  | "intake"
  | "recovery"
  | "repairs"
  | "holds"
  | "deadLetters";

export interface SizeTables extends Shared {
  readonly hosts: SizeTable<HostId>;
  readonly texts: SizeTable<string>;
  readonly lists: SizeTable<SharedList>;
  readonly profiles: SizeTable<Profile>;
  readonly owners: SizeTable<Owner>;
  readonly gangs: SizeTable<GangTerms>;
  readonly agents: SizeTable<AgentRow>;
  readonly reasons: SizeTable<ReasonRow>;
}

/** Keys that may be long. Values are requests, leases, and what they hold: none is ever changed in place. */
const LISTS = keptKeys<SharedList>((list) => JSON.stringify(list));
const PROFILES = keptKeys(profileKey);
const FORMER_PROFILES = keptKeys(formerProfileKey);
const GANGS = keptKeys<GangTerms>(gangKey);
const FORMER_GANGS = keptKeys<GangTerms>(formerGangKey);

/** Under the rules of this version. */
export function emptyAccount(shape: FleetShape, applyVersion: number): SizeAccount {
  const isAskedCounted = applyVersion >= ASKED_SIZE_RULES;
  const signOf = (): 1 | -1 => account.sign;
  const plain = { rowOf: (value: unknown) => value, signOf };
  const tables: SizeTables = {
    hosts: sizeTable<HostId>({
      ...plain,
      keyOf: (host) => host,
      known: new Set(hostIdsOf(shape)),
    }),
    texts: sizeTable<string>({ ...plain, keyOf: (text) => text }),
    lists: sizeTable<SharedList>({ ...plain, keyOf: LISTS, isKeyWritten: true }),
    agents: sizeTable<AgentRow>({ ...plain, keyOf: JSON.stringify, isKeyWritten: true }),
    reasons: sizeTable<ReasonRow>({ ...plain, keyOf: reasonKey }),
    profiles: sizeTable<Profile>({
      keyOf: isAskedCounted ? PROFILES : FORMER_PROFILES,
      rowOf: (profile) => packProfile(profile, tables),
      signOf,
    }),
    owners: sizeTable<Owner>({
      keyOf: ownerKey,
      rowOf: (owner) => packOwner(owner, tables),
      signOf,
      indexes: "none",
    }),
    gangs: sizeTable<GangTerms>({
      keyOf: isAskedCounted ? GANGS : FORMER_GANGS,
      rowOf: (gang) => packGang(gang, tables),
      signOf,
      indexes: "none",
    }),
  };
  const account: SizeAccount = {
    rows: { requests: 0, reasons: 0, leases: 0, hosts: 0, outbox: 0, reservations: 0 },
    growth: 0,
    requests: 0,
    tables,
    flows: sizeTable<string>({
      ...plain,
      keyOf: (flow) => flow,
      rowOf: flowRow,
      indexes: "none",
    }),
    sections: {
      shape: jsonBytes(shape),
      service: 0,
      evictions: 0,
      runs: 0,
      ownEstimates: 0,
      latencyDemand: 0,
      models: 0,
      links: 0,
      intake: 0,
      recovery: 0,
      repairs: 0,
      holds: 0,
      deadLetters: 0,
    },
    measured: new Map(),
    sign: 1,
  };
  return account;
}

/** With numbers as long as any. */
const flowRow = (flow: string): unknown => [flow, LONGEST_NUMBER, LONGEST_NUMBER];
const LONGEST_NUMBER = -1.2345678901234567e-300;
