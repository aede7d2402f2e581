/** @file The HTTP server of a service: over TLS where it has a certificate. */

import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { SecureContextOptions } from "node:tls";
import { boundIdle, IDLE_RULE, type IdleRule } from "./idle-connections.ts";

/** Certificate and key, in PEM. */
export interface ServedTls {
  readonly cert: string;
  readonly key: string;
  /** Of the authorities that sign clients, in PEM: clients are asked for certificates, and those who show none, or another, are told by `authorized` of their sockets. */
  readonly clientCa?: string;
  /** Lists of what these authorities have revoked, in PEM; each of them needs one that is in date, or none of its certificates counts. */
  readonly clientCrl?: string;
}

export interface ListenerOptions extends ServerOptions {
  /** Absent: plain HTTP. */
  readonly tls?: ServedTls | undefined;
  /** The longest that a TLS handshake may take, milliseconds; absent: two minutes. */
  readonly handshakeTimeout?: number;
  /** Of connections on which nothing is under way. */
  readonly idle?: IdleRule;
}

/** It does not listen yet. */
export function httpServer(
  { tls, handshakeTimeout, idle = IDLE_RULE, ...options }: ListenerOptions,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const kept = { ...options, keepAliveTimeout: idle.keptMs };
  const server =
    tls === undefined
      ? createServer(kept, answer)
      : createTlsServer(
          {
            ...{ ...kept, ...secureContext(tls) },
            ...(handshakeTimeout !== undefined && { handshakeTimeout }),
            ...(tls.clientCa !== undefined && { requestCert: true, rejectUnauthorized: false }),
          },
          answer,
        );
  boundIdle(server, idle.most);
  return server;
}

/** What of it may change while the server listens. */
export const secureContext = ({
  clientCa,
  clientCrl,
  ...own
}: ServedTls): SecureContextOptions => ({
  ...own,
  ...(clientCa !== undefined && { ca: clientCa }),
  ...(clientCrl !== undefined && { crl: clientCrl }),
});
