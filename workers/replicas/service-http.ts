/**
 * @file The endpoint of a service: takes requests in, has each answered by a replica, and says how the service is.
 *
 * | request | answer |
 * | --- | --- |
 * | `GET /v2/health/live` | 200 as long as the endpoint listens |
 * | `GET /healthz`, `/v2/health/ready`, `/v2/models/<name>/ready` | 200 while requests are taken, also without a replica; 503 while it drains |
 * | `GET /metrics`, `/v2/models/<name>/stats` | the service's own counts |
 * | any other | a replica's |
 *
 * A body is taken in whole, within a bound of its own and one of all, so that it can be asked again: a request whose replica is lost, drains or is full
 * before anything of its answer has gone out goes to another, or waits for one. No body is parsed. Health needs no right; counts need that to look,
 * the rest that to ask (`guard`).
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { IDLE_RULE, type IdleRule } from "../../access/idle-connections.ts";
import { httpServer, type ServedTls } from "../../access/listener.ts";
import { promptBlocks } from "../../planning/serving/prompt-blocks.ts";
import { bodyOf, pathOf } from "../serving/body-intake.ts";
import { relay, type RelayedRequest, type RelayLimits } from "./relay.ts";
import type { ReplicaKeeper } from "./replica-keeper.ts";
import type { ServiceCounts } from "./service-metrics.ts";
import type { Seat, ServiceRouter } from "./service-router.ts";

export type ServiceAct = "ask" | "look";

export interface ServiceRefusal {
  /** 401: not known; 403: known, and not allowed. */
  readonly status: 401 | 403;
  readonly why: string;
}

export interface EndpointLimits extends RelayLimits {
  readonly bodyBytes: number;
  /** Of all requests that wait or are in service. */
  readonly bodiesBytes: number;
  /** A request has come whole in this time, its head in a sixth of it. */
  readonly requestMs: number;
  readonly connections: number;
  /** Of connections on which nothing is under way. */
  readonly idle: IdleRule;
}

export const ENDPOINT_LIMITS: EndpointLimits = Object.freeze({
  bodyBytes: 64 * 1024 * 1024,
  bodiesBytes: 512 * 1024 * 1024,
  requestMs: 120_000,
  silentMs: 300_000,
  stallMs: 30_000,
  connections: 4_000,
  idle: { ...IDLE_RULE, most: 2_000 },
});

export interface EndpointParts {
  readonly name: string;
  readonly router: ServiceRouter;
  readonly keeper: ReplicaKeeper;
  readonly counts: ServiceCounts;
  readonly guard: (
    request: IncomingMessage,
    act: ServiceAct,
  ) => Promise<ServiceRefusal | undefined>;
  /** What replicas ask for. */
  readonly replicaToken?: string;
  readonly limits: EndpointLimits;
}

export interface EndpointPlace {
  readonly host: string;
  readonly port: number;
  readonly tls?: ServedTls;
}

export interface Endpoint {
  readonly port: number;
  /** Refuses new requests, answers those in service, and closes. */
  readonly drain: () => Promise<void>;
}

interface Open extends EndpointParts {
  readonly isDraining: () => boolean;
  readonly bodiesBytes: () => number;
  readonly take: (bytes: number) => boolean;
  readonly give: (bytes: number) => void;
}

export async function openEndpoint(
  parts: EndpointParts,
  { host, port, tls }: EndpointPlace,
): Promise<Endpoint> {
  const { limits, router } = parts;
  let [isDraining, bodiesBytes] = [false, 0];
  const open: Open = {
    ...parts,
    isDraining: () => isDraining,
    bodiesBytes: () => bodiesBytes,
    take: (bytes) => {
      if (bodiesBytes + bytes > limits.bodiesBytes) return false;
      bodiesBytes += bytes;
      return true;
    },
    give: (bytes) => (bodiesBytes -= bytes),
  };
  const under = new Set<Promise<void>>();
  const headersTimeout = Math.ceil(limits.requestMs / 6);
  const options = {
    tls,
    requestTimeout: limits.requestMs,
    idle: limits.idle,
    headersTimeout,
    handshakeTimeout: headersTimeout,
    connectionsCheckingInterval: Math.min(1_000, headersTimeout),
  };
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const work = answered(request, response, open)
      .catch((error: unknown) => {
        // A client that hung up in its body, too.
        say(response, 500, error instanceof Error ? error.message : String(error));
      })
      .finally(() => under.delete(work));
    under.add(work);
  };
  const server = httpServer(options, take);
  server.maxConnections = limits.connections;
  await listening(server, host, port);
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async drain() {
      isDraining = true;
      router.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      await Promise.all(under);
      server.closeAllConnections();
      await closed;
    },
  };
}

