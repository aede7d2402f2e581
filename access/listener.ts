/** @file The HTTP server of a service: over TLS where it has a certificate. */

import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";

/** Certificate and key, in PEM. */
export interface ServedTls {
  readonly cert: string;
  readonly key: string;
  /** Of the authorities that sign clients, in PEM: clients are asked for certificates, and those who show none, or another, are told by `authorized` of their sockets. */
  readonly clientCa?: string;
}

export interface ListenerOptions extends ServerOptions {
  /** Absent: plain HTTP. */
  readonly tls?: ServedTls | undefined;
  /** The longest that a TLS handshake may take, milliseconds; absent: two minutes. */
  readonly handshakeTimeout?: number;
}

/** It does not listen yet. */
export function httpServer(
  { tls, handshakeTimeout, ...options }: ListenerOptions,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  if (tls === undefined) return createServer(options, answer);
  const { clientCa, ...own } = tls;
  return createTlsServer(
    {
      ...{ ...options, ...own },
      ...(handshakeTimeout !== undefined && { handshakeTimeout }),
      ...(clientCa !== undefined && { ca: clientCa, requestCert: true, rejectUnauthorized: false }),
    },
    answer,
  );
}
