/** @file What a listing of workflows uses of a client, of a server that has these, in pages. */

import proto from "@temporalio/proto";
import type { RPCImplCallback } from "protobufjs";

const { ListWorkflowExecutionsRequest: Request, ListWorkflowExecutionsResponse: Response } =
  proto.temporal.api.workflowservice.v1;

/** Each page is asked for with the token of the one before; `asked` gets their numbers. */
export function listingServer(
  pages: readonly (readonly object[])[],
  asked?: number[],
): Readonly<Record<"options" | "withMetadata" | "workflowService", object>> {
  const payloadConverter = {
    fromPayload: ({ data }: { data: Uint8Array }): unknown =>
      JSON.parse(Buffer.from(data).toString("utf8")),
  };
  return {
    options: { namespace: "n", loadedDataConverter: { payloadCodecs: [], payloadConverter } },
    withMetadata: (metadata: Readonly<Record<string, string>>, call: () => Promise<unknown>) => {
      if (metadata["temporal-namespace"] !== "n") throw new Error("another namespace");
      return call();
    },
    workflowService: {
      rpcImpl: ({ name }: { name: string }, bytes: Uint8Array, callback: RPCImplCallback) => {
        const { nextPageToken, query } = Request.decode(bytes);
        const [at = 0] = nextPageToken;
        if (name !== "ListWorkflowExecutions" || query === "") throw new Error(name);
        const page = {
          executions: [...(pages[at] ?? [])],
          nextPageToken: at + 1 < pages.length ? Uint8Array.of(at + 1) : new Uint8Array(),
        };
        asked?.push(at);
        callback(null, Response.encode(page).finish());
      },
    },
  };
}
