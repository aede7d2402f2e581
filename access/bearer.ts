/**
 * @file Whether an HTTP request may pass: by the token where there is one; else only when its sender is our own user on this machine.
 *
 * Every user of a machine reaches its loopback ports, so the address alone proves nothing; the kernel's table says which user opened the
 * connection. Root may read the memory and files of everybody, so it passes too. Where the system does not tell the user, and beyond
 * loopback, nobody passes without a token. A token binds our own user as well: a proxy here would lend its user to everybody behind it.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { loopbackPeerUid } from "./peer-user.ts";

export interface BearerRule {
  /** Absent: our own user on loopback passes, and nobody else. */
  readonly token?: string;
  /** Everybody passes: a proxy in front decides. */
  readonly isOpen?: boolean;
}

/** A connection has one user for all its requests. */
const ownPeers = new WeakMap<Socket, boolean>();

/** Why the request may not pass; undefined when it may. */
export function bearerRefusal(
  { headers, socket }: Pick<IncomingMessage, "headers" | "socket">,
  { token, isOpen = false }: BearerRule,
): string | undefined {
  if (token !== undefined) {
    const said = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? "";
    if (isSame(said, token)) return undefined;
    return "the token is missing or wrong (Authorization: Bearer …)";
  }
  if (isOpen || isOwnPeer(socket)) return undefined;
  return "without a token only the user who started this service may ask it, on this machine. Start it with --token-file FILE";
}

function isOwnPeer(socket: Socket): boolean {
  const known = ownPeers.get(socket);
  if (known !== undefined) return known;
  const uid = loopbackPeerUid(socket);
  const isOwn = uid !== undefined && (uid === process.getuid?.() || uid === 0);
  ownPeers.set(socket, isOwn);
  return isOwn;
}

/** In constant time. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
