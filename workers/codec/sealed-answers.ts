/**
 * @file The answers of queries that a process with keys does not believe: those that came in the open. An answer is made when it is asked for, by a worker that has
 * the keys, where the process that asks has them.
 *
 * A codec is not told what it reads for, so an interceptor of the client says it, around the call. Results of workflows and histories may be older than the keys.
 */

import type { WorkflowClientInterceptor } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { AsyncLocalStorage } from "node:async_hooks";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { isEncrypted } from "./encryption.ts";

/** The workflow that is asked. */
const asked = new AsyncLocalStorage<string>();

export const askingInterceptor: WorkflowClientInterceptor = {
  query: (input, next) =>
    asked.run(input.workflowExecution.workflowId ?? "", async () => await next(input)),
};

/** Of clients with keys; reads right before the encryption does. */
export const answersCodec: PayloadCodec = {
  encode: async (payloads) => await Promise.resolve(payloads),
  decode: async (payloads) => {
    const workflowId = asked.getStore();
    if (workflowId !== undefined && !payloads.every(isEncrypted))
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `the answer of ${workflowId} is not believed: it is not encrypted, and there are keys here. A worker of the fleet has no key file (ORBWEAVER_ENCRYPTION_KEYS), or somebody else has answered.`,
      );
    return await Promise.resolve(payloads);
  },
};
