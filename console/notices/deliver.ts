/**
 * @file Delivers the notices of the outbox: to each target one after the other, the oldest first, the targets apart from each other. A notice may
 * arrive twice, when the console dies between sending and noting; its id tells.
 *
 * Consoles that share the database each claim a notice before they send it, so one of them does. A claim ends by itself: what a console that died had
 * claimed goes to the next one.
 *
 * What fails is tried again, ever later, for a day. A target that fails or is slow holds up no other.
 */

import type { DueNotice, HistoryDatabase, SentNotice } from "../history/database.ts";
import { OLDEST_MS } from "./outbox.ts";

const AT_ONCE = 20;
const FIRST_AGAIN_MS = 5_000;
const LATEST_AGAIN_MS = 3_600_000;
const MOST_DOUBLINGS = 10;
/** Longer than any target may take. */
const CLAIMED_MS = 60_000;

export interface Recipient {
  readonly name: string;
  /** What may be said of it, where the name may not. */
  readonly shownAs?: string;
}

export interface DeliveryParts<To extends Recipient> {
  readonly database: Pick<HistoryDatabase, "dueNotices" | "claimNotice" | "noteSent">;
  readonly send: (to: To, row: DueNotice, nowMs: number) => Promise<void>;
  readonly nowMs: () => number;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

export interface Delivery<To extends Recipient> {
  /** Whatever is due, to those to whom nothing is on its way. Fails with the trouble of the database. */
  readonly round: (targets: readonly To[]) => Promise<void>;
}

export function createDelivery<To extends Recipient>({
  database,
  send,
  nowMs,
  signal,
  say,
}: DeliveryParts<To>): Delivery<To> {
  const busy = new Set<string>();
  /** What the database could not note, by target; before it has, nothing more goes there, or it would go again and again. */
  const unnoted = new Map<string, SentNotice>();

  return {
    async round(targets) {
      await Promise.all(
        targets.map(async (target) => {
          if (busy.has(target.name)) return;
          busy.add(target.name);
          try {
            await serve(target);
          } finally {
            busy.delete(target.name);
          }
        }),
      );
    },
  };

  async function serve(target: To): Promise<void> {
    const { name } = target;
    const former = unnoted.get(name);
    if (former !== undefined) note(former);
    for (const row of database.dueNotices(name, { nowMs: nowMs(), most: AT_ONCE })) {
      if (signal.aborted) return;
      const { id, tries } = row;
      const claim = { id, target: name, nowMs: nowMs(), untilMs: nowMs() + CLAIMED_MS };
      if (!database.claimNotice(claim)) continue;
      const outcome = await attempt(target, row);
      if (outcome === undefined) return database.noteSent({ id, target: name, tries });
      note(outcome);
      // The next one waits for the next round: what is the target's trouble would be met again.
      if (outcome.isFailed) return;
    }
  }

  function note(sent: SentNotice): void {
    const { id, target, tries, doneMs, notBeforeMs } = sent;
    unnoted.set(target, sent);
    database.noteSent({
      ...{ id, target, tries },
      ...(doneMs !== undefined && { doneMs }),
      ...(notBeforeMs !== undefined && { notBeforeMs }),
    });
    unnoted.delete(target);
  }

  /** Undefined where the console ends; the next one sends it. */
  async function attempt(
    target: To,
    row: DueNotice,
  ): Promise<(SentNotice & { readonly isFailed: boolean }) | undefined> {
    const { id, tries, atMs } = row;
    const base = { id, target: target.name, tries: tries + 1 };
    try {
      await send(target, row, nowMs());
      return { ...base, doneMs: nowMs(), isFailed: false };
    } catch (error) {
      if (signal.aborted) return undefined;
      const why = error instanceof Error ? error.message : String(error);
      const isLate = nowMs() - atMs > OLDEST_MS;
      const ends = isLate ? "it is given up" : "it is tried again";
      if (tries === 0 || isLate)
        say(`console: ${target.shownAs ?? target.name} was not told of ${id}: ${why}; ${ends}`);
      const waitMs = FIRST_AGAIN_MS * 2 ** Math.min(tries, MOST_DOUBLINGS);
      return {
        ...base,
        ...(isLate
          ? { doneMs: nowMs() }
          : { notBeforeMs: nowMs() + Math.min(LATEST_AGAIN_MS, waitMs) }),
        isFailed: true,
      };
    }
  }
}
