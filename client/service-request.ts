/**
 * @file One HTTP request to a submit service, over TCP or a Unix socket; its errors become ours, with their codes.
 */

import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { FAILURE_CODES, type FailureCode } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface ServiceAddress {
  /** `http:` or `https:`; absent with a socket. */
  readonly url?: URL;
  /** Path of a Unix socket. */
  readonly socket?: string;
  /** Sent as a bearer token. */
  readonly token?: string;
  /** Shown to a service that asks for one, over `https:`. */
  readonly certificate?: ClientCertificate;
}

/** In PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

export interface ServiceRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  /** Instead of a body in JSON. */
  readonly bytes?: Uint8Array;
  /** Without a byte for this long the service counts as gone. */
  readonly quietMs?: number;
}

const QUIET_MS = 60_000;
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

export const addressText = ({ url, socket }: ServiceAddress): string =>
  socket === undefined ? (url?.href ?? "") : `unix:${socket}`;

/** The answer, once its head has come. Throws NO_CONNECTION, or the error that the service answers with. */
export async function opened(
  address: ServiceAddress,
  { method, path, body, bytes, quietMs = QUIET_MS }: ServiceRequest,
): Promise<IncomingMessage> {
  const { url, socket, token, certificate } = address;
  const text = body === undefined ? bytes : JSON.stringify(body);
  const headers = {
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    ...(text !== undefined && {
      "Content-Type": typeof text === "string" ? "application/json" : "application/octet-stream",
      "Content-Length": String(Buffer.byteLength(text)),
    }),
  };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const options = { method, headers, timeout: quietMs };
    const asking =
      socket === undefined
        ? (url?.protocol === "https:" ? httpsRequest : httpRequest)(
            new URL(path.slice(1), withSlash(url)),
            { ...options, ...certificate, agent: false },
            resolve,
          )
        : httpRequest({ ...options, socketPath: socket, path, agent: false }, resolve);
    asking.once("timeout", () => asking.destroy(new Error("it does not answer")));
    asking.once("error", (error) => reject(unreachable(address, error)));
    asking.end(text);
  });
  if ((response.statusCode ?? 500) < 300) return response;
  throw refusal(await wholeText(address, response), response.statusCode ?? 500);
}

/** The answer as JSON. */
export async function answered(address: ServiceAddress, request: ServiceRequest): Promise<unknown> {
  const text = await wholeText(address, await opened(address, request));
  try {
    return JSON.parse(text);
  } catch {
    throw notOurs(address);
  }
}

async function wholeText(address: ServiceAddress, response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      parts.push(part);
      bytes += part.length;
      if (bytes > MAX_ANSWER_BYTES) throw new Error("its answer is too long");
    }
  } catch (error) {
    throw unreachable(address, error);
  }
  return Buffer.concat(parts).toString("utf8");
}

const withSlash = (url: URL | undefined): string => `${url?.href.replace(/\/$/, "") ?? ""}/`;

export function unreachable(address: ServiceAddress, error: unknown): OrbweaverError {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const why = error instanceof Error ? error.message : String(error);
  const remedy =
    code === "EACCES"
      ? "It is another user's socket: name your own, or have an operator admit you under access in the fleet file."
      : "Start it with `orbweaver api`, or name another address (--api, ORBWEAVER_API).";
  return new OrbweaverError(
    "NO_CONNECTION",
    `the submit service at ${addressText(address)} cannot be reached: ${why}. ${remedy}`,
    { cause: error },
  );
}

const notOurs = (address: ServiceAddress): OrbweaverError =>
  new OrbweaverError(
    "NO_CONNECTION",
    `what answers at ${addressText(address)} is no submit service of Orbweaver. Name another address (--api, ORBWEAVER_API).`,
  );

function refusal(text: string, status: number): OrbweaverError {
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    said = undefined;
  }
  return (
    errorIn(said) ??
    new OrbweaverError("NO_CONNECTION", `the submit service answered with status ${String(status)}`)
  );
}

/** The error in `{error: {code, message, details}}`; undefined when there is none. */
export function errorIn(said: unknown): OrbweaverError | undefined {
  if (typeof said !== "object" || said === null || !("error" in said)) return undefined;
  const { error } = said;
  if (typeof error !== "object" || error === null || !("code" in error) || !("message" in error))
    return undefined;
  const { code, message } = error;
  const details = "details" in error ? error.details : undefined;
  return new OrbweaverError(
    isCode(code) ? code : "NOT_ALLOWED",
    String(message),
    details === undefined ? {} : { details },
  );
}

const isCode = (code: unknown): code is FailureCode => {
  const codes: readonly unknown[] = FAILURE_CODES;
  return codes.includes(code);
};
