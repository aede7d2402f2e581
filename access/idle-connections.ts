/**
 * @file For how long a server keeps connections on which nothing is under way, and how many.
 *
 * Whoever closes first should be who sends next: a request that is sent while the server closes is lost, and clients may not repeat one that changes something.
 * Proxies rest connections for 60 s (nginx, load balancers of AWS), 90 s (those written in Go) or 600 s (those of Google), so a server keeps them longer than all of
 * these. Of more than `most` the one that has rested longest is closed, so that resting connections leave room for others. Cost: O(1) a request.
 */

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

export interface IdleRule {
  readonly keptMs: number;
  readonly most: number;
}

export const IDLE_RULE: IdleRule = Object.freeze({ keptMs: 620_000, most: 500 });

/** Connections that have yet to send their first request are not counted: their head is due within the server's time. */
export function boundIdle(server: Server, most: number): void {
  /** The longest at rest first, with what had come when it came to rest. */
  const idle = new Map<Socket, number>();
  const underWay = new WeakMap<Socket, number>();
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    if (!underWay.has(socket)) socket.once("close", () => idle.delete(socket));
    // Of requests that are sent before the one before is answered, too.
    underWay.set(socket, (underWay.get(socket) ?? 0) + 1);
    idle.delete(socket);
    const over = (): void => {
      const left = (underWay.get(socket) ?? 1) - 1;
      underWay.set(socket, left);
      // One that is ended with this answer does not rest.
      if (left === 0 && socket.writable) rest(socket);
    };
    // An answer may be there before all of its request is.
    response.once("close", () => (request.complete ? over() : request.once("close", over)));
  });

  function rest(socket: Socket): void {
    idle.set(socket, socket.bytesRead);
    for (const [longest, bytesRead] of idle) {
      if (idle.size <= most) return;
      idle.delete(longest);
      // A part of the next request has come, or it speaks otherwise since.
      if (longest.bytesRead === bytesRead) longest.destroy();
    }
  }
}