const listening = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => resolve());
  });

async function answered(
  request: IncomingMessage,
  response: ServerResponse,
  open: Open,
): Promise<void> {
  const path = pathOf(request);
  if (path === undefined) return say(response, 400, "the path cannot be read");
  const { pathname } = path;
  const { name, isDraining, counts } = open;
  const about = `/v2/models/${encodeURIComponent(name)}`;
  const ready = isDraining() ? 503 : 200;
  switch (pathname) {
    case "/v2/health/live":
      return json(response, 200, { live: true });
    case "/v2/health/ready":
      return json(response, ready, { ready: !isDraining() });
    case `${about}/ready`:
      return json(response, ready, { name, ready: !isDraining() });
    case "/healthz":
      return json(response, ready, { status: isDraining() ? "draining" : "ready" });
  }
  const isLook = pathname === "/metrics" || pathname === `${about}/stats`;
  const refusal = await open.guard(request, isLook ? "look" : "ask");
  if (refusal !== undefined) {
    counts.end("refused");
    if (refusal.status === 401) {
      response.setHeader("www-authenticate", "Bearer");
      // Who has shown no right does not rest.
      response.setHeader("connection", "close");
    }
    return say(response, refusal.status, refusal.why);
  }
  if (pathname === `${about}/stats`) return json(response, 200, counts.statistics(name));
  if (pathname === "/metrics") {
    const { router, keeper, bodiesBytes } = open;
    const now = { ...router.load(), replicas: keeper.counts(), bodiesBytes: bodiesBytes() };
    response.writeHead(200, { "content-type": "text/plain; version=0.0.4" });
    response.end(counts.metricsText(now));
    return;
  }
  await byReplica({ request, path }, response, open);
}

interface Arrived {
  readonly request: IncomingMessage;
  readonly path: URL;
}

async function byReplica(
  { request, path }: Arrived,
  response: ServerResponse,
  open: Open,
): Promise<void> {
  const { limits, counts } = open;
  let taken = 0;
  const take = (bytes: number): boolean => {
    if (!open.take(bytes)) return false;
    taken += bytes;
    return true;
  };
  const gone = new AbortController();
  const { socket } = request;
  const hangUp = (): void => gone.abort();
  response.once("close", hangUp);
  // One of several requests at once never closes by itself where its connection ends before its turn.
  socket.setMaxListeners(0).once("close", hangUp);
  try {
    const tooLarge = `the body has more than ${limits.bodyBytes} bytes`;
    const body =
      Number(request.headers["content-length"] ?? 0) > limits.bodyBytes
        ? ("too large" as const)
        : await bodyOf(request, { bodyBytes: limits.bodyBytes, take });
    if (body === "too large" || body === "no room") {
      counts.end("refused");
      response.setHeader("connection", "close");
      if (body === "too large") say(response, 413, tooLarge);
      else
        later(response, 429, `the bodies of requests under way fill ${limits.bodiesBytes} bytes`);
      return;
    }
    await untilAnswered({ request, path, response, body, signal: gone.signal }, open);
  } finally {
    socket.off("close", hangUp);
    open.give(taken);
  }
}

interface Coming extends Arrived {
  readonly response: ServerResponse;
  readonly body: Uint8Array;
  readonly signal: AbortSignal;
}

/** A replica that is full takes some time; one that does not answer is not asked again until it was looked for. */
const BUSY_MS = 50;
/** A request over which so many replicas were lost is taken for their cause: it would end those of all other requests, one after the other. */
const MOST_LOST = 5;

