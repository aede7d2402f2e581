/**
 * @file Which requests may take bytes that others could need, and how many may be called in. From `BOUNDED_RULES` on.
 *
 * A newcomer, called in or not, comes in if the fleet has room for it (transaction-size.ts) and its share has guaranteed bytes left, or the
 * room behind it holds all that is guaranteed to other shares (rules/byte-shares.ts). So a share goes beyond its guaranteed bytes by one
 * request at most while others need theirs, however large that request is, and a job that is called in on the strength of them is not refused.
 * Where the fleet file names nobody there is one share, and nothing is withheld.
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
import { MAX_CREDITS_AT_ONCE } from "../rules/credits.ts";
import { mostRequestBytes, requestRoom } from "./transaction-size.ts";
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

const sharesIn = (transaction: LedgerTransaction): ByteShares =>
  (transaction.byteShares ??= openByteShares(
    transaction.shape,
    mostRequestBytes(transaction),
    transaction.requests.values(),
  ));

/** Whether a newcomer of the tenant that leaves so much room leaves the others their shares. `isFew`: few of its requests are inside. */
export function leavesShares(
  transaction: LedgerTransaction,
  tenant: TenantId,
  { roomBytes, isFew }: { readonly roomBytes: number; readonly isFew: boolean },
): boolean {
  const leftBytes = isFew ? roomBytes : roomBytes - smallBytes(transaction);
  if (leftBytes >= 0 && isRoomForAll(transaction, leftBytes)) return true;
  const shares = sharesIn(transaction);
  return (
    unusedBytes(shares, tenant) > 0 ||
    leftBytes >= withheldFrom(shares, tenant) + besideBytes(transaction)
  );
}

const smallBytes = (transaction: LedgerTransaction): number =>
  transaction.size === undefined
    ? 0
    : Math.min(SMALL_BYTES, Math.floor(SMALL_PART * mostRequestBytes(transaction)));

/** No share has to be known. */
const isRoomForAll = (transaction: LedgerTransaction, roomBytes: number): boolean =>
  transaction.size === undefined ||
  transaction.shape.tenants.length === 0 ||
  roomBytes >= GUARANTEED_BYTES * mostRequestBytes(transaction) + mostBeside(transaction);

const mostBeside = (transaction: LedgerTransaction): number =>
  Math.min(MOST_BESIDE_BYTES, Math.floor(MOST_BESIDE * mostRequestBytes(transaction)));

/** What has grown already has its room. */
const besideBytes = (transaction: LedgerTransaction): number =>
  Math.max(
    0,
    mostBeside(transaction) - (transaction.size?.sections.intake ?? 0) - transaction.grownBytes,
  );

/**
 * How many requests each lobby's share may have called in, by share; a share that is absent, any number. Undefined when there is no room for
 * any. Whatever they ask for, one of them comes in, so that jobs are not called in and refused over and over.
 */
export function callsIn(
  transaction: LedgerTransaction,
  lobbies: ReadonlyMap<TenantId, LobbyAccount>,
): Map<TenantId, number> | undefined {
  const { size } = transaction;
  const calls = new Map<TenantId, number>();
  if (size === undefined) return calls;
  const room = requestRoom(transaction, size) - smallBytes(transaction);
  const manyBytes = MAX_CREDITS_AT_ONCE * CALL_BYTES;
  if (isRoomForAll(transaction, room - manyBytes)) return room >= manyBytes ? calls : undefined;
  if (room < MAX_REQUEST_ENTRY_BYTES) return undefined;
  const shares = sharesIn(transaction);
  const beside = besideBytes(transaction);
  for (const [tenant, { credits }] of lobbies) {
    if (room - manyBytes >= withheldFrom(shares, tenant) + beside) continue;
    const share = shareFor(shares, tenant);
    const most = calls.get(share) ?? unusedCount(shares, share, CALL_BYTES);
    calls.set(share, most - credits.size);
  }
  return calls;
}
