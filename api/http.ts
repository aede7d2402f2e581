/**
 * @file One request to the submit service: who sends it, how large and how slow it may be, which route answers it, and its line in the audit.
 *
 * Every refusal leaves a line, whatever it is refused for; every order leaves one before it is carried out, and another if it then fails.
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { z } from "zod";
import type { AuditEntry, AuditLog } from "../access/audit-log.ts";
import { httpServer } from "../access/listener.ts";
import { fleetRefusal, rightsOf, senderRefusal, type Principal } from "../access/principal.ts";
import { translated } from "../client/index.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import type { FailureCode } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { MAX_JOB_FILE_BYTES } from "../domain/lease/job-size.ts";
import { shareConnections, type Connections } from "./connections.ts";
import { senderOf, urlOf, type Door, type Unknown } from "./door.ts";
import { FOLDER_PATH, partIn, type FolderStore } from "./folders.ts";
import { openApiDocument } from "./openapi.ts";
import { AccessRefusal, type Call, type OrderNote, type ServedFleet } from "./route.ts";
import { findRoute, ROUTES } from "./routes.ts";
import type { SessionDoor } from "./sessions.ts";
import { createShares, type Shares } from "./shares.ts";

export interface ServiceParts {
  readonly served: ServedFleet;
  readonly access: () => Access;
  readonly audit: AuditLog;
  readonly version: string;
  readonly limits: HttpLimits;
  readonly sessions: SessionDoor;
  readonly folders: FolderStore;
  /** Where hosts reach this service, the best first. */
  readonly relays: () => readonly string[];
}

export interface HttpLimits {
  /** A request has come whole in this time, its head in half of it. */
  readonly requestMs: number;
  readonly bodyBytes: number;
  /** At each door; a session has two. */
  readonly connections: number;
  /** Of them, of one address. */
  readonly ofAddress: number;
  /** Of them, of any address, before a sender has shown who it is. */
  readonly unknown: number;
  /** At once, of one sender at one door. */
  readonly requests: number;
}

export const HTTP_LIMITS: HttpLimits = Object.freeze({
  requestMs: 20_000,
  // JSON may write one character of a file as six.
  bodyBytes: 6 * MAX_JOB_FILE_BYTES + 16_384,
  connections: 1_000,
  ofAddress: 250,
  unknown: 500,
  requests: 20,
});

/** Not yet listening. */
export function createDoor(door: Door, parts: ServiceParts): Server {
  const { requestMs, connections, ofAddress, unknown } = parts.limits;
  const busy = createShares();
  const options = {
    tls: door.tls,
    requestTimeout: requestMs,
    headersTimeout: requestMs / 2,
    handshakeTimeout: requestMs / 2,
    connectionsCheckingInterval: Math.min(1_000, requestMs / 4),
    maxHeaderSize: 32_768,
  };
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    handle(request, response, { door, parts, busy, crowd }).catch((error: unknown) => {
      // The audit cannot be written, or a bug: the answer says no more than that.
      if (response.headersSent) response.destroy();
      else sendError(response, 500, { code: "INTERNAL", message: messageOf(error) });
    });
  };
  const server = httpServer(options, answer);
  server.on("upgrade", (request: IncomingMessage, socket: Socket, first: Buffer) => {
    const upgrade = { request, socket, first, onKnown: () => crowd.known(socket) };
    parts.sessions.take(upgrade, door).catch(() => socket.destroy());
  });
  server.maxConnections = connections;
  const refuse = (socket: Socket | undefined, why: string): void => {
    const from = socket === undefined ? "" : door.fromOf(socket);
    try {
      parts.audit.add({ who: door.who, from, act: "connect", verdict: "refused", why });
    } catch {
      // The disk is full: the connection is refused all the same, and no order passes without its line.
    }
  };
  const crowd = shareConnections(server, { most: ofAddress, unknown, onRefused: refuse });
  server.on("drop", () => refuse(undefined, `more than ${String(connections)} connections`));
  server.on("clientError", (error: Error & { readonly code?: string }, socket) => {
    const isSlow = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
    if (isSlow) refuse(socket as Socket, "the request did not come in time");
    else if (error.code !== "ECONNRESET") refuse(socket as Socket, "the request is no HTTP");
    if (socket.writable)
      socket.end(
        `HTTP/1.1 ${isSlow ? "408 Request Timeout" : "400 Bad Request"}\r\nConnection: close\r\n\r\n`,
      );
    else socket.destroy();
  });
  return server;
}

interface Place {
  readonly door: Door;
  readonly parts: ServiceParts;
  /** Requests of each sender that are not answered yet. */
  readonly busy: Shares;
  readonly crowd: Connections;
}

