/**
 * @file A stand-in for the GPUs of a host: memory into which bytes are really copied, over wires that are really shared, beside kernels that take
 * the time that is stated of them.
 *
 * A wire carries one piece of one copy at a time, and copies that want it take turns, as PCIe switches do with packets; a copy over two wires
 * holds both for each piece. Each piece is moved from host memory into the device's, and its wires stay taken until the rate allows the next, so copies
 * are never faster than the host's, however fast memory is. One thread does it all by waiting for the next moment, and by default its clock is
 * the process's own time on a processor, which other processes do not slow. Unlike the simulated devices it knows no equal shares and no future.
 */

import { heap } from "../../lib/heap.ts";
import type { Devices } from "../../planning/inference/executor.ts";
import type { Copy } from "../../planning/inference/transfers.ts";

export interface StandInOptions {
  /** By wire, bytes per millisecond of the host. */
  readonly capacity: (wire: string) => number;
  /** Milliseconds here for one of the host. */
  readonly slowdown: number;
  /** Bytes of the host that each byte here stands for. */
  readonly bytesFor: number;
  /** Only grows. */
  readonly nowMs?: () => number;
}

/** Of the host's bytes: 21 µs of a bus of 24.5 GB/s. */
const PIECE_BYTES = 512 * 1024;

export function standIn({
  capacity,
  slowdown,
  bytesFor,
  nowMs: clockMs = processorMs,
}: StandInOptions): Devices {
  const host = new Uint8Array(PIECE_BYTES / bytesFor).fill(1);
  const device = new Uint8Array(host.length);
  const startMs = clockMs();
  const nowMs = (): number => (clockMs() - startMs) / slowdown;
  const due = heap<Due>((a, b) => a.atMs < b.atMs || (a.atMs === b.atMs && a.turn < b.turn));
  let turn = 0;
  /** Copies with a piece to send, in turn. */
  let line: Sending[] = [];
  const freeMs = new Map<string, number>();

  const after = (ms: number, then: () => void): void => {
    turn += 1;
    due.push({ atMs: nowMs() + ms, turn, then });
  };
  const send = (): void => {
    const now = nowMs();
    const waiting: Sending[] = [];
    for (const sending of line) {
      const { copy } = sending;
      // Nobody passes a copy that waits for a wire of its own.
      const isHeld =
        copy.wires.some((wire) => (freeMs.get(wire) ?? 0) > now) ||
        waiting.some((other) => copy.wires.some((wire) => other.copy.wires.includes(wire)));
      if (isHeld) {
        waiting.push(sending);
        continue;
      }
      const bytes = Math.min(PIECE_BYTES, sending.leftBytes);
      device.set(host.subarray(0, bytes / bytesFor));
      sending.leftBytes -= bytes;
      // What was late by the clock is made up for, where the wire had a next piece to carry at once.
      const from = Math.max(...copy.wires.map((wire) => freeMs.get(wire) ?? 0));
      const begunMs = sending.isGoing && now - from < LATE_MS ? from : now;
      sending.isGoing = true;
      const pace = Math.min(copy.bytesPerMs, ...copy.wires.map(capacity));
      const untilMs = begunMs + bytes / pace;
      for (const wire of copy.wires) freeMs.set(wire, untilMs);
      turn += 1;
      const then = sending.leftBytes > 0 ? () => line.push(sending) : copy.done;
      due.push({ atMs: untilMs, turn, then });
    }
    line = waiting;
  };
  return {
    nowMs,
    after,
    start: (copy) => line.push({ copy, leftBytes: copy.bytes, isGoing: false }),
    run() {
      for (;;) {
        if (line.length > 0) send();
        const next = due.peek();
        if (next === undefined) return;
        if (next.atMs > nowMs()) continue;
        due.pop();
        next.then();
      }
    },
  };
}

interface Due {
  readonly atMs: number;
  readonly turn: number;
  readonly then: () => void;
}

interface Sending {
  readonly copy: Copy;
  leftBytes: number;
  isGoing: boolean;
}

/** Of the host: the thread's own work between two pieces. */
const LATE_MS = 0.05;

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3;
}
