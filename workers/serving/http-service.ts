/**
 * @file A model service over HTTP, in the words of the Open Inference Protocol (V2), with `/healthz`, `/infer` and `/metrics` beside.
 *
 * | request | answer |
 * | --- | --- |
 * | `GET /v2/health/live` | 200 as long as the service listens |
 * | `GET /healthz`, `/v2/health/ready`, `/v2/models/<name>/ready` | 200 while requests are taken, 503 while the accepted ones are answered |
 * | `GET /v2` | the server and its extensions |
 * | `GET /v2/models/<name>`, `GET /` | inputs, outputs, the plan in a line |
 * | `GET /v2/models/<name>/stats` | counts and times of requests, as Triton's statistics extension has them |
 * | `POST /infer`, `POST /v2/models/<name>/infer` | 200 with outputs; 400 what is wrong with the request; 408, 413, 429, 500, 503: see `docs/serving.md` |
 * | `GET /metrics` | counts for Prometheus |
 *
 * All but the health paths ask for a token, or answer our own user on loopback alone (`access/bearer.ts`). Nobody is waited for without end:
 * a request comes whole in a time, an answer is taken without long pauses, and all bodies together have a bound. What is wrong with a request
 * is said before its body is read, where that is known.
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { bearerRefusal, type BearerRule } from "../../access/bearer.ts";
import { IDLE_RULE, type IdleRule } from "../../access/idle-connections.ts";
import { httpServer } from "../../access/listener.ts";
import { servingPlanLine } from "../../domain/model/serving-plan.ts";
import type { SessionPort } from "../../models/onnx/onnx-session.ts";
import { bodyOf, pathOf, type Intake } from "./body-intake.ts";
import { createBodyWork, type BodyWork } from "./body-work.ts";
import type { ModelService } from "./model-service.ts";
import { metricsText, statistics } from "./service-metrics.ts";
import { datatypeOf } from "./tensor-json.ts";

export interface HttpService {
  readonly port: number;
  /** Refuses new requests while it answers the accepted ones, then closes: `stallMs` after the last result at the latest. */
  drain(): Promise<void>;
}

export interface ServingLimits {
  readonly bodyBytes: number;
  /** Of all requests that are read or answered at one time, and of their answers until they are sent. */
  readonly bodiesBytes: number;
  /** A request has come whole in this time, its head in a sixth of it; an answer has gone in this time. */
  readonly requestMs: number;
  /** An answer of which the client takes nothing for so long is given up. */
  readonly stallMs: number;
  readonly connections: number;
  /** Of connections on which nothing is under way. */
  readonly idle: IdleRule;
}

export const SERVING_LIMITS: ServingLimits = Object.freeze({
  bodyBytes: 256 * 1024 * 1024,
  bodiesBytes: 512 * 1024 * 1024,
  requestMs: 120_000,
  stallMs: 30_000,
  connections: 1_000,
  idle: IDLE_RULE,
});

