/**
 * @file How many connections of a door one address may hold, so that nobody who has shown no token shuts out all others.
 *
 * An address of IPv6 counts by its network of 64 bits, of which a machine usually has all.
 */

import type { Server } from "node:http";
import { isIPv6, type Socket } from "node:net";
import { createShares } from "./shares.ts";

export interface AddressShare {
  /** At once. */
  readonly most: number;
  /** Told of a connection beyond it, which is closed then. */
  readonly onRefused: (socket: Socket) => void;
}

/** Unix sockets have no address, and no share. */
export function shareConnections(server: Server, { most, onRefused }: AddressShare): void {
  const open = createShares();
  server.on("connection", (socket: Socket) => {
    const network = networkOf(socket.remoteAddress ?? "");
    if (network === "") return;
    const leave = open.enter(network, most);
    if (leave === undefined) {
      onRefused(socket);
      socket.destroy();
      return;
    }
    socket.once("close", leave);
  });
}

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
