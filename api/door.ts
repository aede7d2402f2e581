/** @file A way into the submit service, and who comes through it. */

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { ServedTls } from "../access/listener.ts";
import type { Principal } from "../access/principal.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface Door {
  /** The sender of a request; a text says why it is not known. */
  readonly senderOf: (request: IncomingMessage) => Promise<Principal | string>;
  /** For the audit, also of a request that has no sender yet. */
  readonly who: string;
  readonly fromOf: (socket: Socket) => string;
  readonly tls?: ServedTls;
}

export interface Unknown {
  /** To who asks. */
  readonly said: string;
  /** To the audit. */
  readonly why: string;
}

export async function senderOf(door: Door, request: IncomingMessage): Promise<Principal | Unknown> {
  try {
    const sender = await door.senderOf(request);
    return typeof sender === "string" ? { said: sender, why: sender } : sender;
  } catch (error) {
    if (!(error instanceof OrbweaverError) || error.code !== "NO_CONNECTION") throw error;
    return { said: "the issuer's keys cannot be had", why: error.message };
  }
}

/** Undefined for what Node takes for the target of a request and is no address, as `//[`. */
export function urlOf({ url = "/" }: Pick<IncomingMessage, "url">): URL | undefined {
  try {
    return new URL(url, "http://service");
  } catch {
    return undefined;
  }
}
