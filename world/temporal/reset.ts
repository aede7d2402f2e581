/**
 * @file A reset of a run to one of its later workflow tasks: another run begins with the history before that task, and does the task anew with all that it had.
 *
 * As Temporal has it: what was told from outside since is told again, activities that were open at that point are scheduled again with the input that
 * the history has, and results that came later are lost. The new run repeats the history under an id of its own, so its
 * commands may hold other values; their number and their kinds may not differ.
 */

import { repeated, type Fed } from "./replay.ts";
import type { Arrival, RunIdentity, WorkflowRun, WorkflowType } from "./workflow.ts";

/** Something that a run was told from outside: a signal, or an update. */
export interface Told<State, Event> {
  readonly tell: (to: WorkflowRun<State, Event>) => void;
  /** The number of the task that has taken it; infinite until one has. */
  takenBy: number;
}

export type Waiting<State, Event> = Arrival<State, Event> & {
  /** The number of the command that it answers. */
  readonly closes?: number;
  readonly told?: Told<State, Event>;
};

/** A workflow task that the server has: what there was before it, and what it has taken. */
export interface Part<State, Event> {
  readonly history: number;
  readonly given: number;
  readonly taken: readonly Waiting<State, Event>[];
}

/** What there is of a run, in its order. */
export interface Recorded<State, Event, Command> {
  readonly history: readonly Fed<Event>[];
  readonly given: readonly Command[];
  readonly parts: readonly Part<State, Event>[];
  readonly told: readonly Told<State, Event>[];
}

/** With what the new run begins. */
export interface Base<State, Event, Command> extends Recorded<State, Event, Command> {
  /** What the repeated task takes. */
  readonly waiting: readonly Waiting<State, Event>[];
  /** What is told again after it. */
  readonly later: readonly Told<State, Event>[];
  /** Commands whose answers the new run has, or is about to take. */
  readonly closed: ReadonlySet<number>;
}

/** `share` of its tasks are kept, from 0 to 1; undefined where that is none. */
export function baseOf<State, Event, Command>(
  { history, given, parts, told }: Recorded<State, Event, Command>,
  share: number,
): Base<State, Event, Command> | undefined {
  const at = Math.floor(share * parts.length);
  const part = parts[at];
  if (at === 0 || part === undefined) return undefined;
  const kept = parts.slice(0, at);
  const answered = [...kept, part].flatMap(({ taken }) => taken);
  return {
    history: history.slice(0, part.history),
    given: given.slice(0, part.given),
    parts: kept,
    told: told.filter(({ takenBy }) => takenBy < at),
    waiting: part.taken.flatMap((each) => again(each) ?? []),
    later: told.filter(({ takenBy }) => takenBy > at),
    closed: new Set(answered.flatMap(({ closes }) => closes ?? [])),
  };
}

/** Nobody waits for its answer any more; undefined of a question, which is asked again. */
function again<State, Event>(waiting: Waiting<State, Event>): Waiting<State, Event> | undefined {
  if (waiting.kind === "query") return undefined;
  const { told } = waiting;
  return {
    ...waiting,
    ...(told !== undefined && { told: { ...told, takenBy: Infinity } }),
    ...(waiting.kind === "update" && { onAnswer: () => undefined }),
  };
}

/** Of a command, and of those that it hands on. */
function kindOf({ kind, command }: Handing): string {
  return command === undefined ? kind : `${kind}/${kindOf(command)}`;
}

interface Handing {
  readonly kind: string;
  readonly command?: Handing;
}

/** What a run has, which the new one fills with what it begins with. */
interface Into<State, Event, Command> {
  readonly history: Fed<Event>[];
  readonly given: Command[];
  readonly parts: Part<State, Event>[];
  readonly told: Told<State, Event>[];
  readonly arrivals: Waiting<State, Event>[];
  readonly openLocals: Map<number, Command>;
}

/** `isSame`: its commands are those of the history. */
export function beginFrom<State, Event, Command extends { readonly kind: string }>(
  type: WorkflowType<State, Event, Command>,
  {
    identity,
    from,
  }: { readonly identity: RunIdentity; readonly from: Base<State, Event, Command> },
  into: Into<State, Event, Command>,
): { readonly state: State; readonly isSame: boolean } {
  const { state, commands } = repeated(type, identity, from.history);
  const kinds = (all: readonly Command[]): string => all.map(kindOf).join(" ");
  into.history.push(...from.history);
  into.given.push(...commands);
  into.parts.push(...from.parts);
  into.told.push(...from.told, ...from.waiting.flatMap((each) => each.told ?? []));
  into.arrivals.push(...from.waiting);
  const answered = new Set(from.history.map(({ answers }) => answers));
  commands.forEach((command, at) => {
    if (type.isLocal(command) && !answered.has(at)) into.openLocals.set(at, command);
  });
  return { state, isSame: kinds(commands) === kinds(from.given) };
}
