/**
 * @file The operating system of a host, as one argument of the agent's logic. `agent/system/node-system.ts` is the real one,
 * `test/agent/fakes.ts` one in memory.
 */

import type { Clock } from "./clock.ts";
import type { Files } from "./files.ts";
import type { Groups } from "./groups.ts";
import type { Processes } from "./processes.ts";

export interface System {
  readonly files: Files;
  readonly processes: Processes;
  readonly groups: Groups;
  readonly clock: Clock;
  /** A TCP port on which nothing listens now. It is not reserved: another process may take it before its user does, and then that user fails. */
  freePort(): Promise<number>;
  /** Random bytes as hexadecimal digits. */
  randomHex(byteCount: number): string;
}