interface Answer {
  readonly status: number;
  /** Bytes are JSON; a text is plain. */
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Open {
  readonly service: ModelService;
  readonly rule: BearerRule;
  readonly limits: ServingLimits;
  readonly work: BodyWork;
  readonly isDraining: () => boolean;
  /** Counts the bytes of one body among those of all. */
  readonly room: () => BodyRoom;
  readonly bodiesBytes: () => number;
  /** Requests whose bodies are still coming. */
  readonly uploads: Set<IncomingMessage>;
}

interface BodyRoom extends Pick<Intake, "take"> {
  readonly leave: () => void;
}

export async function serveHttp(
  service: ModelService,
  { host, port, ...rule }: BearerRule & { readonly host: string; readonly port: number },
  limits: ServingLimits = SERVING_LIMITS,
): Promise<HttpService> {
  let isDraining = false;
  let bodiesBytes = 0;
  const work = createBodyWork(service);
  const open: Open = {
    service,
    rule,
    limits,
    work,
    isDraining: () => isDraining,
    bodiesBytes: () => bodiesBytes,
    uploads: new Set(),
    room: () => {
      let taken = 0;
      return {
        take: (bytes) => {
          if (bodiesBytes + bytes > limits.bodiesBytes) return false;
          bodiesBytes += bytes;
          taken += bytes;
          return true;
        },
        leave: () => (bodiesBytes -= taken),
      };
    },
  };
  const { requestMs } = limits;
  const options = {
    idle: limits.idle,
    requestTimeout: requestMs,
    headersTimeout: Math.ceil(requestMs / 6),
    connectionsCheckingInterval: Math.min(1_000, Math.ceil(requestMs / 6)),
  };
  const connections: Connections = new Map();
  const server = httpServer(options, (request, response) => {
    const answers = connections.get(request.socket);
    const room = open.room();
    const gone = new AbortController();
    const closed = new Promise<void>((resolve) => {
      answers?.set(response, resolve);
      response.once("close", resolve);
    });
    void closed.then(() => {
      answers?.delete(response);
      gone.abort();
    });
    const answered = (answer: Answer): void => {
      // What is left of a refused body is not read.
      const isCut = !request.complete && request.method === "POST";
      if (isCut) response.setHeader("connection", "close");
      send(response, answer, limits);
    };
    const work = answerTo(request, open, { room, gone: gone.signal }).then(
      answered,
      (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        answered(wrong(message, 500));
      },
    );
    // A body lies in memory until nothing works on it, whether its client is still there or not.
    void Promise.all([work, closed]).then(room.leave);
  });
  server.on("connection", (socket) => {
    const answers = new Map<ServerResponse, () => void>();
    connections.set(socket, answers);
    socket.once("close", () => {
      connections.delete(socket);
      for (const end of answers.values()) end();
    });
  });
  server.maxConnections = limits.connections;
  await listening(server, { host, port });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async drain() {
      isDraining = true;
      await service.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      // What is still on its way would be refused, and might never come.
      for (const upload of open.uploads) upload.destroy();
      await sent(connections, limits.stallMs);
      // A closed server looks after no timeouts: connections without a whole request would stay for ever.
      server.closeAllConnections();
      await closed;
      await work.close();
    },
  };
}

/**
 * Answers under way, by their connections, each with what is to be called when its client is gone: a pipelined one whose connection ends before its turn never
 * closes by itself.
 */
type Connections = Map<Socket, Map<ServerResponse, () => void>>;

/** Resolves when all answers under way are sent or their clients gone, or after this time. */
async function sent(connections: Connections, atMostMs: number): Promise<void> {
  const each = [...connections]
    .filter(([, answers]) => answers.size > 0)
    .map(([socket, answers]) =>
      Promise.race([closeOf(socket), Promise.all([...answers.keys()].map(closeOf))]),
    );
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, atMostMs)));
  await Promise.race([Promise.all(each), late]);
  clearTimeout(timer);
}

const closeOf = (stream: Socket | ServerResponse): Promise<void> =>
  new Promise((resolve) => stream.once("close", () => resolve()));

const listening = (
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => resolve());
  });

interface Coming {
  readonly room: BodyRoom;
  /** Aborted when the client hangs up. */
  readonly gone: AbortSignal;
}

async function answerTo(request: IncomingMessage, open: Open, coming: Coming): Promise<Answer> {
  const { service, rule, isDraining } = open;
  const pathname = pathOf(request)?.pathname;
  if (pathname === undefined) return wrong("the path cannot be read");
  const about = `/v2/models/${encodeURIComponent(service.name)}`;
  const health = healthOf(pathname, { about, name: service.name, isReady: !isDraining() });
  if (health !== undefined) return health;
  const why = bearerRefusal(request, rule);
  if (why !== undefined) {
    // Connections of those who have shown no right do not rest.
    const headers = { "www-authenticate": "Bearer", connection: "close" };
    return { status: 401, body: { error: why }, headers };
  }
  switch (pathname) {
    case "/v2":
      return { status: 200, body: { name: "orbweaver", extensions: ["statistics"] } };
    case "/":
    case about:
      return { status: 200, body: description(service) };
    case `${about}/stats`:
      return { status: 200, body: statistics(service) };
    case "/metrics":
      return { status: 200, body: metricsText(service, open.bodiesBytes()) };
    case "/infer":
    case `${about}/infer`:
      if (request.method !== "POST") {
        return { status: 405, body: { error: "send a POST" }, headers: { allow: "POST" } };
      }
      return isDraining() ? DRAINING : await inferred(request, open, coming);
    default:
      return {
        status: 404,
        body: {
          error: `there is no ${pathname.slice(0, 200)}; there are /infer, /healthz, /metrics and ${about}`,
        },
      };
  }
}

interface Health {
  readonly about: string;
  readonly name: string;
  readonly isReady: boolean;
}

