/**
 * @file The console over HTTP: the page, its stream of events, answers about one job, and what the page sends. A page from elsewhere can send nothing:
 * it must be of our own origin, and say JSON, which a browser asks about first.
 *
 * Without a token it answers our own user on loopback alone (`access/bearer.ts`), and only under a name of this machine, so that no page from elsewhere
 * reaches it by another name. With a token, a page sends it once and gets a cookie that scripts cannot read. The page itself holds no secret and
 * is given to everybody. With a certificate it speaks HTTPS alone, and the cookie is for HTTPS alone. Nothing outside is loaded: the content security
 * policy allows this origin alone.
 */

import { randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { bearerRefusal, isOwnName, type BearerRule } from "../../access/bearer.ts";
import { httpServer, type ServedTls } from "../../access/listener.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

export interface HttpConsole {
  readonly port: number;
  readonly close: () => Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
}

export interface Post {
  /** Characters of its body. */
  readonly most: number;
  readonly answer: (body: string) => Promise<Answer>;
}

export type Stream = (url: URL, response: ServerResponse, lastId: string | undefined) => void;

export interface HttpConsoleOptions {
  readonly host: string;
  readonly port: number;
  readonly rule: BearerRule;
  /** Certificate and key, in PEM; absent: plain HTTP. */
  readonly tls?: ServedTls;
  /** Files of the page by path. */
  readonly files: ReadonlyMap<string, Answer>;
  /** Streams of events by path. */
  readonly streams: ReadonlyMap<string, Stream>;
  /** What the page may send, by path. */
  readonly posts?: ReadonlyMap<string, Post>;
  /** Answers any other GET; undefined when there is no such path. */
  readonly answer: (url: URL) => Promise<Answer | undefined>;
}

const COOKIE = "orbweaver-console";

const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
} as const;

export async function startHttpConsole(options: HttpConsoleOptions): Promise<HttpConsole> {
  const { host, port, tls } = options;
  // Cookies end with the process.
  const secret = randomBytes(32).toString("hex");
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    handle(request, response, { ...options, secret }).catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      if (!response.headersSent) send(response, plain(500, message));
      else response.destroy();
    });
  };
  const server = httpServer({ tls }, take);
  await listening(server, { host, port });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const listening = (
  server: Server,
  place: { readonly host: string; readonly port: number },
): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const message = `the console cannot listen on ${place.host} port ${place.port}: ${cause.message}. Name another with --port or --host.`;
      reject(new OrbweaverError("BAD_INPUT", message, { cause }));
    });
    server.listen(place, resolve);
  });

async function handle(
  request: IncomingMessage,
  response: ServerResponse,
  options: HttpConsoleOptions & { readonly secret: string },
): Promise<void> {
  const { rule, secret, files, tls } = options;
  const url = new URL(request.url ?? "/", "http://console");
  if (rule.token === undefined && rule.isOpen !== true && !isOwnName(request.headers.host ?? ""))
    return send(response, plain(421, "the console answers under the names of this machine alone"));
  if (url.pathname === "/api/session" && request.method === "POST") {
    const why = bearerRefusal(request, rule);
    if (why !== undefined) return send(response, plain(401, why));
    const words = `HttpOnly; SameSite=Strict; Path=/${tls === undefined ? "" : "; Secure"}`;
    response.setHeader("Set-Cookie", `${COOKIE}=${secret}; ${words}`);
    return send(response, plain(204, ""));
  }
  const post = request.method === "POST" ? options.posts?.get(url.pathname) : undefined;
  if (post === undefined && request.method !== "GET" && request.method !== "HEAD")
    return send(response, plain(405, "the console only reads"));
  const file = files.get(url.pathname);
  if (file !== undefined) return send(response, file);
  const why = hasCookie(request, secret) ? undefined : bearerRefusal(request, rule);
  if (why !== undefined) return send(response, plain(401, why));
  if (post !== undefined) return send(response, await posted(request, post));
  const stream = options.streams.get(url.pathname);
  if (stream !== undefined) {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const seen = request.headers["last-event-id"];
    return stream(url, response, typeof seen === "string" ? seen : undefined);
  }
  const answer = await options.answer(url);
  send(response, answer ?? plain(404, `there is no ${url.pathname}`));
}

/** Whoever passes is the user who started the console: nobody else does without a token. */
export const isOwnersAlone = ({ token, isOpen }: BearerRule): boolean =>
  token === undefined && isOpen !== true;

async function posted(request: IncomingMessage, { most, answer }: Post): Promise<Answer> {
  const { origin, host = "", "content-type": type } = request.headers;
  if (type !== "application/json") return plain(415, "JSON is needed");
  if (origin === undefined || !URL.canParse(origin) || new URL(origin).host !== host)
    return plain(403, "only the console's own page may send this");
  let body = "";
  request.setEncoding("utf8");
  for await (const part of request) {
    body += String(part);
    if (body.length > most) return plain(413, `at most ${String(most)} characters are taken`);
  }
  return await answer(body);
}

export const plain = (status: number, body: string): Answer => {
  return { status, type: "text/plain; charset=utf-8", body };
};

export const json = (body: unknown): Answer => {
  return { status: 200, type: "application/json", body: JSON.stringify(body) };
};

function send(response: ServerResponse, { status, type, body }: Answer): void {
  response.writeHead(status, { ...HEADERS, "Content-Type": type, "Cache-Control": "no-cache" });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

function hasCookie({ headers }: IncomingMessage, secret: string): boolean {
  const said = new RegExp(`(?:^|; )${COOKIE}=([0-9a-f]{64})(?:;|$)`).exec(
    headers.cookie ?? "",
  )?.[1];
  if (said === undefined) return false;
  return timingSafeEqual(Buffer.from(said), Buffer.from(secret));
}
