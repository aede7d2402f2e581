/**
 * @file Hands signals to their handlers without the SDK's cost for each of them.
 *
 * The SDK (1.24) makes nine promises a signal and notes a stack for each: a quarter of a millisecond, so that 10,000 signals in one task take longer
 * than workflow code may run. Handlers here only feed: they never wait and never fail. So an interceptor takes their signals off the activation
 * before the SDK sees them and calls the handlers in the order of the history. It issues no commands: a history replays the same with either way.
 * Signals that came before the workflow's first step wait until its handlers are set. A signal that has no handler goes to `onUnknownSignal`, for a
 * workflow that counts such signals, else to the SDK. Cost: microseconds a signal; a payload is decoded when its handler reads it.
 */

import {
  ApplicationFailure,
  patched,
  setHandler,
  workflowInfo,
  type ActivateInput,
  type SignalDefinition,
  type WorkflowInterceptorsFactory,
} from "@temporalio/workflow";
import type { Payload } from "@temporalio/common";
import { PROOF_HEADER, wordUpdate, type JobWord } from "../../protocol/messages.ts";
import { flawOf, type CameFlawed, type SealFlaw } from "../../protocol/seal.ts";
import { sideBytes } from "../../protocol/side-bytes.ts";
import { arrivedOrder, noteUpdates } from "./arrived-orders.ts";
import { payloadConverter } from "./payload-converter.ts";
import { holdBack, needsProof, noteDisbelieved, noteHeard } from "./word-gate.ts";

/** A signal whose payload has not been decoded. */
export interface Arrival<Value> {
  readonly read: () => Value;
  /** Of its payload. */
  readonly bytes: number;
  /** Of history, beside them; absent where it is next to nothing. */
  readonly sideBytes?: number;
  /** As its client calls itself; anybody may claim any name. */
  readonly sender: string;
  /** Of the sender's role (`protocol/word-proof.ts`), as it came; absent where none came. */
  readonly proof?: string;
  /** The bytes of its value, which the proof covers. */
  readonly value: Uint8Array;
  /** How it was not encrypted. */
  readonly flaw?: SealFlaw;
}

export interface UnknownArrival extends Arrival<unknown> {
  readonly signal: string;
}

/** A signal of one value, or of none. */
type Taken<Value> = SignalDefinition<[Value]> | SignalDefinition<[]>;
type Job = NonNullable<ActivateInput["activation"]["jobs"]>[number];
type Signal = NonNullable<Job["signalWorkflow"]>;

const NAMELESS = { bytes: 0, sender: "", value: new Uint8Array() } as const;

/** Of this run: the SDK gives every run its own copy of a module that is not preloaded. */
const handlers = new Map<string, (arrival: Arrival<unknown>) => void>();
const early: Job[] = [];
let countHeavy: (() => void) | undefined;
let handleUnknown: ((arrival: UnknownArrival) => void) | undefined;
let isStarted = false;
let inputFlaw: SealFlaw | undefined;

/** How the run's own input was not encrypted. */
export const flawOfInput = (): SealFlaw | undefined => inputFlaw;

/** For an activity that judges it; undefined where there is nothing to judge. The run began when its input came. */
export const flawedInput = (): CameFlawed | undefined =>
  inputFlaw && { flaw: inputFlaw, atMs: workflowInfo().startTime.getTime() };

/** The handler must neither wait nor throw. */
export function onArrival<Value>(
  definition: Taken<Value>,
  handle: (arrival: Arrival<Value>) => void,
): void {
  const { name } = definition;
  // The sender's type is a promise, as with the SDK's own handlers: each handler checks what it reads.
  handlers.set(name, (arrival) => handle(arrival as Arrival<Value>));
  // For the list of handlers that Temporal's UI shows, and for a bundle without the interceptor.
  setHandler(definition as SignalDefinition<[Value]>, (value) =>
    handle({ read: () => value, ...NAMELESS }),
  );
  for (const job of early.splice(0)) if (!deliver(job)) early.push(job);
}

/** The same for a handler that needs the value alone. */
export const onSignal = <Value>(definition: Taken<Value>, handle: (value: Value) => void): void =>
  onArrival(definition, ({ read }) => handle(read()));

/**
 * Also hears by an update what comes as a signal otherwise (`activities/job-words.ts`). An update that names no signal of these handlers is
 * refused, which leaves no trace in the history.
 */
export function acceptWords(): void {
  setHandler(
    wordUpdate,
    ({ signal, value, proof }) => {
      const { flaw } = arrivedOrder(proof);
      pass(signal, {
        ...NAMELESS,
        read: () => value,
        ...(typeof proof === "string" && { proof }),
        value: bytesOf(value),
        ...(flaw !== undefined && { flaw }),
      });
    },
    {
      validator: (word) => {
        const name = (word as Partial<JobWord> | null | undefined)?.signal; // anybody may send anything
        if (typeof name !== "string" || !handlers.has(name))
          throw ApplicationFailure.nonRetryable("a word needs the name of a signal", "BAD_INPUT");
      },
    },
  );
}

