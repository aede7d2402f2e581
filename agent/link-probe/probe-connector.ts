/**
 * @file The connecting end of a probe: round trips first, then data there and back, each for about half a second at most.
 *
 * The rate of a first piece of 256 KiB sets the size of the second, so that a slow link is not held up and a fast one carries enough data to be
 * measured. The round trip is the least of several, because the delay of queues is no property of the link. One deadline bounds it all; any
 * failure is reported as "no answer", with the reason.
 */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { ConnectOrder, ProbeReport } from "../../protocol/link-contract.ts";
import { nodeClock } from "../system/node-clock.ts";
import { send } from "./probe-listener.ts";
import { FRAME_BYTES, frame, openMeter, readFrame, type Frame } from "./probe-wire.ts";

const ROUND_TRIPS = 5;
const FIRST_BYTES = 256 * 1024;
const MEASURED_MS = 500;

export async function connectProbe(
  { listener, mostBytes, withinMs }: ConnectOrder,
  cancelled: AbortSignal,
): Promise<ProbeReport> {
  const socket = connect({ host: listener.address, port: listener.port, noDelay: true });
  const deadline = AbortSignal.any([cancelled, nodeClock.deadline(withinMs)]);
  const stopTrying = (): void => {
    socket.destroy(new Error(`the probe did not end within ${withinMs / 1000} s`));
  };
  deadline.addEventListener("abort", stopTrying, { once: true });
  try {
    await once(socket, "connect");
    const isLocal = socket.localAddress === socket.remoteAddress;
    socket.write(Buffer.from(listener.token, "latin1"));
    const line = readerOf(socket);
    let roundTripMs = Infinity;
    for (let trip = 0; trip < ROUND_TRIPS; trip += 1) {
      const sentAtMs = performance.now();
      socket.write(frame("p", trip));
      await line.frame();
      roundTripMs = Math.min(roundTripMs, performance.now() - sentAtMs);
    }
    const there = await measured(mostBytes, (bytes) => push(socket, line, bytes));
    const back = await measured(mostBytes, (bytes) => pull(socket, line, bytes));
    const bytes = there.bytes + back.bytes;
    return {
      kind: "through",
      roundTripMs,
      thereGbps: there.gbps,
      backGbps: back.gbps,
      bytes,
      isLocal,
    };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: "no-answer", message: `${listener.address}:${listener.port}: ${why}` };
  } finally {
    deadline.removeEventListener("abort", stopTrying);
    socket.destroy();
  }
}

async function measured(
  mostBytes: number,
  move: (bytes: number) => Promise<number>,
): Promise<{ readonly gbps: number; readonly bytes: number }> {
  const firstBytes = Math.min(FIRST_BYTES, mostBytes);
  const first = await move(firstBytes);
  // All bytes came in one piece: the link is faster than this piece can show.
  const wanted = first === 0 ? Infinity : (first * 1e6 * MEASURED_MS) / 8;
  const bytes = Math.floor(Math.min(mostBytes, wanted));
  if (bytes <= firstBytes) return { gbps: first, bytes: firstBytes };
  return { gbps: await move(bytes), bytes: firstBytes + bytes };
}

/** The rate that the listener measured. */
async function push(socket: Socket, line: Line, bytes: number): Promise<number> {
  socket.write(frame("u", bytes));
  void send(socket, bytes);
  return (await line.frame()).value;
}

async function pull(socket: Socket, line: Line, bytes: number): Promise<number> {
  const meter = openMeter(bytes);
  socket.write(frame("d", bytes));
  await line.bytes(bytes, (count) => meter.add(count, performance.now()));
  return meter.gbps();
}

interface Line {
  readonly frame: () => Promise<Frame>;
  readonly bytes: (count: number, onPiece: (bytes: number) => void) => Promise<void>;
}

/** Fails when the connection ends before the bytes that were asked for have come. */
function readerOf(socket: Socket): Line {
  const pieces: Buffer[] = [];
  let problem: Error | undefined;
  let wake: () => void = () => undefined;
  const fail = (error: Error): void => {
    problem ??= error;
    wake();
  };
  socket.on("data", (piece: Buffer) => {
    pieces.push(piece);
    wake();
  });
  socket.once("error", fail);
  socket.once("close", () => fail(new Error("the connection was closed")));
  const next = async (): Promise<Buffer> => {
    for (;;) {
      const piece = pieces.shift();
      if (piece !== undefined) return piece;
      if (problem !== undefined) throw problem;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  const take = async (count: number, onPiece: (piece: Buffer) => void): Promise<void> => {
    for (let left = count; left > 0;) {
      const piece = await next();
      const mine = piece.subarray(0, left);
      if (mine.length < piece.length) pieces.unshift(piece.subarray(mine.length));
      left -= mine.length;
      onPiece(mine);
    }
  };
  return {
    frame: async () => {
      const parts: Buffer[] = [];
      await take(FRAME_BYTES, (piece) => parts.push(piece));
      const found = readFrame(Buffer.concat(parts));
      if (found === undefined) throw new Error("the other end is not a listener of Orbweaver");
      return found;
    },
    bytes: (count, onPiece) => take(count, (piece) => onPiece(piece.length)),
  };
}
