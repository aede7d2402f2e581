/**
 * @file One lane of a served model: the parts of one GPU, run as their inputs come in.
 *
 * The ready queue of SortingHat's algorithm 1: of one request the parts run in the plan's order, each as soon as everything it
 * reads is here. While the head of one request waits, that of a later request may run, so that requests follow each other through
 * the lanes. A value goes straight to the lanes that read it, without a copy where no one else needs it here: its memory changes
 * hands. A lane is a thread that stands for a GPU, or in tests a loop in the caller's own; either way it is spoken to by ports.
 */

import { receiveMessageOnPort, type MessagePort } from "node:worker_threads";
import { entryOf } from "../../models/onnx-feeds.ts";
import { openOnnx, type OnnxSession, type TensorValue } from "../../models/onnx-session.ts";

export interface LanePart {
  /** A model file. */
  readonly model: Uint8Array;
  readonly inputs: readonly string[];
  readonly outputs: readonly PartOutput[];
}

export interface PartOutput {
  readonly name: string;
  /** Other lanes that read it. */
  readonly lanes: readonly number[];
  /** The caller wants it. */
  readonly isAnswer: boolean;
}

export interface LaneSetup {
  readonly lane: number;
  /** In the order in which they run. */
  readonly parts: readonly LanePart[];
  /** Threads of onnxruntime in a part; 1 unless a lane is to stand for more than one core. */
  readonly threads: number;
  /** Whether it may keep its core for a moment while it waits: it has a thread of its own. */
  readonly mayLook: boolean;
  /** To which its thread is bound, when it has one. */
  readonly processor?: number;
  /** To the other lanes. */
  readonly peers: ReadonlyMap<number, MessagePort>;
}

/** From the caller, or from another lane. */
export type LaneMessage =
  | {
      /** Every lane hears of every request once, with what it reads of it. */
      readonly kind: "begin";
      readonly request: number;
      readonly values: readonly NamedTensor[];
    }
  | { readonly kind: "value"; readonly request: number; readonly value: NamedTensor }
  /** The request is lost: another lane could not do its part. */
  | { readonly kind: "drop"; readonly request: number }
  | { readonly kind: "end" };

export type NamedTensor = readonly [name: string, tensor: TensorValue];

/** To the caller. */
export type LaneReport =
  | { readonly kind: "ready" }
  | { readonly kind: "broken"; readonly message: string }
  | { readonly kind: "answer"; readonly request: number; readonly value: NamedTensor }
  | { readonly kind: "failed"; readonly request: number; readonly message: string };

/** About what it takes to wake a sleeping thread, a few times over. */
const LOOK_MS = 0.2;
/** A part whose input did not come while it was looked for is looked for half as long next time, and not at all under this. */
const LEAST_LOOK_MS = 0.02;
/** After so many waits for it that did not look. */
const LOOK_AGAIN = 32;
/** So many requests later nothing more comes in for one that was dropped. */
const REMEMBERED = 1_000;

interface RequestState {
  hasBegun: boolean;
  isDropped: boolean;
  /** The part whose turn it is. */
  next: number;
  readonly values: Map<string, TensorValue>;
  /** Parts of this lane that have still to read a value. */
  readonly readsLeft: Map<string, number>;
}

interface OpenPart extends LanePart {
  readonly session: OnnxSession;
  /** How long its inputs are looked for, as former looks have turned out. */
  lookMs: number;
  waitsUnlooked: number;
}

