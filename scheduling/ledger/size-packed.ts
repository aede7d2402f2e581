/**
 * @file Counts the requests, reasons and leases of a ledger that was just unpacked, from their rows as they lie.
 *
 * The same as packing and counting them one by one (size-account.ts), but each value that many of them share is looked up once.
 * Cost: O(rows). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { termsOf, type CompactRequestRow } from "./codec-compact-rows.ts";
import { leaseRefs } from "./codec-lease-rows.ts";
import { hostIdsOf } from "./codec-notes.ts";
import type { Origin } from "./codec-origin.ts";
import { entry } from "./codec-values.ts";
import { classFlow, tenantFlow } from "./rules/flow.ts";
import type { SizeAccount } from "./size-state.ts";
import { COMMA, counter, digitsOf, jsonBytes, textBytes } from "./size-table.ts";

/** Places of the leases that it left out: those whose rows refer to more than a tenant, a profile and hosts of the fleet's description. */
export function countPacked(account: SizeAccount, origin: Origin): readonly number[] {
  countRequests(account, origin);
  countReasons(account, origin);
  return countLeases(account, origin);
}

function countRequests(account: SizeAccount, { packed, owners, gangs }: Origin): void {
  const { rows, tables, flows } = account;
  const used = { owners: counter(), gangs: counter(), texts: counter(), lists: counter() };
  for (const row of packed.requests) {
    const [, name = NO_INDEX, more] = row;
    const { owner, gang } = termsOf(row);
    used.owners.note(owner);
    used.gangs.note(gang);
    if (name >= 0) used.texts.note(name);
    const avoided = more?.[AVOIDED_HOSTS] ?? NO_INDEX;
    if (avoided >= 0) used.lists.note(avoided);
    rows.requests += requestBytes(row) + COMMA - moreDigits(name) - moreDigits(avoided);
  }
  account.requests += packed.requests.length;
  used.texts.each(packed.tables.texts, tables.texts.refer);
  used.lists.each(packed.tables.lists, tables.lists.refer);
  used.gangs.each(gangs, tables.gangs.refer);
  used.owners.each(owners, (owner, times) => {
    tables.owners.refer(owner, times);
    flows.refer(classFlow(owner), times);
    flows.refer(tenantFlow(owner), times);
  });
}

/** Place in the last part of a request's row. */
const AVOIDED_HOSTS = 2;
const NO_INDEX = -1;

/** Of an index beyond its first; each counts as one digit in its row. */
const moreDigits = (index: number): number => (index < 0 ? 0 : digitsOf(index) - 1);

/** Most rows have an identity and perhaps a number, so no JSON is written. */
function requestBytes(row: CompactRequestRow): number {
  const [identity, name, more] = row;
  if (more !== undefined) return jsonBytes(row);
  return BRACKETS + textBytes(identity) + (name === undefined ? 0 : COMMA + digitsIn(name));
}

const BRACKETS = 2;

const digitsIn = (value: number): number => String(value).length;

function countReasons({ rows, tables }: SizeAccount, { packed }: Origin): void {
  const used = counter();
  packed.reasons.forEach((index, at) => {
    if (at % 2 === 0) return;
    used.note(index);
    rows.reasons += 1 + COMMA;
  });
  used.each(packed.tables.reasons, tables.reasons.refer);
}

function countLeases(
  account: SizeAccount,
  { packed, profiles, leases }: Origin,
): readonly number[] {
  const { rows, tables, flows } = account;
  const { texts } = packed.tables;
  const hosts = hostIdsOf(packed.shape);
  const used = { texts: counter(), profiles: counter(), hosts: counter() };
  const left: number[] = [];
  packed.leases.forEach((row, place) => {
    const refs = leaseRefs(row, hosts.length);
    if (refs === undefined) {
      left.push(place);
      return;
    }
    const { tenant, profile, gpus } = refs;
    used.texts.note(tenant);
    used.profiles.note(profile);
    flows.refer(classFlow(entry(leases, place)), 1);
    flows.refer(tenantFlow(entry(leases, place)), 1);
    rows.leases += jsonBytes(row) + COMMA - moreDigits(tenant) - moreDigits(profile);
    for (let pair = 0; pair < gpus.length; pair += 2) {
      const host = entry(gpus, pair);
      used.hosts.note(host);
      rows.leases -= moreDigits(host);
    }
    account.growth += leaseGrowth(gpus.length / 2);
  });
  used.texts.each(texts, tables.texts.refer);
  used.profiles.each(profiles, tables.profiles.refer);
  used.hosts.each(hosts, tables.hosts.refer);
  return left;
}

/** A host of the list that a vacating lease waits for, and the rest of such a row: a checkpoint, the delivery of an eviction. */
const VACATING_HOST_BYTES = 6;
const ENDING_BYTES = 32;

/** What a lease over so many hosts may add to its row before it ends. */
export const leaseGrowth = (hosts: number): number => ENDING_BYTES + VACATING_HOST_BYTES * hosts;
