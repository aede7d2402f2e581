/**
 * @file Turns free places into credits for lobbies, by deficit round robin over the weights of their tenants.
 *
 * The lobbies stand in a ring. The first one that waits, and for which there is room, is due  weight / greatest weight among such lobbies
 * of a credit more. When it is due a whole one it gets it; the rest is kept for its next turn, and it goes to the end of the ring. A lobby without room or without a waiting job keeps its place in the ring and is passed over, so what it is due does not
 * grow (M. Shreedhar, G. Varghese: Efficient fair queuing using deficit round robin, SIGCOMM 1995). Between two lobbies that wait with room
 * all the time, credits divided by weight differ by one quantum at most.
 * A lobby has a bounded number of credits out, so one whose jobs are slow to come does not keep the others waiting.
 * Cost: O(lobbies) a credit. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { JOB_CLASSES, type JobClass } from "../../../domain/job/job.ts";
import type { TenantId } from "../../../domain/values/ids.ts";
import type { LobbyAccount } from "../intake.ts";
import type { OpenIntake } from "./open-intake.ts";
import { isSmall, levelFor, shareOf, sumOf, take, type Pool } from "./places.ts";

/** Credits that are out, of all lobbies together; each lobby may have at least one. */
const MAX_CREDITS = 2_000;
const MAX_CREDITS_OF_LOBBY = 200;
/** Credits that one event gives; the next one goes on. */
export const MAX_CREDITS_AT_ONCE = 256;

interface CreditTerms {
  readonly weightOf: (tenant: TenantId) => number;
  readonly nowMs: number;
  readonly calls: Calls;
}

/** For how many further requests there are bytes. */
export interface Calls {
  /** Whether there are for one of the share; `isFew`: of a tenant that has few inside. */
  readonly isOpen: (share: TenantId, isFew: boolean) => boolean;
  /** One of the share is called in. */
  readonly note: (share: TenantId) => void;
}

/** So many of each share; of one that is absent, any number. Counts down. */
export const callsUpTo = (most: Map<TenantId, number>): Calls => ({
  isOpen: (share) => (most.get(share) ?? 1) > 0,
  note(share) {
    const left = most.get(share);
    if (left !== undefined) most.set(share, left - 1);
  },
});

/** Gives what can be given; the pool counts each credit as taken. Says whether it gave any. */
export function giveCredits(
  intake: OpenIntake,
  pool: Pool,
  { weightOf, nowMs, calls }: CreditTerms,
): boolean {
  let given = 0;
  while (given < MAX_CREDITS_AT_ONCE) {
    const ready = readyLobbies(intake, pool, calls);
    const [first] = ready;
    if (first === undefined) break;
    const greatest = ready.reduce((most, tenant) => Math.max(most, weightOf(tenant)), 0);
    const account = lobbyIn(intake, first);
    const due = account.deficit + weightOf(first) / greatest;
    if (due < 1) {
      toEnd(intake, first, { ...account, deficit: due });
      continue;
    }
    const next = withCredit(intake, pool, { tenant: first, account, nowMs });
    given += 1;
    calls.note(shareOf(pool, first));
    toEnd(intake, first, { ...next, deficit: sumOf(next.waiting) === 0 ? 0 : due - 1 });
  }
  return given > 0;
}

/** Those for which there is room, in the order of the ring. */
function readyLobbies({ lobbies }: OpenIntake, pool: Pool, calls: Calls): readonly TenantId[] {
  const most = Math.max(
    1,
    Math.min(MAX_CREDITS_OF_LOBBY, Math.floor(MAX_CREDITS / Math.max(1, lobbies.size))),
  );
  return [...lobbies].flatMap(([tenant, account]) =>
    account.credits.size < most &&
    calls.isOpen(shareOf(pool, tenant), isSmall(pool, tenant)) &&
    classFor(pool, tenant, account) !== undefined
      ? [tenant]
      : [],
  );
}

/** The waiting class with room for one more: one with a place of its own first, then the one that has the fewest places. */
function classFor(pool: Pool, tenant: TenantId, { waiting }: LobbyAccount): JobClass | undefined {
  const used = pool.used.get(shareOf(pool, tenant));
  let best: { readonly name: JobClass; readonly rank: number } | undefined;
  for (const name of JOB_CLASSES) {
    if (waiting[name] === 0) continue;
    const level = levelFor(pool, { tenant, class: name }, 1);
    if (level === undefined) continue;
    const rank = level === "class" ? -1 : (used?.[name] ?? 0);
    if (best === undefined || rank < best.rank) best = { name, rank };
  }
  return best?.name;
}

function withCredit(
  intake: OpenIntake,
  pool: Pool,
  {
    tenant,
    account,
    nowMs,
  }: { readonly tenant: TenantId; readonly account: LobbyAccount; readonly nowMs: number },
): LobbyAccount {
  const name = classFor(pool, tenant, account);
  if (name === undefined) return account;
  const number = intake.nextCredit;
  intake.nextCredit += 1;
  take(pool, { tenant, class: name }, 1);
  const { first } = account;
  const next = first?.[name];
  return {
    ...account,
    ...(next !== undefined && {
      first: { ...first, [name]: { ...next, count: Math.max(0, next.count - 1) } },
    }),
    waiting: { ...account.waiting, [name]: account.waiting[name] - 1 },
    credits: new Map([
      ...account.credits,
      [number, { class: name, givenAtMs: nowMs, isAnnounced: false }],
    ]),
  };
}

function lobbyIn({ lobbies }: OpenIntake, tenant: TenantId): LobbyAccount {
  const account = lobbies.get(tenant);
  if (account === undefined) throw new RangeError(`the intake knows no lobby of ${tenant}`);
  return account;
}

function toEnd({ lobbies }: OpenIntake, tenant: TenantId, account: LobbyAccount): void {
  lobbies.delete(tenant);
  lobbies.set(tenant, account);
}
