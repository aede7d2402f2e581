/**
 * @file CRC-32 as zlib, gzip and PNG have it (reflected polynomial 0xEDB88320), of a text whose characters are bytes (code units below 256).
 *
 * It detects torn and half-written files; it is no protection against tampering. Cost: one table look-up a byte.
 */

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1)
    value = (value & 1) === 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});

export function crc32(text: string): number {
  let crc = 0xffffffff;
  for (let at = 0; at < text.length; at += 1)
    crc = (TABLE[(crc ^ text.charCodeAt(at)) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** Eight lower-case hexadecimal digits. */
export const crc32Text = (text: string): string => crc32(text).toString(16).padStart(8, "0");
