/**
 * @file Decides when a version of a policy takes effect: by a unanimous vote in the job's own collective, at a call that no rank has made yet.
 *
 * Files alone cannot bring ranks to agree: whatever the last file of a protocol is, one rank may see it late, and acting without it is acting
 * alone (the two generals). A collective can, because it ends on all ranks with one result or on none. So every rank starts on AUTO, and at
 * the end of a step the ranks reduce one small vector: the version and checksum of each rank's complete file, and its number of calls. The
 * policy changes only when all ranks hold the very same file, for all of them from the same call on; otherwise all keep their policy. A rank
 * whose file is late, torn, missing or old therefore prevents the switch and can never switch alone.
 *
 * The reduction is a maximum over `ballotOf`, so one all-reduce of four numbers decides. Cost: O(1) a rank.
 * Not reached by the product yet: used by tests. The plugin carries the same vote in C (docs/decisions/0037).
 */

export interface Held {
  readonly version: number;
  readonly checksum: number;
  /** The policy's own earliest call. */
  readonly fromCall: number;
}

/** What a rank puts into the reduction; all entries are non-negative or their opposites, and whole. */
export type Ballot = readonly [
  name: number,
  notName: number,
  readyAtCall: number,
  notVersion: number,
];

/** 2^21 versions of 32-bit checksums are whole numbers that a double holds; above, versions wrap and the checksum still tells them apart. */
const VERSIONS = 2 ** 21;

/** Undefined `held`: no whole policy file. Such a vote equals no other, not even one of its kind with a policy. */
export function ballotOf(held: Held | undefined, callsMade: number): Ballot {
  const name = held === undefined ? 0 : (held.version % VERSIONS) * 2 ** 32 + held.checksum;
  const version = held?.version ?? 0;
  return [name, -name, Math.max(callsMade, held?.fromCall ?? 0), -version];
}

/** The all-reduce: entry by entry the largest. */
export const reduceBallots = (a: Ballot, b: Ballot): Ballot => [
  Math.max(a[0], b[0]),
  Math.max(a[1], b[1]),
  Math.max(a[2], b[2]),
  Math.max(a[3], b[3]),
];

export type Verdict =
  | { readonly kind: "switch"; readonly version: number; readonly atCall: number }
  | { readonly kind: "keep" };

/** The same on every rank, being a function of the reduced ballot only. */
export function verdictOf([name, notName, readyAtCall, notVersion]: Ballot): Verdict {
  const isUnanimous = name === -notName && name > 0 && notVersion < 0;
  return isUnanimous
    ? { kind: "switch", version: -notVersion, atCall: readyAtCall }
    : { kind: "keep" };
}
