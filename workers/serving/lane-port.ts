/**
 * @file Starts a lane in a thread of its own, because onnxruntime blocks its thread.
 *
 * Where only sources exist (unit tests), there is no compiled thread, and the lane runs in the caller's thread behind the same
 * ports: the same answers without parallelism.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MessageChannel, Worker, type MessagePort } from "node:worker_threads";
import type { LaneMessage, LaneReport, LaneSetup } from "./lane-messages.ts";
import { runLane } from "./lane.ts";

export interface Lane {
  send(message: LaneMessage, transfer?: readonly ArrayBuffer[]): void;
  /** After this the lane sends no report. */
  end(): Promise<void>;
}

export interface LaneEvents {
  onReport(report: LaneReport): void;
  /** The thread has ended without being asked to. */
  onLoss(message: string): void;
}

export function openLane(asked: Omit<LaneSetup, "mayPoll">, events: LaneEvents): Lane {
  const setup = { ...asked, mayPoll: false };
  const file = fileURLToPath(new URL("./lane-thread.js", import.meta.url));
  return existsSync(file) ? inThread(file, setup, events) : inPlace(setup, events);
}

function inThread(file: string, setup: LaneSetup, { onReport, onLoss }: LaneEvents): Lane {
  const models = setup.parts.map(({ model }) => model);
  const thread = new Worker(file, {
    workerData: { ...setup, mayPoll: true } satisfies LaneSetup,
    transferList: [...setup.peers.values(), ...models.flatMap(wholeBuffer)],
  });
  let isEnding = false;
  const gone = new Promise<void>((resolve) => thread.once("exit", () => resolve()));
  thread.on("message", onReport);
  thread.once("error", (error: Error) => onLoss(`lane ${setup.lane}: ${error.message}`));
  thread.once("exit", (code) => {
    if (!isEnding) onLoss(`lane ${setup.lane} ended with code ${code}`);
  });
  return {
    send: (message, transfer = []) => thread.postMessage(message, transfer),
    async end() {
      isEnding = true;
      thread.postMessage({ kind: "end" } satisfies LaneMessage);
      await gone;
    },
  };
}

const wholeBuffer = (bytes: Uint8Array | string): readonly ArrayBuffer[] =>
  typeof bytes !== "string" &&
  bytes.buffer instanceof ArrayBuffer &&
  bytes.byteLength === bytes.buffer.byteLength
    ? [bytes.buffer]
    : [];

function inPlace(setup: LaneSetup, { onReport, onLoss }: LaneEvents): Lane {
  const { port1: near, port2: far }: { port1: MessagePort; port2: MessagePort } =
    new MessageChannel();
  near.on("message", onReport);
  const running = runLane(setup, far).catch((error: unknown) => onLoss(String(error)));
  return {
    send: (message, transfer = []) => near.postMessage(message, transfer),
    async end() {
      near.postMessage({ kind: "end" } satisfies LaneMessage);
      await running;
      near.close();
    },
  };
}
