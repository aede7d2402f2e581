/**
 * @file Writes a rank's output in parts of bounded size, and drops the oldest part when there are too many.
 *
 * A part's name is the offset of its first byte in the rank's whole output, so names and sizes suffice and no
 * index is kept. Output and error are one stream; a character that one of them has not finished yet is held back, or
 * the other could write into its middle. A full disk loses output (a line says how much) but never ends the ranks.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { join } from "node:path";
import type { Appender, Files } from "../ports/files.ts";
import { unfinishedTail } from "../system/utf8-cut.ts";
import type { LogLimits } from "../folder/launch-files.ts";

export interface RankLog {
  write(stream: "out" | "err", bytes: Buffer): void;
  /** Writes the bytes that were held back; call when a stream has ended. */
  end(stream: "out" | "err"): void;
  /** Closes the file; a later write opens a new part. */
  close(): void;
  /** Of a closed log whose last bytes were lost: says so where the disk has room by now. */
  tellLoss(): void;
}

/** 16 digits: offsets sort as text. */
export const partName = (offset: number): string => `${String(offset).padStart(16, "0")}.log`;

/** Offsets of the parts that are there, ascending. */
export const partStarts = (files: Files, dir: string): readonly number[] =>
  files
    .list(dir)
    .filter((name) => /^\d+\.log$/.test(name))
    .map((name) => Number.parseInt(name, 10))
    .sort((a, b) => a - b);

export function openRankLog(files: Files, dir: string, limits: LogLimits): RankLog {
  const parts: number[] = [];
  const held = new Map<string, Buffer>();
  let isOpen = false;
  let part: Appender | undefined;
  let offset = 0;
  let partSize = 0;
  let lostBytes = 0;

  /** Makes the folder. Output that is there already is of an earlier try of the same array task, and stays. */
  const goOn = (): void => {
    if (!files.makeFolder(dir)) {
      parts.push(...partStarts(files, dir));
      const last = parts.at(-1);
      if (last !== undefined)
        offset = last + (files.stat(join(dir, partName(last)))?.sizeBytes ?? 0);
    }
    isOpen = true;
  };

  const rotate = (): Appender => {
    part?.close();
    part = undefined;
    if (!isOpen) goOn();
    const next = files.openAppender(join(dir, partName(offset)));
    parts.push(offset);
    partSize = 0;
    while (parts.length > limits.parts) files.remove(join(dir, partName(parts.shift() ?? 0)));
    return next;
  };

  /** How many of the bytes are on the disk now. */
  const append = (bytes: Buffer): number => {
    let at = 0;
    try {
      while (at < bytes.length) {
        if (part === undefined || partSize >= limits.partBytes) part = rotate();
        const written = part.write(bytes.subarray(at, at + limits.partBytes - partSize));
        at += written;
        offset += written;
        partSize += written;
      }
    } catch {
      // Counted by the caller and told in the log as soon as there is room again.
    }
    return at;
  };

  /** Says how much was lost; false while the disk does not take that either. */
  const tellLoss = (): boolean => {
    if (lostBytes === 0) return true;
    const note = Buffer.from(
      `\n[orbweaver: ${lostBytes} bytes were lost, the disk did not take them]\n`,
    );
    if (append(note) < note.length) return false;
    lostBytes = 0;
    return true;
  };

  const appendAll = (bytes: Buffer): void => {
    lostBytes += tellLoss() ? bytes.length - append(bytes) : bytes.length;
  };

  const close = (): void => {
    part?.close();
    part = undefined;
  };

  return {
    write: (stream, bytes) => {
      const whole = Buffer.concat([held.get(stream) ?? Buffer.alloc(0), bytes]);
      const cut = whole.length - unfinishedTail(whole);
      held.set(stream, whole.subarray(cut));
      if (cut > 0) appendAll(whole.subarray(0, cut));
    },
    end: (stream) => {
      const rest = held.get(stream);
      held.delete(stream);
      if (rest !== undefined && rest.length > 0) appendAll(rest);
    },
    close,
    tellLoss: () => {
      if (lostBytes === 0) return;
      tellLoss();
      close();
    },
  };
}
