/**
 * @file One request to one replica, and its answer back to the client as it comes.
 *
 * An answer of events (`text/event-stream`) is passed on piece by piece; any other is kept until it is whole, up to `KEPT_BYTES`, so that a replica that is
 * lost in the middle costs nothing: the request is asked again elsewhere. What passes is bounded: a client that takes nothing stops the replica's
 * writing, and after `stallMs` it is given up. Nothing is parsed.
 */

import { Agent, request as ask, type IncomingMessage, type ServerResponse } from "node:http";
import type { Seat } from "./service-router.ts";

export interface RelayedRequest {
  readonly method: string;
  /** With its query; without a host, so that no client chooses another one. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface RelayLimits {
  /** A replica that says nothing for so long, before or in its answer, has failed. */
  readonly silentMs: number;
  /** A client that takes nothing of its answer for so long is given up. */
  readonly stallMs: number;
}

export type Relayed =
  | { readonly kind: "answered"; readonly status: number }
  /** Nothing of an answer has gone out: it may be asked again. `isLost`: the replica had it, and ended or fell silent over it. */
  | {
      readonly kind: "again";
      readonly why: string;
      readonly isBusy: boolean;
      readonly isLost: boolean;
    }
  /** A part of it has gone out. */
  | { readonly kind: "broken"; readonly why: string }
  | { readonly kind: "gone" };

export interface RelayOptions {
  readonly limits: RelayLimits;
  /** The replica's own token. */
  readonly token?: string;
  /** Each piece of an answer of events, as it goes out. */
  readonly onPiece: (piece: Uint8Array) => void;
  /** Aborted when the client hangs up. */
  readonly signal: AbortSignal;
}

const KEPT_BYTES = 1024 * 1024;
/** What a draining or a full replica says. */
const ELSEWHERE: readonly number[] = [429, 503];
const agent = new Agent({ keepAlive: true, maxFreeSockets: 256 });

const AGAIN = { kind: "again", isBusy: false, isLost: false } as const;

/** Codes of a connection that the other end has closed. */
const CLOSED: readonly string[] = ["ECONNRESET", "EPIPE"];

/** Nobody has taken the request. */
class Unreached extends Error {}

export async function relay(
  request: RelayedRequest,
  { seat, response }: { readonly seat: Seat; readonly response: ServerResponse },
  options: RelayOptions,
): Promise<Relayed> {
  let answer: IncomingMessage;
  try {
    answer = await answerOf(request, seat, options);
  } catch (error) {
    return options.signal.aborted
      ? { kind: "gone" }
      : { ...AGAIN, why: messageOf(error), isLost: !(error instanceof Unreached) };
  }
  const status = answer.statusCode ?? 502;
  if (ELSEWHERE.includes(status)) {
    answer.resume();
    return { ...AGAIN, why: `it answers with ${status}`, isBusy: status === 429 };
  }
  try {
    const isEvents = /^text\/event-stream\b/.test(answer.headers["content-type"] ?? "");
    if (isEvents) await passOn(answer, response, options);
    else await passWhole(answer, response, options);
    return { kind: "answered", status };
  } catch (error) {
    answer.destroy();
    if (options.signal.aborted || error instanceof SlowClient) return { kind: "gone" };
    const why = messageOf(error);
    return response.headersSent ? { kind: "broken", why } : { ...AGAIN, why, isLost: true };
  }
}

function answerOf(
  { method, path, headers, body }: RelayedRequest,
  { url }: Seat,
  { limits, token, signal }: RelayOptions,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const asking = ask({
      hostname,
      port,
      path,
      method,
      agent,
      signal,
      headers: {
        ...headers,
        "content-length": body.length,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
    });
    asking.setTimeout(limits.silentMs, () =>
      asking.destroy(new Error(`it has said nothing for ${limits.silentMs / 1000} s`)),
    );
    asking.once("response", resolve);
    asking.once("error", (error: NodeJS.ErrnoException) => {
      // A kept connection may have been closed before the request came; silence comes after it.
      const isClosed = asking.reusedSocket && CLOSED.includes(error.code ?? "");
      reject(isClosed || error.syscall === "connect" ? new Unreached(error.message) : error);
    });
    asking.end(body);
  });
}

const PASSED = ["content-type", "orbweaver-batch-rows", "retry-after"] as const;

function writeHead(answer: IncomingMessage, response: ServerResponse, length?: number): void {
  const headers = PASSED.flatMap((name): [string, string][] => {
    const value = answer.headers[name];
    return typeof value === "string" ? [[name, value]] : [];
  });
  response.writeHead(answer.statusCode ?? 502, {
    ...Object.fromEntries(headers),
    ...(length !== undefined && { "content-length": length }),
  });
}

async function passWhole(
  answer: IncomingMessage,
  response: ServerResponse,
  options: RelayOptions,
): Promise<void> {
  const kept: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (response.headersSent) await written(response, chunk, options);
    else {
      kept.push(chunk);
      if (bytes <= KEPT_BYTES) continue;
      writeHead(answer, response);
      await written(response, Buffer.concat(kept.splice(0)), options);
    }
  }
  whole(answer);
  if (!response.headersSent) {
    writeHead(answer, response, bytes);
    await written(response, Buffer.concat(kept), options);
  }
  response.end();
}

async function passOn(
  answer: IncomingMessage,
  response: ServerResponse,
  options: RelayOptions,
): Promise<void> {
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    // Before the first piece nothing has gone out, so that a replica lost by then costs nothing.
    if (!response.headersSent) writeHead(answer, response);
    options.onPiece(chunk);
    await written(response, chunk, options);
  }
  whole(answer);
  if (!response.headersSent) writeHead(answer, response);
  response.end();
}

/** Node ends the loop over a cut answer without an error where its length was not said. */
function whole(answer: IncomingMessage): void {
  if (!answer.complete) throw new Error("its answer was cut off");
}

class SlowClient extends Error {}

/** Resolves when the client has taken enough for more. */
async function written(
  response: ServerResponse,
  piece: Uint8Array,
  { limits: { stallMs }, signal }: RelayOptions,
): Promise<void> {
  if (signal.aborted) throw new SlowClient("the client has hung up");
  if (response.write(piece)) return;
  await new Promise<void>((resolve, reject) => {
    const over = (error?: Error): void => {
      clearTimeout(timer);
      response.off("drain", onDrain);
      response.off("close", onClose);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onDrain = (): void => over();
    const onClose = (): void => over(new SlowClient("the client has hung up"));
    const timer = setTimeout(() => {
      response.destroy();
      over(new SlowClient(`the client has taken nothing for ${stallMs / 1000} s`));
    }, stallMs);
    response.once("drain", onDrain);
    response.once("close", onClose);
  });
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
