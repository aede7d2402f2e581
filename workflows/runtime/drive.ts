/**
 * @file Drives a state machine inside a workflow: feeds it signals, answers and time, and has its commands carried out.
 *
 * Everything that happens enters through `feed`, so a replay that sees the same events takes the same steps. The answer to a command is fed when
 * it arrives; a command without an answer gives undefined. A command's failures are answers, so an error of `carryOut` is a bug, or the
 * SDK's way of ending the run; the first one ends `until` with that error.
 * A tick comes when all that arrived together has been fed. `timers.ts` says which timers stand behind it.
 *
 * Words that need proof (`word-gate.ts`) are checked by a local activity when no other one is open. Its end may come together with later news live, and
 * before them on replay (docs/decisions/0014). So what comes meanwhile is fed only when the machine has come to rest after the words, and until then
 * the time stands still. Where a plain activity checks them (`wordsBy`), its end has its own place in history, and nothing is put off. Between two checks a
 * tick that is due comes first, so whoever sends words without a pause does not stop the time.
 */

import { condition } from "@temporalio/workflow";
import { isDue as isDueBy, type Machine, type Tick } from "../../machines/machine.ts";
import type { WordActivities } from "../../protocol/word-proof.ts";
import { createAlarm, createTimers } from "./timers.ts";
import { areWordsWaiting, checkWaiting } from "./word-gate.ts";

export interface Drive<State, Event> {
  readonly state: () => State;
  readonly feed: (event: Event | Tick) => void;
  /** Resolves once the state is as wanted; ticks meanwhile. */
  readonly until: (isReached: (state: State) => boolean) => Promise<State>;
}

export interface Driven<State, Event, Command> {
  readonly machine: Machine<State, Event, Command>;
  readonly state: State;
  /** Starts what the command asks for; resolves with the event that answers it. */
  readonly carryOut: (command: Command) => Promise<Event | undefined> | undefined;
  /** Whether a local activity carries the command out. */
  readonly isLocal?: (command: Command) => boolean;
  /** Called with each state in which the machine rests: it waits for news or for its clock, or the state is as `until` wants it. */
  readonly show?: (state: State) => void;
  /** Checks the words that need proof where no local activity may; what comes meanwhile is then fed at once. */
  readonly wordsBy?: WordActivities;
}

/** `commands`: those that the opening of the state gave. */
export function drive<State, Event, Command>(
  { machine, state: opened, carryOut, isLocal, show, wordsBy }: Driven<State, Event, Command>,
  commands: readonly Command[] = [],
): Drive<State, Event> {
  let state = opened;
  let bug: { readonly error: unknown } | undefined;
  const timers = createTimers();
  const alarm = createAlarm();
  let openLocals = 0; // local activities that are open, the check of words aside
  let isChecking = false;
  /** When the last check began; until the machine has come to rest after it. */
  let checkedAtMs: number | undefined;
  let isTickOwed = false; // a plain activity has checked words, and no tick was fed since
  /** What came during the check. */
  const late: { readonly event: Event | Tick; readonly atMs: number }[] = [];

  const start = (command: Command): void => {
    const local = isLocal?.(command) === true ? 1 : 0;
    openLocals += local;
    carryOut(command)?.then(
      (answer) => {
        openLocals -= local;
        if (answer !== undefined) feed(answer);
      },
      (error: unknown) => (bug ??= { error }),
    );
  };
  const nowMs = (): number => checkedAtMs ?? Date.now();
  const feed = (event: Event | Tick): void => {
    if (isChecking) late.push({ event, atMs: Date.now() });
    else stepBy(event, nowMs());
  };
  const stepBy = (event: Event | Tick, atMs: number): void => {
    const before = machine.clockOf?.(state);
    const step = machine.step(state, event, atMs);
    state = step.state;
    step.commands.forEach(start);
    const clock = machine.clockOf?.(state);
    if (clock !== before) alarm.set(clock);
  };
  const isDue = (): boolean => alarm.hasRung() || isDueBy(machine, state, nowMs());
  const mayCheck = (): boolean => openLocals === 0 && areWordsWaiting();
  commands.forEach(start);

  return { state: () => state, feed, until };

  async function until(isReached: (state: State) => boolean): Promise<State> {
    for (let ticks = 0; ;) {
      if (bug !== undefined) throw bug.error;
      if (isReached(state)) {
        feedLate();
        show?.(state);
        return state;
      }
      if (checkedAtMs === undefined && mayCheck() && !(isTickOwed && isDue())) {
        await hearWords();
        continue;
      }
      if (!isDue() || ticks >= MAX_TICKS) {
        await newsOrTick();
        ticks = 0;
        continue;
      }
      const hasRung = alarm.hasRung() && machine.clockOf?.(state)?.isAlone === true;
      alarm.stop();
      await everythingFed();
      if (bug !== undefined || !(hasRung || isDue())) continue;
      feed({ kind: "tick" });
      [ticks, isTickOwed] = [ticks + 1, false];
    }
  }

  async function newsOrTick(): Promise<void> {
    show?.(state);
    const waited = state;
    const rings = timers.rings();
    const isNews = (): boolean => bug !== undefined || state !== waited;
    alarm.set(machine.clockOf?.(state));
    if (machine.clockOf === undefined || isDue()) timers.arm(machine.dueAtMs(state));
    if (feedLate()) return;
    await condition(() => isNews() || mayCheck() || alarm.hasRung() || timers.rings() > rings);
    if (!isNews() && !mayCheck() && !alarm.hasRung()) feed({ kind: "tick" });
  }

  async function hearWords(): Promise<void> {
    const atMs = Date.now();
    [isChecking, isTickOwed] = [wordsBy === undefined, wordsBy !== undefined];
    const handOn = await checkWaiting(wordsBy);
    if (isChecking) [isChecking, checkedAtMs] = [false, atMs];
    handOn();
  }

  /** The machine rests after a check: time goes on. */
  function feedLate(): boolean {
    checkedAtMs = undefined;
    const events = late.splice(0);
    for (const { event, atMs } of events) stepBy(event, atMs);
    return events.length > 0;
  }
}

/** Ticks without a pause; a machine that is always due must not stop the workflow's thread. */
const MAX_TICKS = 100;

/**
 * Resolves when all that this activation of the workflow brought has been fed: the SDK asks a condition once when it is made, and again
 * only when no other continuation is left to run.
 */
function everythingFed(): Promise<void> {
  let asked = 0;
  return condition(() => asked++ > 0);
}
