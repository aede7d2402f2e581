/**
 * @file Follows a file of revoked client certificates while a door is open. A list that changes counts at once: for new connections by a new context, and those that
 * a certificate has opened are closed, so that their owners show it again. A list that cannot be read changes nothing.
 */

import type { Server } from "node:http";
import { Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { secureContext, type ServedTls } from "../access/listener.ts";

export interface RevocationParts {
  /** As the door was opened. */
  readonly tls: ServedTls;
  /** The file as it is now, in PEM; throws where it is no list. */
  readonly readCrl: () => string;
  readonly say: (text: string) => void;
}

/** To be called from time to time. */
export function followRevocations(
  server: Server,
  { tls, readCrl, say }: RevocationParts,
): () => void {
  const certified = new Set<TLSSocket>();
  let lists = 0;
  /** The list of the moment at which a handshake began. */
  const begun = new Map<string, number>();
  server.on("connection", (socket: Socket) => {
    const end = endOf(socket);
    begun.set(end, lists);
    socket.once("close", () => begun.delete(end));
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    if (socket.getPeerX509Certificate() === undefined) return;
    if (begun.get(endOf(socket)) !== lists) return void socket.destroy();
    certified.add(socket);
    socket.once("close", () => certified.delete(socket));
  });
  let known = tls.clientCrl;
  let trouble = "";
  return () => {
    try {
      const found = readCrl();
      trouble = "";
      if (found === known || !(server instanceof TlsServer)) return;
      server.setSecureContext(secureContext({ ...tls, clientCrl: found }));
      known = found;
      lists += 1;
      for (const socket of certified) socket.destroy();
      say("the list of revoked client certificates: read again");
    } catch (error) {
      const why = `the list of revoked client certificates changed, and what was read before stays in force: ${String(error)}`;
      // It may stay so for long.
      if (why !== trouble) say(why);
      trouble = why;
    }
  };
}

const endOf = ({ remoteAddress = "", remotePort = 0 }: Socket): string =>
  `${remoteAddress} ${String(remotePort)}`;
