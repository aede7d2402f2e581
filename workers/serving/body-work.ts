/**
 * @file Reads and writes bodies: small ones at once, those above a megabyte in a thread, so that no large body holds up other requests.
 *
 * One thread for all large bodies of a model, started by the first. A body that throws fails alone. When the thread dies (of memory, say), the
 * bodies that it had fail, and the next one starts another.
 */

import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { ownMemory } from "./lane-messages.ts";
import {
  readBody,
  writeAnswer,
  type InferAnswer,
  type ModelForm,
  type ReadBody,
} from "./infer-body.ts";

/** Nothing larger is read or written on the event loop. */
export const LARGE_BYTES = 2 ** 20;
/** A number of an answer takes at most so many bytes as JSON. */
const NUMBER_BYTES = 26;

export interface BodyWork {
  /** The bytes must not be used afterwards. */
  readonly read: (bytes: Uint8Array) => Promise<ReadBody>;
  /** Likewise the tensors of the answer. */
  readonly write: (answer: InferAnswer) => Promise<Uint8Array>;
  readonly close: () => Promise<void>;
}

export type BodyTask =
  | { readonly kind: "read"; readonly task: number; readonly bytes: Uint8Array }
  | { readonly kind: "write"; readonly task: number; readonly answer: InferAnswer };

export type BodyReply =
  | { readonly kind: "read"; readonly task: number; readonly body: ReadBody }
  | { readonly kind: "written"; readonly task: number; readonly bytes: Uint8Array }
  /** The others go on. */
  | { readonly kind: "failed"; readonly task: number; readonly message: string };

interface Waiting {
  readonly resolve: (reply: BodyReply) => void;
  readonly reject: (error: Error) => void;
}

/** Threads need compiled code: sources (in unit tests) use the copy of the last build. */
const THREAD = fileURLToPath(new URL("./body-thread.js", import.meta.url)).replace(
  /workers\/serving\/([^/]+)$/,
  import.meta.url.endsWith(".ts") ? "dist/workers/serving/$1" : "workers/serving/$1",
);

export function createBodyWork({ inputs, maxBatch }: ModelForm): BodyWork {
  const form: ModelForm = { inputs, maxBatch };
  const waiting = new Map<number, Waiting>();
  let thread: Worker | undefined;
  let tasks = 0;

  const started = (): Worker => {
    if (thread !== undefined) return thread;
    const made = new Worker(THREAD, { workerData: form });
    const lose = (why: string): void => {
      if (thread === made) thread = undefined;
      for (const { reject } of waiting.values()) reject(new Error(`a large body failed: ${why}`));
      waiting.clear();
    };
    made.on("message", (reply: BodyReply) => {
      const asked = waiting.get(reply.task);
      waiting.delete(reply.task);
      if (reply.kind === "failed")
        asked?.reject(new Error(`a large body failed: ${reply.message}`));
      else asked?.resolve(reply);
    });
    made.once("error", (error: Error) => lose(error.message));
    made.once("exit", (code) => {
      if (thread === made) lose(`its thread ended with code ${code}`);
    });
    thread = made;
    return made;
  };
  const inThread = (
    make: (task: number) => BodyTask,
    memory: readonly ArrayBuffer[],
  ): Promise<BodyReply> =>
    new Promise((resolve, reject) => {
      tasks += 1;
      waiting.set(tasks, { resolve, reject });
      started().postMessage(make(tasks), [...new Set(memory)]);
    });

  return {
    async read(bytes) {
      if (bytes.length <= LARGE_BYTES) return readBody(bytes, form);
      const reply = await inThread((task) => ({ kind: "read", task, bytes }), bytesMemory(bytes));
      if (reply.kind !== "read") throw new Error("the thread of large bodies answers another task");
      return reply.body;
    },
    async write(answer) {
      const tensors = [...answer.outputs.values()];
      const numbers = tensors.reduce((sum, { data }) => sum + data.length, 0);
      if (numbers * NUMBER_BYTES <= LARGE_BYTES) return writeAnswer(answer);
      const make = (task: number): BodyTask => ({ kind: "write", task, answer });
      const reply = await inThread(make, tensors.flatMap(ownMemory));
      if (reply.kind !== "written")
        throw new Error("the thread of large bodies answers another task");
      return reply.bytes;
    },
    async close() {
      const ending = thread;
      thread = undefined;
      await ending?.terminate();
    },
  };
}

/** What may be handed over instead of copied: memory that holds nothing else. */
export const bytesMemory = ({ buffer, byteLength }: Uint8Array): readonly ArrayBuffer[] =>
  buffer instanceof ArrayBuffer && byteLength === buffer.byteLength ? [buffer] : [];
