/**
 * @file The listening end of a probe: a TCP listener on the agent's own address, open for seconds and for one peer.
 *
 * It listens where the other hosts of a gang would connect: on the agent's address where that belongs to this machine, so an agent on loopback
 * listens on loopback only; on all addresses where the name belongs to a proxy in front. A connection that does not begin with the token is
 * closed; data is counted and dropped. The listener closes with its peer, at its time limit, or with the agent.
 */

import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { FRAME_BYTES, frame, openMeter, readFrame, TOKEN_BYTES, type Meter } from "./probe-wire.ts";

export interface Listener {
  readonly port: number;
  readonly token: string;
  /** A peer with the token has connected. */
  readonly isTaken: () => boolean;
  readonly closed: Promise<void>;
  readonly close: () => void;
}

export interface ListenSetting {
  readonly address: string;
  readonly openMs: number;
  /** Of one answer, whatever is asked for. */
  readonly mostBytes: number;
  readonly closing: AbortSignal;
}

/** Connections without a token yet, at a time. */
const MAX_WAITING = 8;
const TOKEN_WITHIN_MS = 2_000;
const PIECE = randomBytes(64 * 1024);

export async function listenForProbe(setting: ListenSetting): Promise<Listener> {
  const token = randomBytes(TOKEN_BYTES / 2).toString("hex");
  const peers = new Set<Socket>();
  let hasPeer = false;
  const server = createServer((peer) => {
    peer.on("error", () => peer.destroy());
    if (hasPeer || peers.size >= MAX_WAITING) {
      peer.destroy();
      return;
    }
    peers.add(peer);
    peer.once("close", () => peers.delete(peer));
    peer.setNoDelay(true);
    const late = setTimeout(() => peer.destroy(), TOKEN_WITHIN_MS);
    const onKnown = (): void => {
      clearTimeout(late);
      hasPeer = true;
      peer.once("close", close);
    };
    receive(peer, { token, mostBytes: setting.mostBytes, onKnown });
    peer.once("close", () => clearTimeout(late));
  });
  const port = await listen(server, setting.address);
  const closed = once(server, "close").then(() => undefined);
  const timer = setTimeout(close, setting.openMs);
  setting.closing.addEventListener("abort", close, { once: true });
  return { port, token, isTaken: () => hasPeer, closed, close };

  function close(): void {
    clearTimeout(timer);
    setting.closing.removeEventListener("abort", close);
    for (const peer of peers) peer.destroy();
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
      resolve((server.address() as AddressInfo).port); // A TCP server's address is one.
    });
  });

interface Reception {
  readonly token: string;
  readonly mostBytes: number;
  /** The peer has sent the token. */
  readonly onKnown: () => void;
}

/** Reads a peer's frames, piece by piece; a wrong one ends the connection. */
function receive(peer: Socket, { token, mostBytes, onKnown }: Reception): void {
  let rest: Buffer = Buffer.alloc(0);
  let isKnown = false;
  let upload: { readonly meter: Meter; left: number } | undefined;
  peer.on("data", (piece: Buffer) => {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    while (!peer.destroyed) {
      if (upload !== undefined) {
        const taken = Math.min(upload.left, rest.length);
        if (taken === 0) return;
        rest = rest.subarray(taken);
        upload.left -= taken;
        if (!upload.meter.add(taken, performance.now())) continue;
        peer.write(frame("r", upload.meter.gbps()));
        upload = undefined;
      } else if (!isKnown) {
        if (rest.length < TOKEN_BYTES) return;
        const said = rest.subarray(0, TOKEN_BYTES);
        if (!timingSafeEqual(said, Buffer.from(token, "latin1"))) return void peer.destroy();
        isKnown = true;
        onKnown();
        rest = rest.subarray(TOKEN_BYTES);
      } else {
        if (rest.length < FRAME_BYTES) return;
        const found = readFrame(rest.subarray(0, FRAME_BYTES));
        rest = rest.subarray(FRAME_BYTES);
        if (found?.kind === "p") peer.write(frame("p", found.value));
        else if (found?.kind === "u" && found.value > 0 && found.value <= mostBytes)
          upload = { meter: openMeter(found.value), left: found.value };
        else if (found?.kind === "d" && found.value <= mostBytes) void send(peer, found.value);
        else peer.destroy();
      }
    }
  });
}

/** Random bytes, which no device on the way can compress. */
export async function send(to: Socket, bytes: number): Promise<void> {
  const closed = new AbortController();
  const stop = (): void => closed.abort();
  to.once("close", stop);
  for (let left = bytes; left > 0 && !to.destroyed; left -= PIECE.length) {
    const piece = left < PIECE.length ? PIECE.subarray(0, left) : PIECE;
    if (to.write(piece)) continue;
    // The reader of the answer notices a connection that ends or breaks.
    await once(to, "drain", { signal: closed.signal }).catch(() => undefined);
  }
  to.removeListener("close", stop);
}
