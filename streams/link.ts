/**
 * @file One end of a link: channels of bytes over connections that may break, without loss and in bounded memory.
 *
 * Sent bytes are kept until the other end's reader has taken them, at most a window for each channel, so a slow reader stops its writer. After each
 * pairing both ends say how far they have come, and each sends again from there; before that nothing is sent and nothing is believed, because
 * frames of a former pairing may still be on their way. Cost: one copy of the bytes for each frame.
 *
 * A reader has one piece in hand on each channel. What comes meanwhile is copied into blocks, because a window of frames of one byte each would
 * otherwise hold a hundred times its bytes.
 */

import {
  frameBytes,
  LinkFault,
  MAX_CHANNELS,
  MAX_DATA_BYTES,
  parseFrame,
  type Frame,
  type ResumeRow,
} from "./frame.ts";

/** Of a channel and a direction: bytes that were sent, and not taken by the reader. */
export const WINDOW_BYTES = 1_048_576;
/** A writer is told to wait here, so that what it has at hand still fits. */
const FULL_BYTES = WINDOW_BYTES / 2;
/** Of what waits for a reader that has something in hand. */
const BLOCK_BYTES = MAX_DATA_BYTES;
/** The reader says how far it is after so many bytes or frames. */
const SAY_EVERY_BYTES = WINDOW_BYTES / 8;
const SAY_EVERY_FRAMES = 64;

export interface LinkEvents {
  /** Call `taken` once the bytes are out of this process's hands: the window opens by it. */
  readonly onData: (channel: number, bytes: Buffer, taken: () => void) => void;
  /** Nothing more comes on the channel. */
  readonly onEnd: (channel: number) => void;
  /** A writer that was told to wait may go on. */
  readonly onRoom: (channel: number) => void;
}

export interface Link {
  /** Both ends open a channel before its first byte; numbers only grow. */
  readonly open: (channel: number) => void;
  /** The other end is there, by a connection with this number of its pairing. */
  readonly attach: (pairing: number, send: (frame: Buffer) => void) => void;
  readonly detach: () => void;
  /** Throws LinkFault; the link is over then. */
  readonly receive: (message: Buffer) => void;
  /** Takes all of it, for nothing where the channel has ended; false: no more until `onRoom`. */
  readonly write: (channel: number, bytes: Buffer) => boolean;
  readonly end: (channel: number) => void;
  /** Forgets the channel at this end; what still comes on it is thrown away. */
  readonly drop: (channel: number) => void;
  /** Everything that was written has been taken. */
  readonly isDrained: () => boolean;
  /** Bytes that this end keeps, of both directions. */
  readonly heldBytes: () => number;
}

interface Channel {
  /** Not yet taken by the other end's reader: the first byte of `kept` has the offset `base`. */
  kept: Buffer[];
  base: number;
  next: number;
  isEnded: boolean;
  isFull: boolean;
  /** Of the other direction. */
  received: number;
  taken: number;
  said: number;
  framesSinceSaid: number;
  isEndSeen: boolean;
  /** The reader has a piece in hand. */
  isReading: boolean;
  waiting: Block[];
}

interface Block {
  readonly bytes: Buffer;
  used: number;
}

