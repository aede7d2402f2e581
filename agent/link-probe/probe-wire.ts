/**
 * @file The protocol of a probe's connection: a token, then frames of nine bytes, some followed by data; and the meter of the data's rate.
 *
 * `p` + eight bytes is sent back as it is (a round trip). `u` + length announces data to the listener, which answers `r` + the rate that it
 * measured. `d` + length asks the listener for data. The rate is that of the second half of the bytes, by the receiver's clock: the first half
 * covers the connection's slow start.
 */

export const FRAME_BYTES = 9;
export const TOKEN_BYTES = 32;

export type FrameKind = "p" | "u" | "d" | "r";

export interface Frame {
  readonly kind: FrameKind;
  readonly value: number;
}

export function frame(kind: FrameKind, value: number): Buffer {
  const bytes = Buffer.alloc(FRAME_BYTES);
  bytes.write(kind, "latin1");
  bytes.writeDoubleBE(value, 1);
  return bytes;
}

/** Undefined when the bytes are no frame. */
export function readFrame(bytes: Buffer): Frame | undefined {
  const kind = bytes.toString("latin1", 0, 1);
  const value = bytes.readDoubleBE(1);
  if (!Number.isFinite(value) || value < 0) return undefined;
  return kind === "p" || kind === "u" || kind === "d" || kind === "r" ? { kind, value } : undefined;
}

export interface Meter {
  /** Counts bytes that have come; true when those were the last. */
  readonly add: (bytes: number, atMs: number) => boolean;
  readonly gbps: () => number;
}

/** Clocks tick in microseconds at best. */
const LEAST_MS = 0.001;

export function openMeter(allBytes: number): Meter {
  let bytes = 0;
  let first: { readonly atMs: number; readonly bytes: number } | undefined;
  let half: { readonly atMs: number; readonly bytes: number } | undefined;
  let lastMs = 0;
  return {
    add: (more, atMs) => {
      bytes += more;
      lastMs = atMs;
      first ??= { atMs, bytes };
      if (bytes >= allBytes / 2) half ??= { atMs, bytes };
      return bytes >= allBytes;
    },
    gbps: () => {
      // All in one piece: there is no second half to time.
      const from = half !== undefined && half.bytes < bytes ? half : first;
      if (from === undefined || from.bytes >= bytes) return 0;
      return ((bytes - from.bytes) * 8) / 1e6 / Math.max(LEAST_MS, lastMs - from.atMs);
    },
  };
}