async function handle(
  request: IncomingMessage,
  response: ServerResponse,
  { door, parts, busy, crowd }: Place,
): Promise<void> {
  const { audit, served } = parts;
  const { method = "GET" } = request;
  const url = urlOf(request);
  if (method === "GET" && url !== undefined)
    if (await isAnsweredToAll(url.pathname, response, { ...parts, crowd })) return;
  const from = door.fromOf(request.socket);
  const line: Omit<AuditEntry, "verdict"> = {
    who: door.who,
    from,
    act: `${method} ${url?.pathname ?? request.url ?? ""}`,
  };
  const refuse = (
    { status, code, message, why = message }: Refusal,
    by: Omit<AuditEntry, "verdict"> = line,
  ): void => {
    audit.add({ ...by, verdict: "refused", why });
    if (!request.complete) closeAfter(response);
    sendError(response, status, { code, message });
  };
  if (url === undefined)
    return refuse({ status: 400, code: "BAD_INPUT", message: "the address is none" });
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const sender = await senderOf(door, request);
  if ("said" in sender) {
    response.setHeader("WWW-Authenticate", "Bearer");
    closeAfter(response);
    return refuse(unknownRefusal(sender));
  }
  if (gone.signal.aborted) return;
  crowd.known(request.socket);
  const found = findRoute(method, url.pathname);
  const known = { ...line, who: sender.name, from: `${sender.via} ${from}`.trim() };
  const leave = busy.enter(sender.name, parts.limits.requests);
  if (leave === undefined) {
    const message = `${sender.name} has ${String(parts.limits.requests)} requests here already. Try again when one is answered.`;
    return refuse({ status: 429, code: "NOT_ALLOWED", message }, known);
  }
  gone.signal.addEventListener("abort", leave);
  if (method === "POST" && url.pathname === FOLDER_PATH)
    return await takePart(request, response, { parts, sender, line: known, refuse });
  if (typeof found === "string") {
    const message =
      found === "none" ? `there is no ${url.pathname}` : `${method} is not for ${url.pathname}`;
    return refuse({ status: found === "none" ? 404 : 405, code: "NOT_FOUND", message }, known);
  }
  const { route, job } = found;
  const named = { ...known, act: route.id, ...(job !== "" && { job }) };
  const caller = { principal: sender, rights: rightsOf(sender, parts.access()) };
  const stranger = route.id === "me" ? undefined : fleetRefusal(sender, caller.rights);
  if (stranger !== undefined)
    return refuse({ status: 403, code: "NOT_ALLOWED", message: stranger }, named);

  const body = method === "POST" ? await bodyOf(request, parts.limits) : undefined;
  if (body?.kind === "refused") return refuse(body, named);
  if (body?.kind === "gone") return;
  const query = checked(route.query, Object.fromEntries(url.searchParams));
  const said = checked(route.body, body?.value);
  for (const part of [query, said])
    if (part.kind === "refused")
      return refuse({ status: 400, code: "BAD_INPUT", message: part.message }, named);
  const { order, why: wanted } = noted(named, route.note?.(said.value));

  let accepted: AuditEntry | undefined;
  const call: Call = {
    caller,
    served,
    job,
    query: query.value,
    body: said.value,
    gone: gone.signal,
    accept: (of) => {
      accepted = { ...order, ...(of !== undefined && { job: of }), ...wanted, verdict: "accepted" };
      audit.add(accepted);
    },
  };
  try {
    const answer = await route.answer(call, response);
    if (!response.headersSent) send(response, answer);
  } catch (thrown) {
    const error = translated(thrown, "the request");
    const why = messageOf(error);
    if (accepted !== undefined) audit.add({ ...accepted, verdict: "failed", why });
    else if (error instanceof AccessRefusal || method === "POST")
      audit.add({ ...order, verdict: "refused", why });
    if (!(error instanceof OrbweaverError)) throw error;
    const { code, message, details } = error;
    sendError(response, statusOf(error), {
      code,
      message,
      ...(details !== undefined && { details }),
    });
  }
}

/** What needs no caller: the description of the routes, and parts of folders, whose names are the right to them. */
async function isAnsweredToAll(
  path: string,
  response: ServerResponse,
  { folders, version, crowd }: Pick<ServiceParts, "folders" | "version"> & Pick<Place, "crowd">,
): Promise<boolean> {
  const part = partIn(path);
  if (part !== undefined) {
    const isThere = await folders.send(part, response);
    if (isThere && response.socket !== null) crowd.known(response.socket);
  } else if (path === "/openapi.json") {
    closeAfter(response);
    send(response, openApiDocument(ROUTES, version));
  } else return false;
  return true;
}