/** Says nothing about the model, so that balancers need no token. */
function healthOf(pathname: string, { about, name, isReady }: Health): Answer | undefined {
  const status = isReady ? 200 : 503;
  switch (pathname) {
    case "/v2/health/live":
      return { status: 200, body: { live: true } };
    case "/v2/health/ready":
      return { status, body: { ready: isReady } };
    case `${about}/ready`:
      return { status, body: { name, ready: isReady } };
    case "/healthz":
      return { status, body: { status: isReady ? "ready" : "draining" } };
    default:
      return undefined;
  }
}

const DRAINING: Answer = {
  status: 503,
  body: { error: "the service is ending and accepts no more requests" },
  headers: { "retry-after": "1", connection: "close" },
};

const MESSAGE_LENGTH = 1_000;
const wrong = (error: string, status = 400): Answer => ({
  status,
  body: { error: error.slice(0, MESSAGE_LENGTH) },
});

async function inferred(
  request: IncomingMessage,
  open: Open,
  { room, gone }: Coming,
): Promise<Answer> {
  const { limits } = open;
  const tooLarge = wrong(`the body has more than ${limits.bodyBytes} bytes; send fewer rows`, 413);
  if (Number(request.headers["content-length"] ?? 0) > limits.bodyBytes) return tooLarge;
  const { take } = room;
  const full: Answer = {
    ...wrong(
      `the bodies of requests under way fill ${limits.bodiesBytes} bytes; retry in 1 s`,
      429,
    ),
    headers: { "retry-after": "1" },
  };
  open.uploads.add(request);
  const body = await bodyOf(request, { bodyBytes: limits.bodyBytes, take }).finally(() =>
    open.uploads.delete(request),
  );
  if (body === "too large") return tooLarge;
  if (body === "no room") return full;
  const answer = await answerOf(body, open, gone);
  // A client that takes its answer slowly holds it all that time.
  return answer.body instanceof Uint8Array && !take(answer.body.length) ? full : answer;
}

async function answerOf(
  body: Uint8Array,
  { service, work }: Open,
  gone: AbortSignal,
): Promise<Answer> {
  const read = await work.read(body);
  if (read.kind === "refused") return wrong(read.message);
  const submitted = await service.batcher.submit(read.inputs, gone);
  switch (submitted.kind) {
    case "answered": {
      const { outputs, batchedRows } = submitted;
      const { id } = read;
      return {
        status: 200,
        body: await work.write({ model: service.name, ...(id !== undefined && { id }), outputs }),
        headers: { "orbweaver-batch-rows": String(batchedRows) },
      };
    }
    case "full": {
      const seconds = Math.max(1, Math.ceil(submitted.retryAfterMs / 1_000));
      return {
        status: 429,
        body: { error: `the queue is full; retry in ${seconds} s` },
        headers: { "retry-after": String(seconds) },
      };
    }
    case "closed":
      return DRAINING;
    case "gone":
      return wrong("the client has hung up", 499);
    case "failed":
      return wrong(`the model fails on this request: ${submitted.message}`, 500);
  }
}

function description({ name, plan, inputs, outputs, maxBatch }: ModelService): unknown {
  return {
    name,
    platform: "onnxruntime",
    inputs: inputs.map(portEntry),
    outputs: outputs.map(portEntry),
    plan: servingPlanLine(plan),
    max_batch_size: maxBatch,
  };
}

const portEntry = ({ name, type, shape }: SessionPort): unknown => ({
  name,
  datatype: datatypeOf(type) ?? type,
  // The protocol has −1 for an open dimension.
  shape: shape.map((size) => (typeof size === "string" ? -1 : size)),
});

function send(
  response: ServerResponse,
  { status, body, headers = {} }: Answer,
  { stallMs, requestMs }: ServingLimits,
): void {
  if (response.destroyed || response.headersSent) return;
  const isText = typeof body === "string";
  const bytes =
    body instanceof Uint8Array ? body : Buffer.from(isText ? body : `${JSON.stringify(body)}\n`);
  response.writeHead(status, {
    "content-type": isText ? "text/plain; version=0.0.4" : "application/json",
    "content-length": bytes.length,
    ...headers,
  });
  // Nothing moves on the connection for so long.
  response.setTimeout(stallMs, () => response.destroy());
  const late = setTimeout(() => response.destroy(), requestMs);
  response.once("close", () => clearTimeout(late));
  response.end(bytes);
}
