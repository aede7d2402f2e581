/**
 * @file The rows of a list of jobs, as Temporal's visibility has them.
 *
 * Temporal's own list decodes all of each row, its memo with a proof and its attributes twice, which took most of the time of a list of a thousand
 * jobs. Here a row decodes what it is asked for. Cost: one call a page.
 */

import type { Client } from "@temporalio/client";
import type { Payload, TypedSearchAttributes } from "@temporalio/common";
import proto from "@temporalio/proto";
import { decodedPayloads } from "./payloads.ts";

/** What a list reads of Temporal's `WorkflowExecutionInfo`. */
export interface JobRow {
  readonly workflowId: string;
  readonly status: { readonly name: string };
  readonly startTime: Date;
  readonly closeTime?: Date | undefined;
  readonly typedSearchAttributes: Pick<TypedSearchAttributes, "get">;
  /** The entries that were asked for. */
  readonly memo?: Readonly<Record<string, unknown>> | undefined;
}

type RawRow = proto.temporal.api.workflow.v1.IWorkflowExecutionInfo;
type Time = proto.google.protobuf.ITimestamp | null | undefined;

/** Page by page; `memos`: the entries of a memo that the caller reads. */
export async function* jobRows(
  client: Client,
  {
    query,
    pageSize,
    memos,
  }: { readonly query: string; readonly pageSize: number; readonly memos: readonly string[] },
): AsyncGenerator<readonly JobRow[]> {
  const { namespace } = client.options;
  let nextPageToken: Uint8Array = new Uint8Array();
  do {
    const page = await client.workflowService.listWorkflowExecutions({
      ...{ namespace, query, pageSize, nextPageToken },
    });
    yield await Promise.all(page.executions.map((row) => rowOf(client, row, memos)));
    nextPageToken = page.nextPageToken;
  } while (nextPageToken.length > 0);
}

async function rowOf(client: Client, raw: RawRow, memos: readonly string[]): Promise<JobRow> {
  const attributes = raw.searchAttributes?.indexedFields ?? {};
  const fields = raw.memo?.fields ?? {};
  const asked = memos.flatMap((name) => {
    const payload = Object.hasOwn(fields, name) ? fields[name] : undefined;
    return payload === undefined ? [] : [{ name, payload }];
  });
  const values =
    asked.length === 0
      ? []
      : await decodedPayloads(
          client,
          asked.map(({ payload }) => payload),
          raw.execution?.workflowId ?? undefined,
        );
  const closeTime = dateOf(raw.closeTime);
  return {
    workflowId: raw.execution?.workflowId ?? "",
    status: { name: statusName(raw.status) },
    startTime: dateOf(raw.startTime) ?? new Date(0),
    ...(closeTime !== undefined && { closeTime }),
    typedSearchAttributes: {
      get: ({ name, type }: { readonly name: string; readonly type: string }) =>
        // `attributeOf` gives a value of the key's type.
        (Object.hasOwn(attributes, name)
          ? attributeOf(type, attributes[name])
          : undefined) as never,
    },
    memo: Object.fromEntries(asked.map(({ name }, at) => [name, values[at]])),
  };
}

/** As the client library names them: `RUNNING`, `TIMED_OUT`, and `CANCELLED` with two L. */
function statusName(status: RawRow["status"]): string {
  const name = proto.temporal.api.enums.v1.WorkflowExecutionStatus[status ?? 0] ?? "UNSPECIFIED";
  const bare = name.replace(/^WORKFLOW_EXECUTION_STATUS_/, "");
  return bare === "CANCELED" ? "CANCELLED" : bare;
}

function dateOf(time: Time): Date | undefined {
  if (time === null || time === undefined) return undefined;
  return new Date(Number(time.seconds ?? 0) * 1_000 + Math.floor((time.nanos ?? 0) / 1e6));
}

/** No codec touches search attributes; they are JSON. One of another form than its key's is none. */
function attributeOf(type: string, payload: Payload | undefined): unknown {
  if (!payload?.data) return undefined;
  const value: unknown = JSON.parse(Buffer.from(payload.data).toString("utf8"));
  return FORMS.get(type)?.(value) === true ? value : undefined;
}

/** Of the attributes that jobs have. */
const FORMS: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ["KEYWORD", (value: unknown) => typeof value === "string"],
  ["INT", (value: unknown) => Number.isInteger(value)],
  [
    "KEYWORD_LIST",
    (value: unknown) => Array.isArray(value) && value.every((each) => typeof each === "string"),
  ],
]);