export function createLink(events: LinkEvents): Link {
  const channels = new Map<number, Channel>();
  /** Channels up to here that are not in the map are over. */
  let highest = -1;
  let pairing: number | undefined;
  let send: ((frame: Buffer) => void) | undefined;
  /** The other end has said where to go on. */
  let isResumed = false;

  const say = (frame: Frame): void => {
    if (isResumed) send?.(frameBytes(frame));
  };
  const forgetIfOver = (id: number, channel: Channel): void => {
    const isAllTaken = channel.isEnded && channel.base === channel.next + 1;
    if (isAllTaken && channel.isEndSeen && channel.taken === channel.received) channels.delete(id);
  };

  function onTaken(id: number, offset: number): void {
    const channel = channels.get(id);
    if (channel === undefined) return;
    const end = channel.next + (channel.isEnded ? 1 : 0);
    if (offset > end) throw new LinkFault("more was taken than was sent");
    if (offset <= channel.base) return;
    release(channel, offset);
    if (channel.isFull && channel.next - channel.base < FULL_BYTES) {
      channel.isFull = false;
      events.onRoom(id);
    }
    forgetIfOver(id, channel);
  }

  function sayTaken(id: number, channel: Channel): void {
    channel.said = channel.taken;
    channel.framesSinceSaid = 0;
    say({ kind: "taken", channel: id, offset: channel.taken });
  }

  /** Undefined for a channel that is over here, of which the other end has not heard so: it need not send that again. */
  function openOrOver(id: number, offset: number): Channel | undefined {
    const channel = channels.get(id);
    if (channel === undefined && id > highest)
      throw new LinkFault(`channel ${String(id)} was not opened`);
    if (channel === undefined) say({ kind: "taken", channel: id, offset });
    return channel;
  }

  function onBytes(id: number, offset: number, bytes: Buffer): void {
    const channel = openOrOver(id, offset + bytes.length);
    if (channel === undefined) return;
    if (offset > channel.received) throw new LinkFault("bytes are missing in between");
    const fresh = bytes.subarray(channel.received - offset);
    if (fresh.length === 0) return;
    if (channel.isEndSeen) throw new LinkFault("bytes came after their end");
    if (channel.received + fresh.length - channel.taken > WINDOW_BYTES)
      throw new LinkFault("more bytes came than the window takes");
    channel.received += fresh.length;
    channel.framesSinceSaid += 1;
    if (channel.isReading) keepWaiting(channel.waiting, fresh);
    else handOver(id, channel, fresh);
  }

  function handOver(id: number, channel: Channel, bytes: Buffer): void {
    channel.isReading = true;
    let isTaken = false;
    events.onData(id, bytes, () => {
      if (isTaken || channels.get(id) !== channel) return;
      isTaken = true;
      channel.isReading = false;
      channel.taken += bytes.length;
      const isDue = channel.taken - channel.said >= SAY_EVERY_BYTES;
      if (isDue || channel.framesSinceSaid >= SAY_EVERY_FRAMES) sayTaken(id, channel);
      const next = channel.waiting.shift();
      if (next !== undefined) handOver(id, channel, next.bytes.subarray(0, next.used));
      endIfSeen(id, channel);
    });
  }

  function onEnd(id: number, offset: number): void {
    const channel = openOrOver(id, offset + 1);
    if (channel === undefined || channel.isEndSeen) return;
    if (offset !== channel.received) throw new LinkFault("an end at the wrong place");
    channel.received += 1;
    channel.isEndSeen = true;
    endIfSeen(id, channel);
  }

  /** The end is taken once all bytes before it are. */
  function endIfSeen(id: number, channel: Channel): void {
    if (!channel.isEndSeen || channel.taken !== channel.received - 1) return;
    channel.taken += 1;
    sayTaken(id, channel);
    events.onEnd(id);
    forgetIfOver(id, channel);
  }

  function onResume(rows: readonly ResumeRow[]): void {
    isResumed = true;
    const known = new Map(rows.map((row) => [row.channel, row]));
    for (const [id, channel] of [...channels]) {
      const row = known.get(id);
      if (row !== undefined) onTaken(id, row.taken);
      if (channels.get(id) !== channel) continue;
      sendFrom(id, channel, Math.max(row?.received ?? 0, channel.base));
    }
  }

  function sendFrom(id: number, { kept, base, next, isEnded }: Channel, from: number): void {
    if (from > next + (isEnded ? 1 : 0)) throw new LinkFault("more was received than was sent");
    let at = base;
    for (const bytes of kept) {
      const rest = bytes.subarray(Math.max(0, from - at));
      if (rest.length > 0) {
        const offset = at + bytes.length - rest.length;
        say({ kind: "data", channel: id, offset, bytes: rest });
      }
      at += bytes.length;
    }
    if (isEnded && from <= next) say({ kind: "end", channel: id, offset: next });
  }

  return {
    open(id) {
      if (!Number.isInteger(id) || id > MAX_CHANNEL_ID)
        throw new LinkFault(`${String(id)} is no channel`);
      if (id <= highest) throw new LinkFault(`channel ${String(id)} was opened before`);
      if (channels.size >= MAX_CHANNELS) throw new LinkFault("too many channels");
      channels.set(id, newChannel());
      highest = id;
    },
    attach(number, sender) {
      [pairing, send, isResumed] = [number, sender, false];
      const rows = [...channels].map(([channel, { received, taken }]) => ({
        channel,
        received,
        taken,
      }));
      sender(frameBytes({ kind: "resume", pairing: number, rows }));
    },
    detach() {
      [pairing, send, isResumed] = [undefined, undefined, false];
    },
    receive(message) {
      const frame = parseFrame(message);
      if (frame.kind === "resume") {
        if (frame.pairing === pairing && !isResumed) onResume(frame.rows);
        return;
      }
      if (!isResumed) return;
      if (frame.kind === "taken") onTaken(frame.channel, frame.offset);
      else if (frame.kind === "end") onEnd(frame.channel, frame.offset);
      else onBytes(frame.channel, frame.offset, frame.bytes);
    },
    write(id, bytes) {
      const channel = channels.get(id);
      if (channel === undefined || channel.isEnded) return true;
      for (let at = 0; at < bytes.length; at += MAX_DATA_BYTES) {
        const part = bytes.subarray(at, at + MAX_DATA_BYTES);
        channel.kept.push(part);
        say({ kind: "data", channel: id, offset: channel.next, bytes: part });
        channel.next += part.length;
      }
      channel.isFull = channel.next - channel.base >= FULL_BYTES;
      return !channel.isFull;
    },
    end(id) {
      const channel = channels.get(id);
      if (channel === undefined || channel.isEnded) return;
      channel.isEnded = true;
      say({ kind: "end", channel: id, offset: channel.next });
    },
    drop(id) {
      channels.delete(id);
    },
    isDrained: () =>
      [...channels.values()].every(({ base, next, isEnded }) => base >= next + (isEnded ? 1 : 0)),
    heldBytes: () =>
      [...channels.values()].reduce(
        (sum, { base, next, received, taken }) =>
          sum + Math.max(0, next - base) + (received - taken),
        0,
      ),
  };
}

/** Frames have four bytes for it. */
const MAX_CHANNEL_ID = 0xff_ff_ff_ff;

function keepWaiting(blocks: Block[], bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) {
    let last = blocks.at(-1);
    if (last === undefined || last.used === BLOCK_BYTES) {
      last = { bytes: Buffer.allocUnsafeSlow(BLOCK_BYTES), used: 0 };
      blocks.push(last);
    }
    const copied = bytes.copy(last.bytes, last.used, at);
    last.used += copied;
    at += copied;
  }
}

function release(channel: Channel, offset: number): void {
  while (channel.kept.length > 0) {
    const [first] = channel.kept;
    if (first === undefined || channel.base + first.length > offset) break;
    channel.base += first.length;
    channel.kept.shift();
  }
  const [first] = channel.kept;
  if (first !== undefined) channel.kept[0] = first.subarray(offset - channel.base);
  channel.base = offset;
}

const newChannel = (): Channel => ({
  ...{ kept: [], base: 0, next: 0, isEnded: false, isFull: false },
  ...{ received: 0, taken: 0, said: 0, framesSinceSaid: 0, isEndSeen: false },
  ...{ isReading: false, waiting: [] },
});
