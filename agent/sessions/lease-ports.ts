/**
 * @file The loopback address at which a process of a launch listens on a port, from the kernel's tables.
 *
 * A socket is the launch's when one of its processes holds it. Other processes of the machine, listening or not, are out of reach. Linux alone.
 * Cost: two tables and the open files of the launch's processes, a few milliseconds, for each new connection.
 */

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { membersOf } from "../runs/launch-processes.ts";
import { phaseOf, rootsOf, type Launch } from "../runs/local-run.ts";

const LISTENING = "0A";
/** As the kernel writes them, with what to connect to. */
const REACHABLE: readonly (readonly [address: RegExp, connectTo: string])[] = [
  [/^(0100007F|00000000)$/, "127.0.0.1"],
  [/^0{16}FFFF0000(0100007F|00000000)$/, "127.0.0.1"],
  [/^0{32}$/, "::1"],
  [/^0{24}01000000$/, "::1"],
];

export interface Listener {
  readonly port: number;
  readonly address: string;
  readonly inode: string;
}

/** Undefined when no process of the launch listens on the port of a loopback address. */
export function listenerOf(launch: Launch, port: number): string | undefined {
  const found = [...listenersIn("/proc/net/tcp"), ...listenersIn("/proc/net/tcp6")].filter(
    (listener) => listener.port === port,
  );
  if (found.length === 0) return undefined;
  const { processes } = launch.system;
  const members = membersOf(processes, rootsOf(launch, phaseOf(launch)));
  const held = new Set(members.flatMap(({ pid }) => socketsOf(pid)));
  return found.find(({ inode }) => held.has(inode))?.address;
}

function listenersIn(table: string): readonly Listener[] {
  try {
    return parseListeners(readFileSync(table, "latin1"));
  } catch {
    return [];
  }
}

/** The sockets of a table that listen where loopback reaches them. */
export function parseListeners(table: string): readonly Listener[] {
  return table.split("\n").flatMap((line) => {
    const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
    const [address = "", port = ""] = local.split(":");
    const connectTo = REACHABLE.find(([form]) => form.test(address))?.[1];
    if (state !== LISTENING || connectTo === undefined) return [];
    return [{ port: Number.parseInt(port, 16), address: connectTo, inode }];
  });
}

function socketsOf(pid: number): readonly string[] {
  try {
    const folder = `/proc/${String(pid)}/fd`;
    return readdirSync(folder).flatMap((name) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${name}`))?.[1] ?? [];
      } catch {
        return [];
      }
    });
  } catch {
    // It has ended, or is another user's.
    return [];
  }
}