/** Connections of those who have shown no right do not rest. */
const closeAfter = (response: ServerResponse): void =>
  void response.setHeader("Connection", "close");

/** A part of a working folder, from who may submit some job. */
async function takePart(
  request: IncomingMessage,
  response: ServerResponse,
  {
    parts: { access, audit, folders, relays },
    sender,
    line,
    refuse,
  }: {
    readonly parts: ServiceParts;
    readonly sender: Principal;
    readonly line: Omit<AuditEntry, "verdict">;
    readonly refuse: (refusal: Refusal, by: Omit<AuditEntry, "verdict">) => void;
  },
): Promise<void> {
  const named = { ...line, act: "folder" };
  const stranger = senderRefusal(sender, rightsOf(sender, access()));
  if (stranger !== undefined)
    return refuse({ status: 403, code: "NOT_ALLOWED", message: stranger }, named);
  const taken = await folders.take(request, sender);
  if (taken.kind === "refused") return refuse({ ...taken, code: "REQUEST_TOO_LARGE" }, named);
  audit.add({ ...named, verdict: "accepted", why: taken.hash });
  send(response, { hash: taken.hash, from: relays() });
}

/** The line of an order with what it names, and what it asks for. */
function noted(
  line: Omit<AuditEntry, "verdict">,
  { about, what }: OrderNote = {},
): { readonly order: typeof line; readonly why: Pick<AuditEntry, "why"> } {
  return {
    order: about === undefined ? line : { ...line, job: about },
    why: what === undefined ? {} : { why: what },
  };
}

type Body =
  | { readonly kind: "read"; readonly value: unknown }
  /** The sender has gone, or was cut off. */
  | { readonly kind: "gone"; readonly value?: undefined }
  | (Refusal & { readonly kind: "refused"; readonly value?: undefined });

interface Refusal {
  readonly status: number;
  readonly code: FailureCode;
  readonly message: string;
  /** For the audit, where it says more. */
  readonly why?: string;
}

function unknownRefusal({ said, why }: Unknown): Refusal {
  const unknown = "who asks is not known: ";
  const words = { message: `${unknown}${said}`, why: `${unknown}${why}` };
  return { status: 401, code: "NOT_ALLOWED", ...words };
}

async function bodyOf(request: IncomingMessage, { bodyBytes }: HttpLimits): Promise<Body> {
  const refused = (status: number, code: FailureCode, message: string): Body => ({
    kind: "refused",
    status,
    code,
    message,
  });
  if (!/^application\/json\b/i.test(request.headers["content-type"] ?? ""))
    return refused(415, "BAD_INPUT", "the body is not said to be JSON (Content-Type)");
  const parts: Buffer[] = [];
  let bytes = Number(request.headers["content-length"] ?? 0);
  const tooLarge = refused(
    413,
    "REQUEST_TOO_LARGE",
    `the body has more than ${String(bodyBytes)} bytes`,
  );
  if (bytes > bodyBytes) return tooLarge;
  bytes = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > bodyBytes) return tooLarge;
      parts.push(part);
    }
  } catch {
    return { kind: "gone" };
  }
  try {
    return { kind: "read", value: JSON.parse(Buffer.concat(parts).toString("utf8")) };
  } catch {
    return refused(400, "BAD_INPUT", "the body is no JSON");
  }
}

type Checked =
  | { readonly kind: "read"; readonly value: unknown; readonly message?: undefined }
  | { readonly kind: "refused"; readonly value?: undefined; readonly message: string };

function checked(schema: z.ZodType | undefined, value: unknown): Checked {
  const parsed = (schema ?? ANYTHING).safeParse(value);
  return parsed.success
    ? { kind: "read", value: parsed.data }
    : { kind: "refused", message: z.prettifyError(parsed.error) };
}

const ANYTHING = z.unknown();

function statusOf(error: OrbweaverError): number {
  if (error instanceof AccessRefusal) return 403;
  switch (error.code) {
    case "BAD_INPUT":
    case "MISCONFIGURED":
      return 400;
    case "NOT_FOUND":
      return 404;
    case "NOT_ALLOWED":
    case "IDEMPOTENCY_CONFLICT":
    case "NEVER_STARTS":
      return 409;
    case "REQUEST_TOO_LARGE":
      return 413;
    default:
      return 503;
  }
}

function send(response: ServerResponse, answer: unknown, status = 200): void {
  const text = JSON.stringify(answer ?? {});
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
  });
  response.end(text);
}

const sendError = (
  response: ServerResponse,
  status: number,
  error: { readonly code: string; readonly message: string; readonly details?: unknown },
): void => send(response, { error }, status);

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
