/**
 * @file The user at the other end of a loopback connection, by the kernel's table of TCP connections (Linux).
 *
 * Node cannot ask a socket for its peer's credentials. `/proc/net/tcp` has a row for each end of a loopback connection, with the user that
 * opened it; the peer's row has our two addresses exchanged. A row of a closed socket says user 0 whoever opened it, so only established
 * connections that a process still holds count. Cost: a read of the table, about 0.1 ms for 100 connections.
 */

import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { endianness } from "node:os";

export type Connection = Pick<
  Socket,
  "localAddress" | "localPort" | "remoteAddress" | "remotePort" | "remoteFamily"
>;

const ESTABLISHED = "01";
const LOOPBACK = /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$|^::1$/;

/** Undefined when the peer is not on loopback, when its row is gone, or where the system has no such table. */
export function loopbackPeerUid(connection: Connection): number | undefined {
  const { localAddress, localPort, remoteAddress, remotePort } = connection;
  if (localAddress === undefined || localPort === undefined) return undefined;
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  if (!LOOPBACK.test(remoteAddress)) return undefined;
  // A dual-stack listener has the one end in the table of IPv6; the connecting end of an IPv4 socket is in that of IPv4.
  const isMapped = remoteAddress.startsWith("::ffff:");
  const tables = connection.remoteFamily === "IPv6" && !isMapped ? ["tcp6"] : ["tcp", "tcp6"];
  const ends: readonly End[] = [
    { address: remoteAddress.replace(/^::ffff:/, ""), port: remotePort },
    { address: localAddress.replace(/^::ffff:/, ""), port: localPort },
  ];
  for (const table of tables) {
    const uid = uidIn(tableText(table), ends);
    if (uid !== undefined) return uid;
  }
  return undefined;
}

interface End {
  readonly address: string;
  readonly port: number;
}

function tableText(name: string): string {
  try {
    return readFileSync(`/proc/net/${name}`, "latin1");
  } catch {
    // Not Linux, or a sandbox without /proc: the peer stays unknown, and must show a token.
    return "";
  }
}

/** Columns: number, local end, remote end, state, queues, timer, retransmissions, uid, timeout, inode. */
function uidIn(table: string, [local, remote]: readonly End[]): number | undefined {
  if (local === undefined || remote === undefined) return undefined;
  const names = (end: End): readonly string[] =>
    hexAddresses(end.address).map((address) => `${address}:${hexPort(end.port)}`);
  const [locals, remotes] = [names(local), names(remote)];
  for (const line of table.split("\n").slice(1)) {
    const [, from = "", to = "", state, , , , uid = "", , inode = "0"] = line.trim().split(/\s+/);
    if (state !== ESTABLISHED || inode === "0") continue;
    if (locals.includes(from) && remotes.includes(to)) return Number(uid);
  }
  return undefined;
}

const hexPort = (port: number): string => port.toString(16).toUpperCase().padStart(4, "0");

/** The words of an address as the kernel prints them: numbers of 32 bits in the machine's byte order; IPv4 also inside IPv6. */
function hexAddresses(address: string): readonly string[] {
  const parts = address === "::1" ? undefined : address.split(".").map(Number);
  if (parts === undefined) return [`${"0".repeat(24)}${word([0, 0, 0, 1])}`];
  const plain = word(parts);
  return [plain, `${"0".repeat(16)}${word([0, 0, 255, 255])}${plain}`];
}

function word(bytes: readonly number[]): string {
  const ordered = endianness() === "LE" ? [...bytes].reverse() : bytes;
  return ordered.map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join("");
}
