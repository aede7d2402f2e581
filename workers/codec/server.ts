/**
 * @file Temporal's remote codec protocol over HTTP: the Web UI and `temporal --codec-endpoint` send payloads and get them
 * decoded.
 *
 * `POST …/decode` and `…/encode` with `{payloads: [{metadata, data}]}` in base64; `GET /health`. A client of this server reads
 * the fleet's secrets, so browsers are answered only for the listed origins (a request without an origin does not come from a
 * browser). A token, where one is set, is required of every client; without one only our own user on loopback is answered.
 */

import type { Payload, PayloadCodec } from "@temporalio/common";
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { bearerRefusal, type BearerRule } from "../../access/bearer.ts";
import { httpServer, type ServedTls } from "../../access/listener.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

export interface CodecServerOptions extends BearerRule {
  readonly host: string;
  readonly port: number;
  readonly payloadCodecs: readonly PayloadCodec[];
  readonly origins: readonly string[];
  readonly tls?: ServedTls;
  readonly maxBodyBytes?: number;
}

export interface CodecServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/** More than the payloads of a page of history: 256 events with the largest payload that a server takes by default would be more. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
const PREFLIGHT_KEPT_S = 600;

interface Reply {
  readonly status: number;
  readonly body?: unknown;
}

export async function startCodecServer(options: CodecServerOptions): Promise<CodecServer> {
  const { host, port, tls } = options;
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    void answer(request, response, options);
  };
  const server = httpServer({ tls }, listener);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => {
      reject(
        new OrbweaverError(
          "BAD_INPUT",
          `the codec server cannot listen on ${host} port ${String(port)}: ${error.message}. Name another with --port or --host.`,
          { cause: error },
        ),
      );
    });
    server.listen({ host, port }, resolve);
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: CodecServerOptions,
): Promise<void> {
  const reply = await replyTo(request, options).catch(refusal);
  const origin = request.headers.origin;
  const isAllowed = origin !== undefined && options.origins.includes(origin);
  response.writeHead(reply.status, {
    ...(reply.body !== undefined && { "Content-Type": "application/json" }),
    "Cache-Control": "no-store",
    Vary: "Origin",
    ...(isAllowed && crossOrigin(origin)),
    // Does not wait for the unread rest of a body.
    ...(reply.status === 413 && { Connection: "close" }),
  });
  response.end(reply.body === undefined ? undefined : JSON.stringify(reply.body));
}

const crossOrigin = (origin: string): Record<string, string> => ({
  "Access-Control-Allow-Origin": origin,
  "Access-Control-Allow-Methods": "POST, GET, OPTIONS",
  "Access-Control-Allow-Headers": "Content-Type, X-Namespace, Authorization, Authorization-Extras",
  "Access-Control-Allow-Credentials": "true",
  // A page from the internet (Temporal Cloud's) requests this permission before it may call this machine.
  "Access-Control-Allow-Private-Network": "true",
  "Access-Control-Max-Age": String(PREFLIGHT_KEPT_S),
});

class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

function refusal(error: unknown): Reply {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof OrbweaverError ? { code: error.code } : {};
  const status = error instanceof Refused ? error.status : 400;
  return { status, body: { ...code, message } };
}

async function replyTo(request: IncomingMessage, options: CodecServerOptions): Promise<Reply> {
  const { method = "GET", url = "/" } = request;
  const path = url.replace(/\?.*/, "");
  checkOrigin(request, options);
  if (method === "OPTIONS") return { status: 204 };
  if (method === "GET" && path === "/health") return { status: 200, body: { status: "ok" } };
  const what = /\/(encode|decode)\/?$/.exec(path)?.[1];
  if (what === undefined)
    throw new Refused(404, `there is no path ${path}; POST to /decode or /encode`);
  if (method !== "POST") throw new Refused(405, `${what} needs a POST`);
  checkToken(request, options);
  const payloads = parsePayloads(await bodyOf(request, options.maxBodyBytes ?? MAX_BODY_BYTES));
  const codecs = options.payloadCodecs;
  const done =
    what === "encode"
      ? await through(codecs, payloads, (codec, some) => codec.encode(some))
      : await through([...codecs].reverse(), payloads, (codec, some) => codec.decode(some));
  return { status: 200, body: { payloads: done.map(jsonOf) } };
}

function checkOrigin({ headers }: IncomingMessage, { origins }: CodecServerOptions): void {
  const { origin } = headers;
  if (origin === undefined || origins.includes(origin)) return;
  throw new Refused(
    403,
    `pages of ${origin} are not allowed. Start the codec server with --origin ${origin}`,
  );
}

function checkToken(request: IncomingMessage, rule: BearerRule): void {
  const why = bearerRefusal(request, rule);
  if (why !== undefined) throw new Refused(401, why);
}

async function bodyOf(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Refused(413, `more than ${String(maxBytes)} bytes at once`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const base64 = z.base64();
const payloadsBody = z.object({
  payloads: z.array(
    z.object({
      metadata: z.record(z.string(), base64).nullish(),
      data: base64.nullish(),
    }),
  ),
});

function parsePayloads(text: string): readonly Payload[] {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Refused(400, "the body is not JSON");
  }
  const parsed = payloadsBody.safeParse(body);
  if (!parsed.success) {
    throw new Refused(400, `the body is not {payloads: […]}: ${z.prettifyError(parsed.error)}`);
  }
  return parsed.data.payloads.map(({ metadata, data }) => ({
    metadata: mapped(metadata ?? {}, (value) => Buffer.from(value, "base64")),
    data: Buffer.from(data ?? "", "base64"),
  }));
}

async function through(
  codecs: readonly PayloadCodec[],
  payloads: readonly Payload[],
  step: (codec: PayloadCodec, payloads: Payload[]) => Promise<Payload[]>,
): Promise<readonly Payload[]> {
  let current = [...payloads];
  for (const codec of codecs) current = await step(codec, current);
  return current;
}

function jsonOf({ metadata, data }: Payload): object {
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
  return { metadata: mapped(metadata ?? {}, text), data: text(data ?? new Uint8Array()) };
}

function mapped<From, To>(
  record: Readonly<Record<string, From>>,
  change: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}
