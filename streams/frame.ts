/**
 * @file The frames of a link: each is one binary message of a WebSocket.
 *
 * A byte of kind, then a channel (4 bytes) and an offset (6 bytes), big-endian; of `data` then the bytes. `resume` has the number of the pairing in
 * the place of the channel, and rows of channel, received and taken. An offset counts bytes since the channel's beginning; its end counts as one more.
 */

export type Frame =
  | {
      readonly kind: "data";
      readonly channel: number;
      readonly offset: number;
      readonly bytes: Buffer;
    }
  /** No data follows; `offset` is where it would. */
  | { readonly kind: "end"; readonly channel: number; readonly offset: number }
  /** The reader has taken everything below. */
  | { readonly kind: "taken"; readonly channel: number; readonly offset: number }
  /** What each end says first after a pairing: how far it has come. */
  | { readonly kind: "resume"; readonly pairing: number; readonly rows: readonly ResumeRow[] };

export interface ResumeRow {
  readonly channel: number;
  readonly received: number;
  readonly taken: number;
}

/** Of one `data` frame. */
export const MAX_DATA_BYTES = 65_536;
/** At once; what a peer opens beyond it ends the link. */
export const MAX_CHANNELS = 256;
const HEAD_BYTES = 11;
const ROW_BYTES = 16;
export const MAX_FRAME_BYTES: number =
  HEAD_BYTES + Math.max(MAX_DATA_BYTES, ROW_BYTES * MAX_CHANNELS);

const KINDS = ["data", "end", "taken", "resume"] as const;

/** The other end does not keep to the protocol, so the link is over. */
export class LinkFault extends Error {}

export function frameBytes(frame: Frame): Buffer {
  if (frame.kind === "resume") {
    const rows = frame.rows.map(({ channel, received, taken }) => {
      const row = Buffer.alloc(ROW_BYTES);
      row.writeUInt32BE(channel, 0);
      row.writeUIntBE(received, 4, 6);
      row.writeUIntBE(taken, 10, 6);
      return row;
    });
    return Buffer.concat([head(frame.kind, frame.pairing, 0), ...rows]);
  }
  const first = head(frame.kind, frame.channel, frame.offset);
  return frame.kind === "data" ? Buffer.concat([first, frame.bytes]) : first;
}

function head(kind: Frame["kind"], number: number, offset: number): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES);
  bytes.writeUInt8(KINDS.indexOf(kind), 0);
  bytes.writeUInt32BE(number, 1);
  bytes.writeUIntBE(offset, 5, 6);
  return bytes;
}

/** Throws LinkFault for what is no frame. */
export function parseFrame(bytes: Buffer): Frame {
  if (bytes.length < HEAD_BYTES || bytes.length > MAX_FRAME_BYTES)
    throw new LinkFault(`a frame of ${String(bytes.length)} bytes`);
  const kind = KINDS[bytes.readUInt8(0)];
  const channel = bytes.readUInt32BE(1);
  const offset = bytes.readUIntBE(5, 6);
  const rest = bytes.subarray(HEAD_BYTES);
  switch (kind) {
    case "data":
      if (rest.length === 0 || rest.length > MAX_DATA_BYTES)
        throw new LinkFault(`a frame with ${String(rest.length)} bytes of data`);
      return { kind, channel, offset, bytes: rest };
    case "end":
    case "taken":
      if (rest.length > 0) throw new LinkFault(`a frame with bytes that mean nothing`);
      return { kind, channel, offset };
    case "resume":
      return { kind, pairing: channel, rows: rowsIn(rest) };
    default:
      throw new LinkFault(`a frame of kind ${String(bytes.readUInt8(0))}`);
  }
}

function rowsIn(bytes: Buffer): readonly ResumeRow[] {
  if (bytes.length % ROW_BYTES !== 0 || bytes.length / ROW_BYTES > MAX_CHANNELS)
    throw new LinkFault("a resume frame with a part of a row, or with too many");
  return Array.from({ length: bytes.length / ROW_BYTES }, (_row, at) => ({
    channel: bytes.readUInt32BE(at * ROW_BYTES),
    received: bytes.readUIntBE(at * ROW_BYTES + 4, 6),
    taken: bytes.readUIntBE(at * ROW_BYTES + 10, 6),
  }));
}
