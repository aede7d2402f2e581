/**
 * @file Pairs the two ends of each session, and copies messages between them as fast as the slower one takes them.
 *
 * It keeps no bytes: what comes while the other end is away is dropped, because both ends send again after the next pairing. An end that reads slowly
 * stops the reading of the other. Memory: at most `maxBuffered` and one message for each end.
 */

import type { RawData, WebSocket } from "ws";
import { FINAL_CLOSE, type RelayWord } from "./carry.ts";

export type Side = "client" | "agent";

export interface RelayOptions {
  /** A session with one end alone is over after this time. */
  readonly graceMs: number;
  /** Bytes on their way to an end before the other is no longer read. */
  readonly maxBuffered: number;
  readonly pingEveryMs: number;
  readonly onOver?: (id: string) => void;
}

export const RELAY: RelayOptions = Object.freeze({
  graceMs: 60_000,
  maxBuffered: 262_144,
  pingEveryMs: 20_000,
});

export interface Relay {
  /** The end is there; a former connection of the same end is closed. */
  readonly join: (id: string, side: Side, socket: WebSocket) => void;
  readonly size: () => number;
  /** Ends the session with a reason. */
  readonly end: (id: string, error: RelayWord["error"]) => void;
  readonly close: () => void;
}

interface Pair {
  readonly ends: Map<Side, WebSocket>;
  pairings: number;
  timer: NodeJS.Timeout | undefined;
}

const OTHER: Readonly<Record<Side, Side>> = { client: "agent", agent: "client" };
/** An end that is read, and has answered none of so many pings, is gone without a word: its machine lost power, or its network. */
const MOST_UNANSWERED = 6;

const MOST_CLOSE_BYTES = 123;

/** As much of it as a close frame has room for: with more the socket would not be closed at all. */
function closeReason(reason: string): string {
  // A character has a byte at least.
  let text = reason.slice(0, MOST_CLOSE_BYTES);
  while (Buffer.byteLength(text) > MOST_CLOSE_BYTES) text = text.slice(0, -1);
  return text;
}

export function createRelay({ graceMs, maxBuffered, pingEveryMs, onOver }: RelayOptions): Relay {
  const pairs = new Map<string, Pair>();
  const unanswered = new WeakMap<WebSocket, number>();
  const pings = setInterval(() => {
    for (const { ends } of pairs.values())
      for (const socket of ends.values()) {
        const count = socket.isPaused ? 0 : (unanswered.get(socket) ?? 0);
        unanswered.set(socket, count + 1);
        if (count >= MOST_UNANSWERED) socket.terminate();
        else socket.ping();
      }
  }, pingEveryMs);
  pings.unref();

  const say = (socket: WebSocket | undefined, word: RelayWord): void =>
    socket?.send(JSON.stringify(word));
  const over = (id: string, pair: Pair, reason: string): void => {
    if (pairs.get(id) !== pair) return;
    pairs.delete(id);
    clearTimeout(pair.timer);
    for (const socket of pair.ends.values()) socket.close(FINAL_CLOSE, closeReason(reason));
    onOver?.(id);
  };
  const leave = (id: string, side: Side, socket: WebSocket): void => {
    const pair = pairs.get(id);
    if (pair?.ends.get(side) !== socket) return;
    pair.ends.delete(side);
    const left = pair.ends.get(OTHER[side]);
    left?.resume();
    say(left, { apart: true });
    clearTimeout(pair.timer);
    pair.timer = setTimeout(() => over(id, pair, "the other end did not come back"), graceMs);
  };

  return {
    join(id, side, socket) {
      const pair = pairs.get(id) ?? { ends: new Map(), pairings: 0, timer: undefined };
      pairs.set(id, pair);
      const former = pair.ends.get(side);
      pair.ends.set(side, socket);
      former?.close(1_000, "another connection has taken its place");
      const isAlive = (): void => void unanswered.set(socket, 0);
      socket.on("pong", isAlive);
      socket.on("message", (data: RawData, isBinary: boolean) => {
        isAlive();
        const to = pair.ends.get(OTHER[side]);
        if (!isBinary || to === undefined || pair.ends.get(side) !== socket) return;
        to.send(data, () => {
          if (socket.isPaused && to.bufferedAmount <= maxBuffered / 2) socket.resume();
        });
        if (to.bufferedAmount > maxBuffered) socket.pause();
      });
      socket.on("close", (code) => {
        const isGoodbye = code === 1_000 && pair.ends.get(side) === socket;
        leave(id, side, socket);
        if (isGoodbye) over(id, pair, "the other end has ended it");
      });
      clearTimeout(pair.timer);
      const other = pair.ends.get(OTHER[side]);
      if (other === undefined) {
        pair.timer = setTimeout(() => over(id, pair, "the other end did not come"), graceMs);
        return;
      }
      other.resume();
      // Numbers of a relay that was started again must not be those of its predecessor.
      pair.pairings = pair.pairings === 0 ? Math.floor(Math.random() * 2 ** 30) : pair.pairings + 1;
      for (const end of [other, socket]) say(end, { paired: pair.pairings });
    },
    size: () => pairs.size,
    end(id, error) {
      const pair = pairs.get(id);
      if (pair === undefined) return;
      for (const socket of pair.ends.values()) say(socket, error === undefined ? {} : { error });
      over(id, pair, error?.message ?? "");
    },
    close() {
      clearInterval(pings);
      for (const pair of pairs.values()) {
        clearTimeout(pair.timer);
        // No goodbye: both ends come again when there is a relay again.
        for (const socket of pair.ends.values()) socket.terminate();
      }
      pairs.clear();
    },
  };
}
