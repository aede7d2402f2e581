/**
 * @file One lane of a served model: runs the parts of one GPU as their inputs arrive.
 *
 * The parts of one request run in the plan's order, each as soon as all its inputs are here. While the earliest request waits for another
 * lane, a later request may run, so requests are pipelined through the lanes. A value is sent straight to the lanes that read it; its
 * memory is transferred instead of copied when nobody else reads it. A lane is a thread that stands for a GPU, or in tests a loop in
 * the caller's thread; both talk through message ports.
 */

import { rmSync } from "node:fs";
import { receiveMessageOnPort, type MessagePort } from "node:worker_threads";
import { entryOf } from "../../models/onnx/onnx-feeds.ts";
import {
  openOnnx,
  weightsOf,
  type OnnxSession,
  type TensorValue,
} from "../../models/onnx/onnx-session.ts";
import {
  ownMemory,
  type LaneMessage,
  type LanePart,
  type LaneReport,
  type LaneSetup,
  type NamedTensor,
  type PartOutput,
} from "./lane-messages.ts";
import { createPollTime, type PollTime } from "./lane-polling.ts";
import { createLaneRequests, type LaneRequest } from "./lane-requests.ts";

interface OpenPart extends LanePart {
  readonly session: OnnxSession;
  readonly pollTime: PollTime;
}

type Report = (report: LaneReport, transfer?: readonly ArrayBuffer[]) => void;

/** Runs until `end`; reports `ready` when the parts are loaded, `broken` when they cannot be. */
export async function runLane(setup: LaneSetup, home: MessagePort): Promise<void> {
  const report: Report = (message, transfer = []) => home.postMessage(message, transfer);
  const ports = [home, ...setup.peers.values()];
  const parts: OpenPart[] = [];
  const { threads, cudaGpu } = setup;
  const loop = createLoop(setup, parts, report);
  const ended = new Promise<void>((resolve) => {
    const receive = (message: LaneMessage): void =>
      message.kind === "end" ? resolve() : loop.receive(message);
    for (const port of ports) port.on("message", receive);
  });
  try {
    for (const part of setup.parts) {
      const session = await openPart(part, {
        threads,
        ...(cudaGpu !== undefined && { cudaGpu }),
      });
      parts.push({ ...part, session, pollTime: createPollTime() });
    }
    report({ kind: "ready" });
    loop.open();
    await ended;
  } catch (error) {
    report({ kind: "broken", message: messageOf(error) });
  } finally {
    for (const port of setup.peers.values()) port.close();
    home.close();
    await Promise.all(parts.map(({ session }) => session.release()));
  }
}

/** What cannot be kept, for want of room, is served all the same, and leaves nothing behind. */
async function openPart(
  { model, keepAt }: LanePart,
  options: { readonly threads: number; readonly cudaGpu?: number },
): Promise<OnnxSession> {
  if (typeof model === "string") return openOnnx(model, { ...options, optimise: "as-written" });
  if (keepAt === undefined) return openOnnx(model, options);
  try {
    return await openOnnx(model, { ...options, keepAt });
  } catch {
    for (const file of [keepAt, weightsOf(keepAt)]) rmSync(file, { force: true });
    return openOnnx(model, options);
  }
}

type RequestMessage = Exclude<LaneMessage, { readonly kind: "end" }>;

interface Loop {
  readonly receive: (message: RequestMessage) => void;
  /** Starts to run parts; `parts` is complete. */
  readonly open: () => void;
}

/** Runs one part at a time: the next one starts when a part ends or a message arrives. */
function createLoop(
  { parts: planned, peers, mayPoll }: LaneSetup,
  parts: readonly OpenPart[],
  report: Report,
): Loop {
  const requests = createLaneRequests(planned);
  let isOpen = false;
  let isRunning = false;
  let isPolling = false;

  const receive = (message: RequestMessage): void => {
    requests.receive(message);
    pump();
  };

  const poll = (): LaneRequest | undefined => {
    if (!mayPoll || peers.size === 0) return undefined;
    const waiting = requests.earliest();
    const pollTime = waiting === undefined ? undefined : parts[waiting.next]?.pollTime;
    const pollMs = pollTime?.next();
    if (pollTime === undefined || pollMs === undefined) return undefined;
    isPolling = true;
    const untilMs = performance.now() + pollMs;
    let found: LaneRequest | undefined;
    do {
      for (const port of peers.values()) {
        const received = receiveMessageOnPort(port);
        if (received === undefined) continue;
        // Only lanes hold the other ends, and lanes send no `end`.
        requests.receive(received.message as RequestMessage);
        found = requests.runnable();
      }
    } while (found === undefined && performance.now() < untilMs);
    isPolling = false;
    pollTime.record(found !== undefined);
    return found;
  };

  const pump = (): void => {
    if (isRunning || isPolling || !isOpen) return;
    const found = requests.runnable() ?? poll();
    if (found === undefined) return;
    const part = parts[found.next];
    if (part === undefined) return;
    isRunning = true;
    void runPart(found, part).finally(() => {
      isRunning = false;
      pump();
    });
  };

  const runPart = async (state: LaneRequest, part: OpenPart): Promise<void> => {
    try {
      const feeds = new Map(part.inputs.flatMap((name) => entryOf(state.values, name)));
      const outputs = await part.session.run(feeds);
      if (state.isDropped) return;
      requests.releaseInputs(state, part);
      for (const output of part.outputs) {
        sendOutput(state, { output, tensor: outputs.get(output.name) }, { peers, report });
      }
      state.next += 1;
    } catch (error) {
      state.isDropped = true;
      report({ kind: "failed", request: state.request, message: messageOf(error) });
    } finally {
      if (state.isDropped || state.next >= parts.length) requests.finish(state);
    }
  };

  return {
    receive,
    open() {
      isOpen = true;
      pump();
    },
  };
}

/** Sends an output to the lanes that read it and to the caller, and keeps it for later parts of this lane. */
function sendOutput(
  { request, values, readsLeft }: LaneRequest,
  {
    output: { name, lanes, isAnswer },
    tensor,
  }: { readonly output: PartOutput; readonly tensor: TensorValue | undefined },
  { peers, report }: { readonly peers: LaneSetup["peers"]; readonly report: Report },
): void {
  if (tensor === undefined) throw new Error(`a part returned no output ${name}`);
  const value: NamedTensor = [name, tensor];
  const isReadHere = (readsLeft.get(name) ?? 0) > 0;
  if (isReadHere) values.set(name, tensor);
  const readers = lanes.flatMap((lane) => peers.get(lane) ?? []);
  let left = readers.length + (isAnswer ? 1 : 0);
  // Only the last reader may receive the memory itself.
  const transferOf = (): readonly ArrayBuffer[] => {
    left -= 1;
    return left === 0 && !isReadHere ? ownMemory(tensor) : [];
  };
  for (const port of readers) {
    port.postMessage({ kind: "value", request, value } satisfies LaneMessage, transferOf());
  }
  if (isAnswer) report({ kind: "answer", request, value }, transferOf());
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
