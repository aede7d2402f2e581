/**
 * @file Workflows that the server lists, each as far as it can be read.
 *
 * Whoever reaches the frontend starts workflows with any memo, and the list of Temporal's client fails at the first whose memo it cannot decode. Here what cannot be read
 * is absent. Cost: one call for each thousand.
 */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { decodeOptionalSingle } from "@temporalio/common/lib/internal-non-workflow/index.js";

export interface ListedRun {
  readonly workflowId: string;
  readonly runId: string;
  /** The value of a search attribute. */
  attribute(name: string): unknown;
  memo(name: string): Promise<unknown>;
}

const PAGE = 1_000;

export async function* listedRuns(client: Client, query: string): AsyncGenerator<ListedRun> {
  const { namespace, loadedDataConverter } = client.options;
  const { payloadCodecs, payloadConverter } = loadedDataConverter;
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await client.workflowService.listWorkflowExecutions({
      ...{ namespace, query, pageSize: PAGE },
      ...(nextPageToken !== undefined && { nextPageToken }),
    });
    for (const { execution, searchAttributes, memo } of page.executions) {
      const workflowId = execution?.workflowId ?? "";
      const runId = execution?.runId ?? "";
      yield {
        workflowId,
        runId,
        attribute(name) {
          const payload = searchAttributes?.indexedFields?.[name];
          try {
            return payload && defaultPayloadConverter.fromPayload(payload);
          } catch {
            return undefined;
          }
        },
        async memo(name) {
          const payload = memo?.fields?.[name];
          const context = { type: "workflow", namespace, workflowId } as const;
          try {
            const plain = await decodeOptionalSingle(payloadCodecs, payload, context);
            return plain && payloadConverter.fromPayload(plain);
          } catch {
            return undefined;
          }
        },
      };
    }
    nextPageToken = page.nextPageToken.length > 0 ? page.nextPageToken : undefined;
  } while (nextPageToken !== undefined);
}