/**
 * For workflows that left junk to the SDK before: their runs counted none of it, and a replay must continue as new where they did. The marker
 * comes with the first junk of a run.
 */
export function onJunk(count: () => void): void {
  onUnknownSignal(() => {
    if (patched("junk-signals")) count();
  });
  onHeavyWords(count);
}

/** Of history: a word counts as one more for each. The server ends a run of 50 MiB. */
const HEAVY_BYTES = 16 * 1024;

/**
 * For runs that continue as new by a count of events: it is called once for each piece of a large word. To be set before any handler, which hears at once what came before the
 * workflow's first step. The marker comes with the first large word of a run.
 */
export function onHeavyWords(count: () => void): void {
  countHeavy = count;
}

export function weigh({
  bytes,
  sideBytes = 0,
}: Pick<Arrival<unknown>, "bytes" | "sideBytes">): void {
  const pieces = Math.floor((bytes + sideBytes) / HEAVY_BYTES);
  if (pieces === 0 || countHeavy === undefined || !patched("heavy-words")) return;
  for (let piece = 0; piece < pieces; piece += 1) countHeavy();
}

/** Takes the signals that have no handler, instead of the SDK, which would keep them for one that may yet be set. */
export function onUnknownSignal(handle: (arrival: UnknownArrival) => void): void {
  handleUnknown = handle;
}

export const interceptors: WorkflowInterceptorsFactory = () => ({
  internals: [
    {
      activate(input, next) {
        const { activation } = input;
        const jobs = activation.jobs ?? [];
        noteUpdates(jobs);
        for (const { initializeWorkflow: start } of jobs)
          if (isSet(start)) inputFlaw = flawOf(start.arguments);
        if (!isStarted && jobs.some(({ initializeWorkflow }) => isSet(initializeWorkflow)))
          isStarted = true;
        if (!jobs.some(isSignal) && early.length === 0) return next(input);
        // Before the first step nobody knows which handlers there will be.
        const isBefore = handlers.size === 0;
        const others = jobs.filter((job) => {
          if (!isSignal(job)) return true;
          if (!isBefore) return !(deliver(job) || dropStray(job));
          early.push(job);
          return false;
        });
        next({ ...input, activation: { ...activation, jobs: others } });
        if (!isStarted || early.length === 0) return;
        const left = early.splice(0).filter((job) => !dropStray(job));
        if (left.length > 0) next({ ...input, activation: { ...activation, jobs: left } });
      },
    },
  ],
});

/** Whether a handler has taken it. */
function deliver({ signalWorkflow: signal }: Job): boolean {
  const name = signal?.signalName ?? "";
  if (!isSet(signal) || !handlers.has(name)) return false;
  pass(name, arrivalOf(signal));
  return true;
}

/** To its handler, at once or when its sender is proven; the handler is then that of the moment. */
function pass(signal: string, arrival: Arrival<unknown>): void {
  weigh(arrival);
  const hear = (): void => handlers.get(signal)?.(arrival);
  const refuse = (): void => handleUnknown?.({ ...arrival, signal });
  const word = { signal, word: arrival, sender: arrival.sender, hear, refuse };
  if (needsProof(signal)) return holdBack(word);
  noteHeard(word);
  hear();
}

function dropStray({ signalWorkflow: signal }: Job): boolean {
  if (handleUnknown === undefined || !isSet(signal)) return false;
  const arrival = arrivalOf(signal);
  weigh(arrival);
  const { sender } = arrival;
  const word = signal.signalName ?? "";
  noteDisbelieved({ sender, word, reason: "nobody says such a word" });
  handleUnknown({ ...arrival, signal: word });
  return true;
}

function arrivalOf({ input, identity, headers, signalName }: Signal): Arrival<unknown> {
  const payload: Payload | undefined = input?.[0];
  const header = headers?.[PROOF_HEADER];
  const proof = header ? payloadConverter.fromPayload<unknown>(header) : undefined;
  const value = payload?.data ?? new Uint8Array();
  const flaw = flawOf(input);
  return {
    read: () => (payload === undefined ? undefined : payloadConverter.fromPayload(payload)),
    bytes: value.length,
    ...sideBytes({ payloads: input, headers, names: [identity, signalName] }),
    sender: identity ?? "",
    ...(typeof proof === "string" && { proof }),
    value,
    ...(flaw !== undefined && { flaw }),
  };
}

/** As the sender's converter has written it. */
const bytesOf = (value: unknown): Uint8Array =>
  value === undefined
    ? new Uint8Array()
    : (payloadConverter.toPayload(value)?.data ?? new Uint8Array());

/** Whatever its name: the SDK has no signals of its own, but anybody may send one whose name looks so. */
const isSignal = ({ signalWorkflow: signal }: Job): boolean => isSet(signal);

const isSet = <Value>(value: Value | null | undefined): value is Value =>
  value !== null && value !== undefined;
