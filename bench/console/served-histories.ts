/**
 * @file A Temporal server that knows one workflow and its histories, for a console that is measured as its users start it: it answers over gRPC the few calls that
 * a follower makes, and says of all others that it does not have them.
 *
 * A page has whole workflow tasks, as the server's have. Of the newest run as much is told as is given; who waits for more, waits.
 */

import proto from "@temporalio/proto";
import { once } from "node:events";
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import type { HistoryEvent } from "../../console/follow/workflow-task.ts";

export interface ServedHistories {
  readonly address: string;
  /** Histories are told from now on; a call for one waits until then. */
  readonly open: () => void;
  readonly close: () => Promise<void>;
}

/** By run, the oldest first; the last one goes on. */
export type Histories = ReadonlyMap<string, readonly HistoryEvent[]>;

const {
  DescribeWorkflowExecutionRequest,
  DescribeWorkflowExecutionResponse,
  GetSystemInfoResponse,
  GetWorkflowExecutionHistoryRequest,
  GetWorkflowExecutionHistoryResponse,
} = proto.temporal.api.workflowservice.v1;

const PAGE_EVENTS = 256;
/** Of gRPC: a byte that says whether it is compressed, and four of its length. */
const FRAME_BYTES = 5;
const NOT_FOUND = 5;
const UNIMPLEMENTED = 12;

/** A message, or the code with which the call fails. */
type Answer = Uint8Array | number;

export async function serveHistories(
  workflowId: string,
  histories: Histories,
): Promise<ServedHistories> {
  const newest = [...histories.keys()].at(-1) ?? "";
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  const sessions = new Set<ServerHttp2Session>();

  function described(request: Uint8Array): Answer {
    const { execution } = DescribeWorkflowExecutionRequest.decode(request);
    if (execution?.workflowId !== workflowId) return NOT_FOUND;
    const runId = execution.runId || newest;
    return DescribeWorkflowExecutionResponse.encode({
      workflowExecutionInfo: { execution: { workflowId, runId }, ...lengthOf(runId) },
    }).finish();
  }

  /** The message is encoded from a plain number as well as from one of 64 bits that its type names. */
  const lengthOf = (runId: string): object => {
    return { historyLength: histories.get(runId)?.length ?? 0 };
  };

  /** Undefined where more is waited for. */
  function page(request: Uint8Array): Answer | undefined {
    const asked = GetWorkflowExecutionHistoryRequest.decode(request);
    const { execution, nextPageToken, waitNewEvent } = asked;
    const events = histories.get(execution?.runId || newest);
    if (execution?.workflowId !== workflowId || events === undefined) return NOT_FOUND;
    const from = Number(Buffer.from(nextPageToken).toString() || 0);
    const isFollowed = waitNewEvent && (execution.runId || newest) === newest;
    if (from >= events.length && isFollowed) return undefined;
    const to = pageEnd(events, from);
    const isMore = to < events.length || isFollowed;
    return GetWorkflowExecutionHistoryResponse.encode({
      history: { events: events.slice(from, to) },
      ...(isMore && { nextPageToken: Buffer.from(String(to)) }),
    }).finish();
  }

  async function answer(method: string, request: Uint8Array): Promise<Answer | undefined> {
    if (method === "GetSystemInfo") return GetSystemInfoResponse.encode({}).finish();
    if (method === "DescribeWorkflowExecution") return described(request);
    if (method !== "GetWorkflowExecutionHistory") return UNIMPLEMENTED;
    await opened;
    return page(request);
  }

  const server = createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream, headers) => {
    // Its client has gone.
    stream.on("error", () => stream.destroy());
    const method = String(headers[":path"]).split("/").at(-1) ?? "";
    void requestOf(stream).then(async (request) => {
      const found = await answer(method, request);
      if (found !== undefined && !stream.destroyed) reply(stream, found);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${String(port)}`,
    open: () => open(),
    async close() {
      for (const session of sessions) session.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** A page ends where a task's commands have been told: before the next signal. */
function pageEnd(events: readonly HistoryEvent[], from: number): number {
  const next = events.findIndex(
    ({ workflowExecutionSignaledEventAttributes: signal }, at) =>
      at >= from + PAGE_EVENTS && signal !== undefined && signal !== null,
  );
  return next === -1 ? events.length : next;
}

async function requestOf(stream: ServerHttp2Stream): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part as Buffer);
  return Buffer.concat(parts).subarray(FRAME_BYTES);
}

function reply(stream: ServerHttp2Stream, answer: Answer): void {
  const [status, message] = typeof answer === "number" ? [answer, undefined] : [0, answer];
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": String(status) }));
  if (message === undefined) return void stream.end();
  const frame = Buffer.alloc(FRAME_BYTES);
  frame.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([frame, message]));
}
