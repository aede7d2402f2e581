/**
 * @file Which requests may take bytes that others could need, and how many may be called in. From `BOUNDED_RULES` on.
 *
 * A newcomer, called in or not, comes in if the fleet has room for it (transaction-size.ts) and its share has guaranteed bytes left, or the
 * room behind it holds all that is guaranteed to other shares (rules/byte-shares.ts). So a share goes beyond its guaranteed bytes by one
 * request at most while others need theirs, however large that request is, and a job that is called in on the strength of them is not refused.
 * Where the fleet file names nobody there is one share, and nothing is withheld.
 * The last bytes are for tenants with few requests inside, who are called in on them as well (`FEW_CALLED_RULES`).
 * Cost: O(1) while there is much room; O(requests) the first time that there is little, then O(lobbies) an event and O(1) a request.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { MAX_REQUEST_ENTRY_BYTES } from "../../../domain/lease/gang-request.ts";
import type { TenantId } from "../../../domain/values/ids.ts";
import type { LobbyAccount } from "../intake.ts";
import {
  GUARANTEED_BYTES,
  openByteShares,
  shareFor,
  unusedBytes,
  unusedCount,
  withheldFrom,
  type ByteShares,
} from "../rules/byte-shares.ts";
import { callsUpTo, MAX_CREDITS_AT_ONCE, type Calls } from "../rules/credits.ts";
import { areFewCalled } from "../ledger.ts";
import type { SizeAccount } from "../size-state.ts";
import { marginRows, mostRequestBytes, requestRoom } from "./transaction-size.ts";
import type { LedgerTransaction } from "./transaction.ts";

/** Kept beside the shares for what grows although it is no request, as rows of lobbies; of little room a part at most. */
const MOST_BESIDE_BYTES = 112 * 1_024;
const MOST_BESIDE = 0.25;
/** The last that requests may take, for the first few of tenants that have not more inside. */
const SMALL_BYTES = 32 * 1_024;
/** A credit and an ordinary request. */
const CALL_BYTES = 256;
/** Of little room. */
const SMALL_PART = 0.02;
/** The same where tenants with few inside are called in on it: the part that they leave who come uncalled, so that they keep nobody outside. */
const CALLED_SMALL_PART = 0.1;
const UNCALLED_FEW_LEAVE = 0.5;

const sharesIn = (transaction: LedgerTransaction): ByteShares =>
  (transaction.byteShares ??= openByteShares(
    { shape: transaction.shape, applyVersion: transaction.before.applyVersion },
    mostRequestBytes(transaction),
    transaction.requests.values(),
  ));

/** Whether a newcomer that leaves so much room leaves the others their shares. */
export function leavesShares(
  transaction: LedgerTransaction,
  tenant: TenantId,
  { roomBytes, ...newcomer }: Newcomer,
): boolean {
  const leftBytes = roomBytes - leftForFew(transaction, newcomer);
  if (leftBytes >= 0 && isRoomForAll(transaction, leftBytes)) return true;
  const shares = sharesIn(transaction);
  return (
    unusedBytes(shares, tenant) > 0 ||
    leftBytes >= withheldFrom(shares, tenant) + besideBytes(transaction)
  );
}

interface Newcomer {
  readonly roomBytes: number;
  /** Few requests of its tenant are inside. */
  readonly isFew: boolean;
  readonly isCalled: boolean;
}

/** What a newcomer has to leave of the last bytes. */
function leftForFew(
  transaction: LedgerTransaction,
  { isFew, isCalled }: Omit<Newcomer, "roomBytes">,
): number {
  if (!isFew) return smallBytes(transaction);
  const mustLeave = areFewCalled(transaction.before) && !isCalled;
  return mustLeave ? UNCALLED_FEW_LEAVE * smallBytes(transaction) : 0;
}

/** The last bytes, for the first few of tenants that have not more inside. */
export function smallBytes(transaction: LedgerTransaction): number {
  if (transaction.size === undefined) return 0;
  const part = areFewCalled(transaction.before) ? CALLED_SMALL_PART : SMALL_PART;
  return Math.min(SMALL_BYTES, Math.floor(part * mostRequestBytes(transaction)));
}

/** No share has to be known. */
const isRoomForAll = (transaction: LedgerTransaction, roomBytes: number): boolean =>
  transaction.size === undefined ||
  isOneShare(transaction) ||
  roomBytes >= GUARANTEED_BYTES * mostRequestBytes(transaction) + mostBeside(transaction);

