/** @file The thread of `body-work.ts`: reads and writes large bodies, one after the other, until it is ended. */

import { parentPort, workerData } from "node:worker_threads";
import { ownMemory } from "./lane-messages.ts";
import { readBody, writeAnswer, type ModelForm } from "./infer-body.ts";
import { bytesMemory, type BodyReply, type BodyTask } from "./body-work.ts";

// Only `body-work.ts` starts this thread, with the model's form.
const form = workerData as ModelForm;

function done(task: BodyTask): readonly [BodyReply, readonly ArrayBuffer[]] {
  if (task.kind === "write") {
    const bytes = writeAnswer(task.answer);
    return [{ kind: "written", task: task.task, bytes }, bytesMemory(bytes)];
  }
  const body = readBody(task.bytes, form);
  const memory = body.kind === "read" ? [...body.inputs.values()].flatMap(ownMemory) : [];
  return [{ kind: "read", task: task.task, body }, memory];
}

parentPort?.on("message", (task: BodyTask) => {
  try {
    const [reply, memory] = done(task);
    parentPort?.postMessage(reply, [...new Set(memory)]);
  } catch (error) {
    // Others' bodies wait in this thread: one that is too much for it fails alone.
    const message = error instanceof Error ? error.message : String(error);
    parentPort?.postMessage({ kind: "failed", task: task.task, message } satisfies BodyReply);
  }
});
