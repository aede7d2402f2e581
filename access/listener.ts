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
}

export interface ListenerOptions extends ServerOptions {
  /** Absent: plain HTTP. */
  readonly tls?: ServedTls | undefined;
  /** The longest that a TLS handshake may take, milliseconds; absent: two minutes. */
  readonly handshakeTimeout?: number;
}

/** It does not listen yet. */
export const httpServer = (
  { tls, handshakeTimeout, ...options }: ListenerOptions,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Server =>
  tls === undefined
    ? createServer(options, answer)
    : createTlsServer(
        { ...options, ...tls, ...(handshakeTimeout !== undefined && { handshakeTimeout }) },
        answer,
      );
