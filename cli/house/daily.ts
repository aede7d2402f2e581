/**
 * @file Collection by itself: once a day what `house --collect --yes` would do, beside a console. The first time is some minutes after it has started, so that a
 * fleet for a moment is left alone; the note of the last collection has the clock, so a console that starts again does not begin anew.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { CommandContext } from "../command/command-context.ts";
import type { Session } from "../command/session.ts";
import { isAtWork, oneAtATime } from "../up/one-at-a-time.ts";
import { counted } from "../terminal/duration.ts";
import { collect, endFormer } from "./collect.ts";
import { returnedText, sizeText } from "./collection-text.ts";
import { COLLECTED_EVERY_MS, noteCollection, readLastCollection } from "./last-collection.ts";
import { placeIn, readersIn } from "./place.ts";
import { planOf, type HousePlace } from "./plan.ts";

const LOOK_EVERY_MS = 600_000;

/** Until the signal. What goes wrong is said, and tried again at the next look. */
export async function collectDaily(
  context: Pick<CommandContext, "io" | "say">,
  session: Session,
  place: Pick<HousePlace, "fleet" | "stateDir">,
): Promise<void> {
  const { interrupted: signal } = context.io;
  while (!signal.aborted) {
    await sleep(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await collectIfDue(context, session, place);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      context.say(`nothing was collected: ${why}`);
    }
  }
}

/**
 * Nothing where the last collection is younger than a day, or the fleet file says that nobody collects by itself; or where `up`, `down` or another collection
 * is at work: `down` waits for the process that this runs in, so this one must not wait for it.
 */
export async function collectIfDue(
  context: Pick<CommandContext, "io" | "say">,
  session: Session,
  at: Pick<HousePlace, "fleet" | "stateDir">,
): Promise<void> {
  const { stateDir } = at;
  const isDue = (): boolean => {
    const last = readLastCollection(stateDir);
    const ageMs = context.io.nowMs() - (last?.atMs ?? -Infinity);
    // A clock that was set back must not put it off for ever.
    return ageMs < 0 || ageMs >= COLLECTED_EVERY_MS;
  };
  if (!isDue() || isAtWork(stateDir)) return;
  await oneAtATime(context, stateDir, async () => {
    // Another one may have collected just now, or `up` brought another file.
    if (isDue()) await collectNow(context, session, at);
  });
}

async function collectNow(
  { io, say }: Pick<CommandContext, "io" | "say">,
  session: Session,
  { fleet, stateDir }: Pick<HousePlace, "fleet" | "stateDir">,
): Promise<void> {
  const place = await placeIn(io, { fleet, stateDir, file: undefined });
  // The defaults are no rules for a folder whose own nobody knows.
  if (place.state === undefined || place.rules.isByHand === true) return;
  const asked = await readersIn(session, place, io.interrupted);
  const { failed } = endFormer(stateDir);
  const plan = await planOf(place, asked);
  const collected = await collect(plan, place, { asked });
  noteCollection(place, { ...collected, failed: [...failed, ...collected.failed] }, true);
  if (collected.things > 0)
    say(`collected ${counted(collected.things, "thing")}, ${sizeText(collected.bytes)}`);
  if (collected.returnedBytes > 0) say(`given back: ${returnedText(collected.returnedBytes)}`);
  for (const each of [...failed, ...collected.failed]) say(`not removed: ${each}`);
}
