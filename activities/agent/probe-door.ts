/**
 * @file The listening end of a probe: a door on the agent's own address, open for seconds and for one guest.
 *
 * It listens where the other hosts of a gang would connect to: on the agent's address where that is this machine's, so an agent on loopback is heard on loopback
 * only; on all addresses where it is a name of something in front. Whoever does not begin with the token is cut off; data is counted and thrown away. It
 * closes with its guest, at its time, or with the agent.
 */

import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { FRAME_BYTES, frame, openMeter, readFrame, TOKEN_BYTES, type Meter } from "./probe-wire.ts";

export interface Door {
  readonly port: number;
  readonly token: string;
  /** Somebody with the token is in. */
  readonly isTaken: () => boolean;
  readonly closed: Promise<void>;
  readonly close: () => void;
}

export interface DoorSetting {
  readonly address: string;
  readonly openMs: number;
  /** Sent at once at most, whatever is asked for. */
  readonly mostBytes: number;
  readonly closing: AbortSignal;
}

/** Strangers that may stand before it at a time. */
const MAX_WAITING = 8;
const TOKEN_WITHIN_MS = 2_000;
const PIECE = randomBytes(64 * 1024);

export async function openDoor(setting: DoorSetting): Promise<Door> {
  const token = randomBytes(TOKEN_BYTES / 2).toString("hex");
  const guests = new Set<Socket>();
  let hasGuest = false;
  const server = createServer((guest) => {
    guest.on("error", () => guest.destroy());
    if (hasGuest || guests.size >= MAX_WAITING) {
      guest.destroy();
      return;
    }
    guests.add(guest);
    guest.once("close", () => guests.delete(guest));
    guest.setNoDelay(true);
    const late = setTimeout(() => guest.destroy(), TOKEN_WITHIN_MS);
    receive(guest, token, setting.mostBytes, () => {
      clearTimeout(late);
      hasGuest = true;
      guest.once("close", close);
    });
    guest.once("close", () => clearTimeout(late));
  });
  const port = await listen(server, setting.address);
  const closed = once(server, "close").then(() => undefined);
  const timer = setTimeout(close, setting.openMs);
  setting.closing.addEventListener("abort", close, { once: true });
  return { port, token, isTaken: () => hasGuest, closed, close };

  function close(): void {
    clearTimeout(timer);
    setting.closing.removeEventListener("abort", close);
    for (const guest of guests) guest.destroy();
    server.close();
  }
}

async function listen(server: Server, address: string): Promise<number> {
  try {
    return await listenOn(server, address);
  } catch {
    // The address is no interface of this machine, or no name that it can resolve.
    return await listenOn(server, undefined);
  }
}

const listenOn = (server: Server, host: string | undefined): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port: 0, ...(host !== undefined && { host }) }, () => {
      server.removeListener("error", reject);
      resolve((server.address() as AddressInfo).port); // a TCP server's is one
    });
  });

/** What a guest says, piece by piece; a wrong word ends it. */
function receive(guest: Socket, token: string, mostBytes: number, onKnown: () => void): void {
  let rest: Buffer = Buffer.alloc(0);
  let isKnown = false;
  let upload: { readonly meter: Meter; left: number } | undefined;
  guest.on("data", (piece: Buffer) => {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    while (!guest.destroyed) {
      if (upload !== undefined) {
        const taken = Math.min(upload.left, rest.length);
        if (taken === 0) return;
        rest = rest.subarray(taken);
        upload.left -= taken;
        if (!upload.meter.add(taken, performance.now())) continue;
        guest.write(frame("r", upload.meter.gbps()));
        upload = undefined;
      } else if (!isKnown) {
        if (rest.length < TOKEN_BYTES) return;
        const said = rest.subarray(0, TOKEN_BYTES);
        if (!timingSafeEqual(said, Buffer.from(token, "latin1"))) return void guest.destroy();
        isKnown = true;
        onKnown();
        rest = rest.subarray(TOKEN_BYTES);
      } else {
        if (rest.length < FRAME_BYTES) return;
        const word = readFrame(rest.subarray(0, FRAME_BYTES));
        rest = rest.subarray(FRAME_BYTES);
        if (word?.kind === "p") guest.write(frame("p", word.value));
        else if (word?.kind === "u" && word.value > 0 && word.value <= mostBytes)
          upload = { meter: openMeter(word.value), left: word.value };
        else if (word?.kind === "d" && word.value <= mostBytes) void send(guest, word.value);
        else guest.destroy();
      }
    }
  });
}

/** Noise, so that nothing on the way can make it smaller. */
export async function send(to: Socket, bytes: number): Promise<void> {
  const closed = new AbortController();
  const stop = (): void => closed.abort();
  to.once("close", stop);
  for (let left = bytes; left > 0 && !to.destroyed; left -= PIECE.length) {
    const piece = left < PIECE.length ? PIECE.subarray(0, left) : PIECE;
    if (to.write(piece)) continue;
    // A connection that ends or breaks is seen by who waits for its answer.
    await once(to, "drain", { signal: closed.signal }).catch(() => undefined);
  }
  to.removeListener("close", stop);
}