async function untilAnswered(
  { request, path, response, body, signal }: Coming,
  open: Open,
): Promise<void> {
  const { router, keeper, counts } = open;
  const blocks = promptBlocks(body);
  const cameMs = performance.now();
  const relayed = relayedOf({ request, path }, body);
  let lost = 0;
  for (let isAgain = false; ; isAgain = true) {
    const waiting = router.take({ blocks, signal, isAgain });
    keeper.stir();
    const taken = await waiting;
    if (taken.kind !== "slot") return notTaken(taken.kind, response, counts);
    const { seat, release } = taken.slot;
    const startMs = performance.now();
    const pieces: Pieces = { count: 0, firstMs: 0, lastMs: 0 };
    const how = await relayTo(seat, { relayed, response, signal, pieces }, open).finally(release);
    if (how.kind === "again") {
      if (how.isLost) lost += 1;
      if (lost === MOST_LOST) {
        keeper.suspect(seat.id);
        counts.end("failed");
        const why = `${String(lost)} replicas were lost while they had this request, the last one because ${how.why}`;
        return say(response, 502, `${why}; it is not asked again`);
      }
      counts.again();
      if (how.isBusy) await new Promise((resolve) => setTimeout(resolve, BUSY_MS));
      else keeper.suspect(seat.id);
      continue;
    }
    if (how.kind === "gone") return counts.end("gone");
    if (how.kind === "broken") {
      keeper.suspect(seat.id);
      counts.end("lost");
      // The client sees that its answer is not whole.
      response.destroy();
      return;
    }
    counts.end(how.status < 500 ? "answered" : "failed", {
      waitMs: startMs - cameMs,
      wholeMs: performance.now() - cameMs,
      ...pieceTimes(pieces, cameMs),
    });
    return;
  }
}

interface Pieces {
  count: number;
  firstMs: number;
  lastMs: number;
}

const pieceTimes = ({ count, firstMs, lastMs }: Pieces, cameMs: number) =>
  count === 0
    ? {}
    : {
        ttftMs: firstMs - cameMs,
        ...(count > 1 && { tpotMs: (lastMs - firstMs) / (count - 1) }),
      };

function relayTo(
  seat: Seat,
  {
    relayed,
    response,
    signal,
    pieces,
  }: Pick<Coming, "response" | "signal"> & {
    readonly relayed: RelayedRequest;
    readonly pieces: Pieces;
  },
  { limits, replicaToken }: Open,
) {
  return relay(
    relayed,
    { seat, response },
    {
      limits,
      signal,
      ...(replicaToken !== undefined && { token: replicaToken }),
      onPiece: (piece) => {
        const now = performance.now();
        if (pieces.count === 0) pieces.firstMs = now;
        pieces.count += eventsIn(piece);
        pieces.lastMs = now;
      },
    },
  );
}

const DATA = Buffer.from("data:");

/** Events that begin in the piece. */
function eventsIn(piece: Uint8Array): number {
  const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
  let count = 0;
  for (let at = bytes.indexOf(DATA); at !== -1; at = bytes.indexOf(DATA, at + DATA.length))
    count += 1;
  return count;
}

const PASSED = ["content-type", "accept", "x-request-id", "traceparent"] as const;

/** The client's own token is for the endpoint. */
function relayedOf(
  { request: { method, headers }, path: { pathname, search } }: Arrived,
  body: Uint8Array,
): RelayedRequest {
  const passed = PASSED.flatMap((name): [string, string][] => {
    const value = headers[name];
    return typeof value === "string" ? [[name, value]] : [];
  });
  return {
    method: method ?? "GET",
    path: `${pathname}${search}`,
    headers: Object.fromEntries(passed),
    body,
  };
}

function notTaken(
  why: "full" | "late" | "gone" | "closed",
  response: ServerResponse,
  counts: ServiceCounts,
): void {
  counts.end(why === "gone" ? "gone" : "refused");
  if (why === "full") later(response, 429, "too many requests wait");
  if (why === "late") later(response, 503, "no replica has come up in time; see the service's log");
  if (why === "closed") later(response, 503, "the endpoint is ending and takes no more requests");
}

function later(response: ServerResponse, status: number, why: string): void {
  if (!response.headersSent) response.setHeader("retry-after", "1");
  say(response, status, `${why}; retry in 1 s`);
}

const say = (response: ServerResponse, status: number, error: string): void =>
  json(response, status, { error: error.slice(0, 1_000) });

function json(response: ServerResponse, status: number, body: unknown): void {
  if (response.destroyed || response.headersSent) return;
  const bytes = Buffer.from(`${JSON.stringify(body)}\n`);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": bytes.length,
  });
  response.end(bytes);
}