/** Runs until `end`; says `ready` when the parts are loaded, `broken` when they cannot be. */
export async function runLane(setup: LaneSetup, home: MessagePort): Promise<void> {
  const report = (word: LaneReport, transfer: readonly ArrayBuffer[] = []): void =>
    home.postMessage(word, transfer);
  const requests = new Map<number, RequestState>();
  const parts: OpenPart[] = [];
  const reads = new Map<string, number>();
  for (const { inputs } of setup.parts) {
    for (const name of inputs) reads.set(name, (reads.get(name) ?? 0) + 1);
  }
  let isRunning = false;
  let isLooking = false;
  let isOpen = false;
  let whenEnded: (() => void) | undefined;

  const stateOf = (request: number): RequestState => {
    const known = requests.get(request);
    if (known !== undefined) return known;
    const state = {
      hasBegun: false,
      isDropped: false,
      next: 0,
      values: new Map<string, TensorValue>(),
      readsLeft: new Map(reads),
    };
    requests.set(request, state);
    return state;
  };

  const hear = (message: LaneMessage): void => {
    if (message.kind === "end") {
      whenEnded?.();
      return;
    }
    const state = stateOf(message.request);
    switch (message.kind) {
      case "begin":
        if (setup.parts.length === 0) requests.delete(message.request);
        requests.forEach(({ isDropped }, old) => {
          if (isDropped && old < message.request - REMEMBERED) requests.delete(old);
        });
        state.hasBegun = true;
        for (const [name, tensor] of message.values) state.values.set(name, tensor);
        break;
      case "value":
        state.values.set(message.value[0], message.value[1]);
        break;
      case "drop":
        state.isDropped = true;
        state.values.clear();
        break;
    }
    pump();
  };

  /** The earliest request whose next part has everything. */
  const runnable = (): readonly [number, RequestState, OpenPart] | undefined => {
    for (const [request, state] of requests) {
      const part = parts[state.next];
      if (!state.hasBegun || state.isDropped || part === undefined) continue;
      if (part.inputs.every((name) => state.values.has(name))) return [request, state, part];
    }
    return undefined;
  };

  /** The part whose turn it is in the earliest request that has begun and waits for another lane. */
  const awaited = (): OpenPart | undefined => {
    for (const { hasBegun, isDropped, next } of requests.values()) {
      const part = parts[next];
      if (hasBegun && !isDropped && part !== undefined) return part;
    }
    return undefined;
  };

  /**
   * Looks at the other lanes for a little while before it sleeps: waking a thread costs as much as a small part. Where looking does
   * not pay (the other lane has long to work, or needs this very core for it) it soon stops.
   */
  const soonRunnable = (): ReturnType<typeof runnable> => {
    if (!setup.mayLook || setup.peers.size === 0) return undefined;
    const part = awaited();
    if (part === undefined) return undefined;
    if (part.lookMs < LEAST_LOOK_MS) {
      part.waitsUnlooked += 1;
      if (part.waitsUnlooked < LOOK_AGAIN) return undefined;
      part.lookMs = LOOK_MS;
      part.waitsUnlooked = 0;
    }
    isLooking = true;
    const untilMs = performance.now() + part.lookMs;
    let found: ReturnType<typeof runnable>;
    do {
      for (const port of setup.peers.values()) {
        const heard = receiveMessageOnPort(port);
        if (heard === undefined) continue;
        // Only lanes hold the other ends.
        hear(heard.message as LaneMessage);
        found = runnable();
      }
    } while (found === undefined && performance.now() < untilMs);
    isLooking = false;
    part.lookMs = found === undefined ? part.lookMs / 2 : LOOK_MS;
    return found;
  };

  const pump = (): void => {
    if (isRunning || isLooking || !isOpen) return;
    const found = runnable() ?? soonRunnable();
    if (found === undefined) return;
    isRunning = true;
    void runPart(...found).finally(() => {
      isRunning = false;
      pump();
    });
  };

  const runPart = async (request: number, state: RequestState, part: OpenPart): Promise<void> => {
    try {
      const feeds = new Map(part.inputs.flatMap((name) => entryOf(state.values, name)));
      const outputs = await part.session.run(feeds);
      if (state.isDropped) return;
      for (const name of part.inputs) {
        const left = (state.readsLeft.get(name) ?? 1) - 1;
        state.readsLeft.set(name, left);
        if (left === 0) state.values.delete(name);
      }
      for (const output of part.outputs) handOn(request, state, output, outputs.get(output.name));
      state.next += 1;
    } catch (error) {
      state.isDropped = true;
      const message = error instanceof Error ? error.message : String(error);
      report({ kind: "failed", request, message });
    } finally {
      if (state.isDropped || state.next >= parts.length) finish(request, state);
    }
  };

  /** A request that was dropped stays known, so that what still comes in for it begins nothing. */
  const finish = (request: number, state: RequestState): void => {
    state.values.clear();
    if (!state.isDropped) requests.delete(request);
  };

  const handOn = (
    request: number,
    state: RequestState,
    { name, lanes, isAnswer }: PartOutput,
    tensor: TensorValue | undefined,
  ): void => {
    if (tensor === undefined) throw new Error(`a part gave no ${name}`);
    const value: NamedTensor = [name, tensor];
    const isReadHere = (state.readsLeft.get(name) ?? 0) > 0;
    if (isReadHere) state.values.set(name, tensor);
    const ports = lanes.flatMap((lane) => setup.peers.get(lane) ?? []);
    const takers = ports.length + (isAnswer ? 1 : 0);
    let left = takers;
    // Only the last taker may have the memory itself.
    const transferOf = (): readonly ArrayBuffer[] => {
      left -= 1;
      return left === 0 && !isReadHere ? ownMemory(tensor) : [];
    };
    for (const port of ports) {
      port.postMessage({ kind: "value", request, value } satisfies LaneMessage, transferOf());
    }
    if (isAnswer) report({ kind: "answer", request, value }, transferOf());
  };

  home.on("message", hear);
  for (const port of setup.peers.values()) port.on("message", hear);
  try {
    for (const part of setup.parts) {
      const session = await openOnnx(part.model, { threads: setup.threads });
      parts.push({ ...part, session, lookMs: LOOK_MS, waitsUnlooked: 0 });
    }
    isOpen = true;
    report({ kind: "ready" });
    pump();
    await new Promise<void>((resolve) => (whenEnded = resolve));
  } catch (error) {
    report({ kind: "broken", message: error instanceof Error ? error.message : String(error) });
  } finally {
    for (const port of setup.peers.values()) port.close();
    home.close();
    await Promise.all(parts.map(({ session }) => session.release()));
  }
}

/** The memory of a tensor that fills it; a view into a larger one cannot be given away. */
export function ownMemory({ data }: TensorValue): readonly ArrayBuffer[] {
  const { buffer } = data;
  return buffer instanceof ArrayBuffer && data.byteLength === buffer.byteLength ? [buffer] : [];
}