const isOneShare = ({ shape }: LedgerTransaction): boolean => shape.tenants.length === 0;

const mostBeside = (transaction: LedgerTransaction): number =>
  Math.min(MOST_BESIDE_BYTES, Math.floor(MOST_BESIDE * mostRequestBytes(transaction)));

/** What has grown already has its room. */
function besideBytes(transaction: LedgerTransaction): number {
  const { size, grownBytes } = transaction;
  const grown =
    size === undefined
      ? grownBytes
      : size.sections.intake + grownBytes - marginRows(transaction, size);
  return Math.max(0, mostBeside(transaction) - grown);
}

/**
 * Of which shares further requests may be called in; undefined when there is no room for any. Whatever they ask for, one of them comes in (but
 * for large ones of few in a fleet that has less than 160 KiB for requests), so that jobs are not called in and refused over and over.
 */
export function callsIn(
  transaction: LedgerTransaction,
  lobbies: ReadonlyMap<TenantId, LobbyAccount>,
): Calls | undefined {
  const { size } = transaction;
  if (size === undefined) return callsUpTo(new Map());
  return areFewCalled(transaction.before)
    ? callsOnBytes(transaction, size, lobbies)
    : formerCalls(transaction, size, lobbies);
}

/** A credit may be out for each of so many bytes that the share may take; those of tenants with few inside may use what is kept for them. */
function callsOnBytes(
  transaction: LedgerTransaction,
  size: SizeAccount,
  lobbies: ReadonlyMap<TenantId, LobbyAccount>,
): Calls {
  const roomBytes = requestRoom(transaction, size);
  const smallForAll = smallBytes(transaction);
  const outCount = [...lobbies.values()].reduce((sum, { credits }) => sum + credits.size, 0);
  let leftBytes = roomBytes - outCount * CALL_BYTES;
  const manyBytes = MAX_CREDITS_AT_ONCE * CALL_BYTES + MAX_REQUEST_ENTRY_BYTES;
  const manyLeave = leftBytes - smallForAll - manyBytes;
  if (manyLeave >= 0 && isRoomForAll(transaction, manyLeave)) return callsUpTo(new Map());
  const shares = sharesIn(transaction);
  const own = new Map<TenantId, number>();
  for (const [tenant, { credits }] of roomBytes < MAX_REQUEST_ENTRY_BYTES ? [] : lobbies) {
    const share = shareFor(shares, tenant);
    const most = own.get(share) ?? unusedCount(shares, share, CALL_BYTES);
    own.set(share, most - credits.size);
  }
  const beside = isOneShare(transaction) ? 0 : besideBytes(transaction);
  const leastForFew = Math.min(MAX_REQUEST_ENTRY_BYTES, UNCALLED_FEW_LEAVE * smallForAll);
  return {
    isOpen(share, isFew) {
      if ((own.get(share) ?? 0) > 0) return true;
      const openBytes = leftBytes - withheldFrom(shares, share) - beside;
      return isFew ? openBytes >= leastForFew : openBytes - smallForAll >= MAX_REQUEST_ENTRY_BYTES;
    },
    note(share) {
      leftBytes -= CALL_BYTES;
      own.set(share, (own.get(share) ?? 0) - 1);
    },
  };
}

/** Before `FEW_CALLED_RULES`: nobody, or as many as one event calls; of a share that lives on its guaranteed bytes, as many as these hold. */
function formerCalls(
  transaction: LedgerTransaction,
  size: SizeAccount,
  lobbies: ReadonlyMap<TenantId, LobbyAccount>,
): Calls | undefined {
  const room = requestRoom(transaction, size) - smallBytes(transaction);
  const manyBytes = MAX_CREDITS_AT_ONCE * CALL_BYTES;
  const calls = new Map<TenantId, number>();
  if (isRoomForAll(transaction, room - manyBytes))
    return room >= manyBytes ? callsUpTo(calls) : undefined;
  if (room < MAX_REQUEST_ENTRY_BYTES) return undefined;
  const shares = sharesIn(transaction);
  const beside = besideBytes(transaction);
  for (const [tenant, { credits }] of lobbies) {
    if (room - manyBytes >= withheldFrom(shares, tenant) + beside) continue;
    const share = shareFor(shares, tenant);
    const most = calls.get(share) ?? unusedCount(shares, share, CALL_BYTES);
    calls.set(share, most - credits.size);
  }
  return callsUpTo(calls);
}
