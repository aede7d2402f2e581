/**
 * @file Connections to one port of a launch: each has a channel. Before each connection the kernel is asked who listens there.
 */

import { connect, type Socket } from "node:net";
import { MAX_CHANNELS } from "../../streams/frame.ts";
import { FIRST_CONNECTION } from "../../streams/words.ts";
import type { Launch } from "../runs/local-run.ts";
import { listenerOf } from "./lease-ports.ts";
import type { SessionPart, SessionVoice } from "./session-end.ts";

const LOOK_EVERY_MS = 200;
/** At once; the other channels of a link are for words. */
const MOST_CONNECTIONS = MAX_CHANNELS - FIRST_CONNECTION;

export function forwardPart(launch: Launch, port: number, voice: SessionVoice): SessionPart {
  const sockets = new Map<number, Socket>();

  let looked: { readonly address: string | undefined; readonly atMs: number } | undefined;
  /** A look reads tables of the whole machine, so a few a second are enough for any number of connections. */
  function listener(): string | undefined {
    const atMs = performance.now();
    if (looked === undefined || atMs - looked.atMs > LOOK_EVERY_MS)
      looked = { address: listenerOf(launch, port), atMs };
    return looked.address;
  }

  function open(channel: number): void {
    voice.open(channel);
    const refuse = (message: string): void => {
      voice.say({ refused: channel, message });
      voice.drop(channel);
    };
    if (sockets.size >= MOST_CONNECTIONS) return refuse("too many connections at once");
    const address = listener();
    if (address === undefined)
      return refuse(
        `no process of the job listens on port ${String(port)} of a loopback address of its host`,
      );
    const socket = connect({ host: address, port, allowHalfOpen: true });
    sockets.set(channel, socket);
    socket.on("data", (bytes) => {
      if (!voice.write(channel, bytes)) socket.pause();
    });
    socket.on("end", () => voice.end(channel));
    socket.on("error", () => undefined);
    socket.on("close", (hadError) => {
      sockets.delete(channel);
      if (!hadError) return;
      voice.say({ drop: channel });
      voice.drop(channel);
    });
  }

  return {
    onWord(word) {
      const { connect: wanted, drop } = word as Readonly<Record<string, unknown>>;
      if (typeof wanted === "number") open(wanted);
      if (typeof drop === "number") {
        sockets.get(drop)?.destroy();
        voice.drop(drop);
      }
    },
    onData(channel, bytes, taken) {
      const socket = sockets.get(channel);
      if (socket?.writable === true) socket.write(bytes, () => taken());
      else taken();
    },
    onEnd: (channel) => {
      sockets.get(channel)?.end();
    },
    onRoom: (channel) => {
      sockets.get(channel)?.resume();
    },
    hangUp() {
      for (const socket of sockets.values()) socket.destroy();
    },
  };
}
