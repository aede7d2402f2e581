/** @file What the model of the server must know of a workflow type: its machine, what its commands become, and when a run is over. Types. */

import type { Machine, Step } from "../../machines/machine.ts";
import type { Process, Task } from "../kernel/process.ts";

/** Of one run of a workflow. */
export interface RunIdentity {
  readonly workflowId: string;
  readonly runId: string;
  /** By the server's clock. */
  readonly startedAtMs: number;
}

/** A signal as a run has taken it. */
export interface TakenWord {
  readonly name: string;
  readonly payload: unknown;
  /** It cannot be true, nor can a copy of it. */
  readonly isBroken?: true;
}

export type RunEnd =
  | { readonly kind: "completed"; readonly result?: unknown }
  | { readonly kind: "failed" | "cancelled" | "terminated" }
  | { readonly kind: "continued"; readonly input: unknown };

export interface WorkflowType<State, Event, Command> {
  /** The task queue of its workflow tasks. */
  readonly queue: string;
  readonly machine: Machine<State, Event, Command>;
  readonly open: (identity: RunIdentity, nowMs: number) => Step<State, Command>;
  /** Undefined for a signal that changes nothing. */
  readonly signal: (name: string, payload: unknown) => Event | undefined;
  /** Of a command that is answered before anything else happens; undefined of all others. */
  readonly atOnce: (command: Command) => Event | undefined;
  readonly isLocal: (command: Command) => boolean;
  /** One try of the local activity behind a command; undefined: it failed, and comes again. */
  readonly local: (command: Command, on: LocalCall<State>) => Task<Event | undefined>;
  /** Everything else: what the server does with the command once it has it. */
  readonly carryOut: (command: Command, run: WorkflowRun<State, Event>) => void;
  readonly endOf: (state: State, commands: readonly Command[]) => RunEnd | undefined;
}

export interface LocalCall<State> {
  readonly process: Process;
  /** When the command was given, or later. */
  readonly state: State;
  readonly workflowId: string;
}

/** A run as those see it who do not know its type. */
export interface AnyRun extends RunIdentity {
  readonly isOpen: () => boolean;
  readonly signal: (word: TakenWord) => void;
  /** Ends it from outside. */
  readonly terminate: () => void;
  /** A server that fails forgets the updates that no task has made durable, unless a worker that took one hands in its task all the same. */
  readonly loseUpdates: () => void;
  /** Tells another run of its type, in order, what this one was told from outside. */
  readonly repeatTo: (run: AnyRun) => void;
  /** What another run of its type begins with that keeps such a share of its tasks, from 0 to 1; undefined where that is none. */
  readonly baseAt: (share: number) => unknown;
  readonly signals: () => readonly TakenWord[];
  /** Its client's view, once it is closed. */
  readonly end: () => RunEnd | undefined;
}

export interface WorkflowRun<State, Event> extends AnyRun {
  /** As the server has it; undefined before the first workflow task. */
  readonly state: () => State | undefined;
  readonly arrive: (arrival: Arrival<State, Event>) => void;
  /** A query: answered at once where nothing waits to be taken and a worker is there, otherwise after the task that takes it. */
  readonly query: (onAnswer: (state: State) => void) => void;
}

export type Arrival<State, Event> =
  | { readonly kind: "event"; readonly event: Event }
  /** Answered when all that came before it has been taken. */
  | { readonly kind: "query"; readonly onAnswer: (state: State) => void }
  | {
      readonly kind: "update";
      readonly event: Event;
      readonly problemOf: (state: State) => string | undefined;
      /** Called when the answer is durable. */
      readonly onAnswer: (problem: string | undefined) => void;
    };

export const copied = <Value>(value: Value): Value =>
  value === undefined ? value : (JSON.parse(JSON.stringify(value)) as Value); // as Temporal does
