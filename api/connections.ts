/**
 * @file How many connections of a door one address may hold, and all together of whom nothing is known, so that nobody who has shown no token shuts out
 * all others.
 *
 * An address of IPv6 counts by its network of 64 bits, of which a machine usually has all. Of the unknown, the one that has been so for longest makes room for the
 * next: who shows a token at once is known before it is the oldest.
 */

import type { Server } from "node:http";
import { isIPv6, type Socket } from "node:net";
import { createShares } from "./shares.ts";

export interface AddressShare {
  /** At once. */
  readonly most: number;
  /** Of all addresses, while nothing is known of who is at them. */
  readonly unknown: number;
  /** Told of a connection beyond one of these, which is closed then. */
  readonly onRefused: (socket: Socket, why: string) => void;
}

export interface Connections {
  /** Who is at this connection has shown a right to something. */
  readonly known: (socket: Socket) => void;
}

/** Unix sockets have no address, and no share. */
export function shareConnections(
  server: Server,
  { most, unknown, onRefused }: AddressShare,
): Connections {
  const open = createShares();
  /** The oldest first. By its two ends, because a request over TLS has another socket than its connection. */
  const strangers = new Map<string, Socket>();
  server.on("connection", (socket: Socket) => {
    const network = networkOf(socket.remoteAddress ?? "");
    if (network === "") return;
    const leave = open.enter(network, most);
    if (leave === undefined) {
      onRefused(socket, `more than ${String(most)} connections of one address`);
      socket.destroy();
      return;
    }
    const ends = endsOf(socket);
    strangers.set(ends, socket);
    socket.once("close", () => {
      leave();
      if (strangers.get(ends) === socket) strangers.delete(ends);
    });
    if (strangers.size <= unknown) return;
    for (const [oldest, stranger] of strangers) {
      strangers.delete(oldest);
      onRefused(stranger, `more than ${String(unknown)} connections that have shown no right`);
      stranger.destroy();
      break;
    }
  });
  return { known: (socket) => void strangers.delete(endsOf(socket)) };
}

const endsOf = ({ localAddress, localPort, remoteAddress, remotePort }: Socket): string =>
  `${String(localAddress)} ${String(localPort)} ${String(remoteAddress)} ${String(remotePort)}`;

const NETWORK_WORDS = 4;
const ALL_WORDS = 8;

/** The whole of an address of IPv4, the first 64 bits of one of IPv6. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
  if (!isIPv6(plain)) return plain;
  const [before = "", after] = plain.toLowerCase().split("::");
  const words = (text: string): string[] => (text === "" ? [] : text.split(":"));
  const [first, last] = [words(before), words(after ?? "")];
  const gap = after === undefined ? 0 : Math.max(0, ALL_WORDS - first.length - last.length);
  const whole = [...first, ...Array.from({ length: gap }, () => "0"), ...last];
  return whole
    .slice(0, NETWORK_WORDS)
    .map((word) => word.replace(/^0+(?=.)/, ""))
    .join(":");
}
