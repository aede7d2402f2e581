/**
 * @file Hands the same stream of messages to every browser: a snapshot first, then deltas; resumable by the id of the last one seen.
 *
 * An id names the run, the event of its history and, where more was told after the same event, a count. The last messages are kept; a browser
 * that asks for an older or an unknown id gets a snapshot. A browser that does not read is cut off, and comes back by itself.
 */

import type { ServerResponse } from "node:http";

export interface Hub<Told> {
  readonly add: (response: ServerResponse, lastId: string | undefined) => void;
  readonly tell: (message: Told, at: { readonly runId: string; readonly event: number }) => void;
  readonly count: () => number;
  /** Of all messages told, to one browser. */
  readonly toldBytes: () => number;
  readonly close: () => void;
}

/** For browsers that come back. */
export const KEPT_CHANGES: KeptMessages = { messages: 1_000, bytes: 2 * 1024 * 1024 };
/** Where each message says all. */
export const KEPT_NEWEST: KeptMessages = { messages: 1, bytes: Infinity };
const MAX_UNREAD_BYTES = 8 * 1024 * 1024;
const PING_MS = 15_000;
const RETRY_MS = 1_000;
const MAX_BROWSERS = 500;

export interface KeptMessages {
  readonly messages: number;
  readonly bytes: number;
}

interface Kept {
  readonly id: string;
  readonly text: string;
}

export function createHub<Told>(snapshot: () => Told, most: KeptMessages): Hub<Told> {
  const browsers = new Set<ServerResponse>();
  const kept: Kept[] = [];
  let keptBytes = 0;
  let toldBytes = 0;
  let lastId = "0/0.0";
  let place = "";
  let told = 0;
  const pings = setInterval(() => {
    for (const browser of browsers) browser.write(": ping\n\n");
  }, PING_MS);
  pings.unref();

  return { add, tell, count: () => browsers.size, toldBytes: () => toldBytes, close };

  function add(response: ServerResponse, seen: string | undefined): void {
    if (browsers.size >= MAX_BROWSERS) {
      response.writeHead(503, { "Retry-After": "10" }).end();
      return;
    }
    response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-store",
      "X-Accel-Buffering": "no",
    });
    response.write(`retry: ${RETRY_MS}\n\n`);
    const at = seen === lastId ? kept.length - 1 : kept.findIndex(({ id }) => id === seen);
    const isKnown = seen !== undefined && (at >= 0 || seen === lastId);
    if (isKnown) for (const { text } of kept.slice(at + 1)) response.write(text);
    else response.write(eventText(lastId, snapshot()));
    browsers.add(response);
    response.on("close", () => browsers.delete(response));
  }

  function tell(
    message: Told,
    { runId, event }: { readonly runId: string; readonly event: number },
  ): void {
    const here = `${runId}/${event}`;
    told = here === place ? told + 1 : 0;
    place = here;
    lastId = `${here}.${told}`;
    const text = eventText(lastId, message);
    toldBytes += text.length;
    kept.push({ id: lastId, text });
    keptBytes += text.length;
    while (kept.length > most.messages || keptBytes > most.bytes)
      keptBytes -= kept.shift()?.text.length ?? 0;
    for (const browser of browsers) {
      if (browser.writableLength > MAX_UNREAD_BYTES) browser.destroy();
      else browser.write(text);
    }
  }

  function close(): void {
    clearInterval(pings);
    for (const browser of browsers) browser.end();
  }
}

const eventText = (id: string, message: unknown): string =>
  `id: ${id}\ndata: ${JSON.stringify(message)}\n\n`;
