/**
 * @file Descriptions of workflows whose memos nobody can decode: a client's interceptor that puts a value in the place of what cannot be read.
 *
 * Whoever reaches the frontend starts workflows with any memo, and Temporal's client fails to describe them. Who asked whether a run is open would never know: its
 * GPUs stayed granted, and one audit that fails is that of all jobs. Cost: each entry is decoded twice.
 */

import type { WorkflowClientInterceptor } from "@temporalio/client";
import { defaultPayloadConverter, type DataConverter, type Payload } from "@temporalio/common";
import {
  decodeOptionalSingle,
  encode,
} from "@temporalio/common/lib/internal-non-workflow/index.js";
import { UNREADABLE } from "../protocol/unreadable.ts";

export function readableMemos(
  { payloadCodecs = [] }: DataConverter,
  namespace: string,
): WorkflowClientInterceptor {
  const readable = async (payload: Payload, workflowId: string): Promise<Payload> => {
    const context = { type: "workflow", namespace, workflowId } as const;
    try {
      const plain = await decodeOptionalSingle(payloadCodecs, payload, context);
      if (plain) defaultPayloadConverter.fromPayload(plain);
      return payload;
    } catch {
      const [instead = payload] = await encode(
        payloadCodecs,
        [defaultPayloadConverter.toPayload(UNREADABLE)],
        context,
      );
      return instead;
    }
  };
  return {
    describe: async (input, next) => {
      const description = await next(input);
      const fields = description.workflowExecutionInfo?.memo?.fields ?? {};
      const workflowId = input.workflowExecution.workflowId ?? "";
      for (const [name, payload] of Object.entries(fields))
        fields[name] = await readable(payload, workflowId);
      return description;
    },
  };
}
