/**
 * @file Whether an HTTP request may pass: by the token where there is one; else only when its sender is our own user on this machine.
 *
 * Every user of a machine reaches its loopback ports, so the address alone proves nothing; the kernel's table says which user opened the
 * connection. Root may read the memory and files of everybody, so it passes too. Where the system does not tell the user, and beyond
 * loopback, nobody passes without a token. A token binds our own user as well: a proxy here would lend its user to everybody behind it.
 *
 * Our own user's browser is on loopback, too, and obeys every page that it shows. So without a token a request must name this machine as its host, which
 * a page that has its own name point here cannot, and come from no page of elsewhere.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { loopbackPeerUid } from "./peer-user.ts";

export interface BearerRule {
  /** Absent: our own user on loopback passes, and nobody else. */
  readonly token?: string;
  /** Everybody passes: a proxy in front decides. */
  readonly isOpen?: boolean;
  /** Whose pages may ask beside the service's own, e.g. `http://127.0.0.1:8233`. */
  readonly origins?: readonly string[];
}

/** A connection has one user for all its requests. */
const ownPeers = new WeakMap<Socket, boolean>();

/** Why the request may not pass; undefined when it may. */
export function bearerRefusal(
  { headers, socket }: Pick<IncomingMessage, "headers" | "socket">,
  { token, isOpen = false, origins = [] }: BearerRule,
): string | undefined {
  if (token !== undefined) {
    const said = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? "";
    if (isSame(said, token)) return undefined;
    return "the token is missing or wrong (Authorization: Bearer …)";
  }
  if (isOpen) return undefined;
  if (isOwnPeer(socket)) return strangePage(headers, origins);
  return "without a token only the user who started this service may ask it, on this machine. Start it with --token-file FILE";
}

function strangePage(
  { host = "", origin }: IncomingHttpHeaders,
  origins: readonly string[],
): string | undefined {
  if (!isOwnName(host))
    return "without a token this service answers under the names of this machine alone, as 127.0.0.1 and localhost";
  if (origin === undefined || origins.includes(origin)) return undefined;
  const isOwnPage = URL.canParse(origin) && new URL(origin).host === host.toLowerCase();
  return isOwnPage ? undefined : "without a token no page of elsewhere may ask this service";
}

/** Whether a request's `Host` is a name that this machine has for itself, whatever the port. */
export function isOwnName(host: string): boolean {
  const name = host.replace(/:\d+$/, "").toLowerCase();
  return name === "localhost" || name === "[::1]" || /^127(\.\d{1,3}){3}$/.test(name);
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
