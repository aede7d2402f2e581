/** @file A port of this machine's loopback address whose connections are those of a session: each has a channel. */

import { createServer, type Server, type Socket } from "node:net";
import type { SessionEvents, UserSession } from "../../client/session.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { FIRST_CONNECTION } from "../../streams/words.ts";

export interface ForwardedPort {
  readonly port: number;
  readonly close: () => void;
}

const LOOPBACK = "127.0.0.1";
/** At once; the host takes as many of a session. */
const MOST_CONNECTIONS = 200;

/** Listens; `open` gets the session that carries what comes. `say` is told why a connection was refused. Throws BAD_INPUT. */
export async function forwardPort(
  port: number,
  open: (events: SessionEvents) => UserSession,
  say: (text: string) => void,
): Promise<ForwardedPort & { readonly session: UserSession }> {
  const sockets = new Map<number, Socket>();
  const server = createServer({ allowHalfOpen: true });
  server.maxConnections = MOST_CONNECTIONS;
  const close = (): void => {
    server.close();
    for (const socket of sockets.values()) socket.destroy();
  };
  await listening(server, port);
  const session = open({
    onData(channel, bytes, taken) {
      const socket = sockets.get(channel);
      if (socket?.writable === true) socket.write(bytes, () => taken());
      else taken();
    },
    onEnd: (channel) => {
      sockets.get(channel)?.end();
    },
    onRoom: (channel) => {
      sockets.get(channel)?.resume();
    },
    onWord(word) {
      if ("refused" in word) say(word.message);
      const gone = "refused" in word ? word.refused : "drop" in word ? word.drop : undefined;
      if (gone === undefined) return;
      sockets.get(gone)?.destroy();
      session.drop(gone);
    },
  });
  let next = FIRST_CONNECTION;
  server.on("connection", (socket) => {
    const channel = next++;
    sockets.set(channel, socket);
    session.open(channel);
    session.say({ connect: channel });
    socket.on("data", (bytes) => {
      if (!session.write(channel, bytes)) socket.pause();
    });
    socket.on("end", () => session.end(channel));
    socket.on("error", () => undefined);
    socket.on("close", (hadError) => {
      sockets.delete(channel);
      if (!hadError) return;
      session.say({ drop: channel });
      session.drop(channel);
    });
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    ...{ close, session },
  };
}

async function listening(server: Server, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => {
      const message = `port ${String(port)} of this machine cannot be used: ${error.message}. Name another before the job's, as in 9999:${String(port)}; 0 is a free one.`;
      reject(new OrbweaverError("BAD_INPUT", message));
    });
    server.listen({ host: LOOPBACK, port }, resolve);
  });
}
