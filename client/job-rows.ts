/**
 * @file The rows of a list of jobs, as Temporal's visibility has them.
 *
 * A row decodes what lists read; the page after a page is under way while that one is read. Cost: one call a page.
 */

import type { Client } from "@temporalio/client";
import type { TypedSearchAttributes } from "@temporalio/common";
import proto from "@temporalio/proto";
import type { RPCImpl } from "protobufjs";
import { decodedPayloads, plainPayloads } from "./payloads.ts";
import { readVisibilityPage, type VisibilityPage, type VisibilityRow } from "./visibility-page.ts";

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

export interface AskedRows {
  readonly query: string;
  /** Most that the caller reads, as far as it knows. */
  readonly limit: number;
  /** Search attributes, and entries of a memo, that the caller reads. */
  readonly attributes: readonly string[];
  readonly memos: readonly string[];
}

const { api } = proto.temporal;
const MOST_A_PAGE = 1_000;
/** Connections read its name alone. */
const LIST_METHOD = { name: "ListWorkflowExecutions" } as Parameters<RPCImpl>[0];

/** Page by page. */
export async function* jobRows(
  client: Client,
  { query, limit, attributes, memos }: AskedRows,
): AsyncGenerator<readonly JobRow[]> {
  const asked = { attributes: new Set(attributes), memo: new Set(memos) };
  const pageSize = Math.min(limit, MOST_A_PAGE);
  const ask = async (nextPageToken: Uint8Array): Promise<VisibilityPage> =>
    readVisibilityPage(await listed(client, { query, pageSize, nextPageToken }), asked);
  let read = 0;
  let next: Promise<VisibilityPage> | undefined = ask(new Uint8Array());
  while (next !== undefined) {
    const page: VisibilityPage = await next;
    read += page.rows.length;
    const goesOn = page.nextPageToken.length > 0;
    const isAhead = goesOn && read < limit;
    next = isAhead ? ask(page.nextPageToken) : undefined;
    // Fails where it is awaited, if the caller comes that far.
    next?.catch(() => undefined);
    yield await rowsOf(client, page);
    if (goesOn && !isAhead) next = ask(page.nextPageToken);
  }
}

/** One page as it is on the wire, by the call below the client's methods: those decode it whole. */
async function listed(
  client: Client,
  page: { readonly query: string; readonly pageSize: number; readonly nextPageToken: Uint8Array },
): Promise<Uint8Array> {
  const { namespace } = client.options;
  const request = api.workflowservice.v1.ListWorkflowExecutionsRequest.encode({
    namespace,
    ...page,
  }).finish();
  const call = (): Promise<Uint8Array> =>
    new Promise((resolve, reject) => {
      const { rpcImpl } = client.workflowService;
      rpcImpl?.(LIST_METHOD, request, (error, bytes) => {
        if (bytes) resolve(bytes);
        else reject(error ?? new Error("the server ended the call without an answer"));
      });
    });
  // As the methods do it: clouds route by it.
  return await client.withMetadata({ "temporal-namespace": namespace }, call);
}

async function rowsOf(client: Client, { rows }: VisibilityPage): Promise<readonly JobRow[]> {
  if (!rows.some(({ memo }) => memo.size > 0)) return rows.map((row) => rowOf(row));
  const { payloadCodecs } = client.options.loadedDataConverter;
  // A promise for each row would cost more than the row.
  return payloadCodecs.length === 0
    ? rows.map((row) => rowWithPlainMemo(client, row))
    : await Promise.all(rows.map(async (row) => await rowWithEncodedMemo(client, row)));
}

/** Whoever reaches the frontend starts workflows with any memo: what cannot be read is absent. */
function rowWithPlainMemo(client: Client, row: VisibilityRow): JobRow {
  const memo: Record<string, unknown> = {};
  for (const [name, bytes] of row.memo)
    try {
      [memo[name]] = plainPayloads(client, [api.common.v1.Payload.decode(bytes)]);
    } catch {
      continue;
    }
  return { ...rowOf(row), memo };
}

async function rowWithEncodedMemo(client: Client, row: VisibilityRow): Promise<JobRow> {
  const memo: Record<string, unknown> = {};
  for (const [name, bytes] of row.memo)
    try {
      const payload = api.common.v1.Payload.decode(bytes);
      [memo[name]] = await decodedPayloads(client, [payload], row.workflowId);
    } catch {
      continue;
    }
  return { ...rowOf(row), memo };
}

/** Workflows of other kinds, with these entries of their memos. */
export async function* listedRuns(
  client: Client,
  query: string,
  memos: readonly string[] = [],
): AsyncGenerator<Pick<JobRow, "workflowId" | "memo">> {
  const asked = { query, limit: Infinity, attributes: [], memos };
  for await (const page of jobRows(client, asked)) yield* page;
}

function rowOf({ workflowId, status, startedAtMs, closedAtMs, attributes }: VisibilityRow): JobRow {
  return {
    workflowId,
    status: { name: statusName(status) },
    startTime: new Date(startedAtMs),
    ...(closedAtMs !== undefined && { closeTime: new Date(closedAtMs) }),
    typedSearchAttributes: {
      get: ({ name, type }: { readonly name: string; readonly type: string }) =>
        // `attributeOf` gives a value of the key's type.
        attributeOf(type, attributes.get(name)) as never,
    },
  };
}

/** As the client library names them: `RUNNING`, `TIMED_OUT`, and `CANCELLED` with two L. */
function statusName(status: number): string {
  const name = api.enums.v1.WorkflowExecutionStatus[status] ?? "UNSPECIFIED";
  const bare = name.replace(/^WORKFLOW_EXECUTION_STATUS_/, "");
  return bare === "CANCELED" ? "CANCELLED" : bare;
}

/** One of another form than its key's is none. */
function attributeOf(type: string, json: string | undefined): unknown {
  if (json === undefined || json === "") return undefined;
  const value: unknown = JSON.parse(json);
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
