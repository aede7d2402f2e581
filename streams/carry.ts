/**
 * @file Carries a link over WebSockets to a relay, and dials again when one breaks.
 *
 * Text messages are the relay's: `paired` with the number of the pairing, `apart`, or an error that ends it all. Binary messages are frames. A link that
 * has been without the other end for longer than `graceMs` is over.
 */

import { WebSocket, type ClientOptions } from "ws";
import { MAX_FRAME_BYTES } from "./frame.ts";
import type { Link } from "./link.ts";

/** Where a relay answers: a Unix socket, or an address that begins with `http:` or `https:`. */
export interface RelayPlace {
  readonly url?: URL | undefined;
  readonly socket?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Of this end, in PEM, for a relay that asks for one. */
  readonly certificate?: { readonly cert: string; readonly key: string } | undefined;
}

export interface CarryEnd {
  /** `closed`: by this end; `refused`: the relay has said why; `lost`: nobody was there for too long. */
  readonly kind: "closed" | "refused" | "lost";
  readonly code: string;
  readonly message: string;
}

export interface CarryOptions {
  readonly place: () => RelayPlace;
  readonly path: string;
  /** The first message of each connection. */
  readonly greeting?: () => string;
  readonly graceMs: number;
  /** Aborted by who has what it wants. */
  readonly closed: AbortSignal;
  /** What the relay says beside pairings. */
  readonly onWord?: (word: RelayWord) => void;
  readonly onPaired?: (isPaired: boolean) => void;
}

export interface RelayWord {
  readonly paired?: number;
  readonly apart?: true;
  readonly ticket?: string;
  readonly error?: { readonly code: string; readonly message: string };
}

const DIAL_WITHIN_MS = 10_000;
/** The relay pings; without a sign for so long it has gone. */
const QUIET_MS = 60_000;
/** On their way at a new pairing: an end that dials in again and again, and reads nothing, would have this one queue all that it keeps each time. */
const MOST_UNSENT_BYTES = 1_048_576;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 3_000;
/** The relay will not have this end again. */
export const FINAL_CLOSE = 4_000;

export function dialRelay(
  { url, socket, headers, certificate }: RelayPlace,
  path: string,
): WebSocket {
  const options: ClientOptions = {
    ...certificate,
    headers: { ...headers },
    handshakeTimeout: DIAL_WITHIN_MS,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
  };
  if (socket !== undefined) return new WebSocket(`ws+unix:${socket}:${path}`, options);
  const base = `${url?.href.replace(/\/$/, "").replace(/^http/, "ws") ?? ""}`;
  return new WebSocket(`${base}${path}`, options);
}

/** Returns when it is over. Fails for nothing. */
export async function carry(link: Link, options: CarryOptions): Promise<CarryEnd> {
  const { graceMs, closed } = options;
  let pauseMs = FIRST_PAUSE_MS;
  let apartSince = performance.now();
  let why = "";
  while (!closed.aborted) {
    const once = await carryOnce(link, options, {
      onPaired: (isPaired) => {
        apartSince = isPaired ? Infinity : performance.now();
        if (isPaired) pauseMs = FIRST_PAUSE_MS;
        options.onPaired?.(isPaired);
      },
      leftMs: () => apartSince + graceMs - performance.now(),
    });
    link.detach();
    if (closed.aborted) break;
    if (apartSince === Infinity) {
      apartSince = performance.now();
      options.onPaired?.(false);
    }
    if (once.end !== undefined) return once.end;
    why = once.why;
    if (performance.now() - apartSince > graceMs)
      return { kind: "lost", code: "NO_CONNECTION", message: why };
    await pause(pauseMs, closed);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
  return { kind: "closed", code: "", message: "" };
}

interface Once {
  readonly end?: CarryEnd;
  readonly why: string;
}

function carryOnce(
  link: Link,
  { place, path, greeting, closed, onWord }: CarryOptions,
  {
    onPaired,
    leftMs,
  }: { readonly onPaired: (isPaired: boolean) => void; readonly leftMs: () => number },
): Promise<Once> {
  return new Promise((resolve) => {
    const socket = dialRelay(place(), path);
    let refusal: CarryEnd | undefined;
    let why = "the relay has gone";
    let quiet = performance.now();
    const stop = (): void => socket.close(1_000);
    closed.addEventListener("abort", stop, { once: true });
    const look = setInterval(() => {
      const isGone = performance.now() - quiet > QUIET_MS;
      if (isGone || leftMs() < 0) {
        why = isGone ? "the relay is silent" : "the other end is not there";
        socket.terminate();
      }
    }, 1_000);
    socket.on("open", () => {
      if (closed.aborted) stop();
      else if (greeting !== undefined) socket.send(greeting());
    });
    socket.on("ping", () => {
      quiet = performance.now();
    });
    socket.on("message", (data: Buffer, isBinary: boolean) => {
      quiet = performance.now();
      try {
        if (isBinary) {
          link.receive(data);
          return;
        }
        const word = JSON.parse(data.toString("utf8")) as RelayWord; // the relay's own words
        if (word.paired !== undefined && socket.bufferedAmount > MOST_UNSENT_BYTES) {
          why = "the relay does not read";
          socket.terminate();
          return;
        }
        if (word.paired !== undefined) {
          link.attach(word.paired, (frame) => socket.send(frame));
          onPaired(true);
        } else if (word.apart === true) {
          link.detach();
          onPaired(false);
        } else if (word.error !== undefined) refusal = { kind: "refused", ...word.error };
        onWord?.(word);
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        refusal = { kind: "refused", code: "NO_CONNECTION", message };
        socket.close(1_002);
      }
    });
    socket.on("unexpected-response", (_request, response) => {
      const code = response.statusCode === 401 ? "NOT_ALLOWED" : "NO_CONNECTION";
      why = `the relay answered with status ${String(response.statusCode)}`;
      // Of 429 and 503 the answer may be another one soon: all sessions of a user come back at once when a relay is back.
      if (![429, 503].includes(response.statusCode ?? 0))
        refusal = { kind: "refused", code, message: why };
      socket.terminate();
    });
    socket.on("error", (error) => {
      why = error.message;
    });
    socket.on("close", (code, reason) => {
      clearInterval(look);
      closed.removeEventListener("abort", stop);
      if (code === FINAL_CLOSE)
        refusal ??= { kind: "lost", code: "NO_CONNECTION", message: reason.toString("utf8") };
      resolve({ why, ...(refusal !== undefined && { end: refusal }) });
    });
  });
}

function pause(ms: number, closed: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      closed.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    closed.addEventListener("abort", done, { once: true });
  });
}
