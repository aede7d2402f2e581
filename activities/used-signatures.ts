/**
 * @file Which start of its job's workflow each signature has served first, so that a job that has ended is not begun again by the signature in its memo.
 *
 * One line for each, `<signature> <first run>;`, added before the first ticket is signed, in a private file that the workers of all fleets of a user on this
 * machine share. The newest 50,000 to 100,000 are kept, of 83 bytes each. Cost: a `stat` of the file for each grant, an append for the first one of a job.
 */

import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import { PRIVATE_DIR, PRIVATE_FILE } from "../access/private-files.ts";

export interface UsedSignatures {
  /** The start that the signature has served first, by the id of its first run: `start`, where it has served none before. */
  firstStart(signature: string, start: string): string;
}

interface UsedSignaturesSetting {
  readonly file: string;
  /** What was used is known to this worker all the same, until it ends. */
  readonly onTrouble: (why: string) => void;
  readonly kept?: number;
}

const KEPT = 50_000;
/** One that a full disk has cut off lacks its end. */
const LINE = /^([\w-]{1,64}) ([\w-]{1,64});$/;
const lineOf = (signature: string, start: string): string => `${signature} ${start};\n`;

export function usedSignatures({
  file,
  onTrouble,
  kept = KEPT,
}: UsedSignaturesSetting): UsedSignatures {
  const starts = new Map<string, string>();
  let place = { inode: 0, bytes: 0 };

  /** What others have added since, or all of another file in its place. The first line of a signature counts. */
  const refresh = (): void => {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined) return;
    const from = found.ino === place.inode && found.size >= place.bytes ? place.bytes : 0;
    if (from === found.size) return;
    const text = textOf(file, from, found.size);
    const whole = text.lastIndexOf("\n") + 1;
    for (const line of text.slice(0, whole).split("\n")) {
      const [, signature = "", start = ""] = LINE.exec(line) ?? [];
      if (start !== "" && !starts.has(signature)) starts.set(signature, start);
    }
    place = { inode: found.ino, bytes: from + Buffer.byteLength(text.slice(0, whole)) };
  };

  const tried = (write: () => void): void => {
    try {
      write();
    } catch (error) {
      onTrouble(`which signatures were used cannot be kept in ${file}: ${String(error)}`);
    }
  };

  return {
    firstStart(signature, start) {
      tried(refresh);
      const known = starts.get(signature);
      if (known !== undefined) return known;
      starts.set(signature, start);
      tried(() => {
        mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
        appendFileSync(file, `\n${lineOf(signature, start)}`, { mode: PRIVATE_FILE });
        if (starts.size <= 2 * kept) return;
        for (const oldest of [...starts.keys()].slice(0, starts.size - kept)) starts.delete(oldest);
        const aside = `${file}.${randomUUID()}`;
        const lines = [...starts].map((line) => lineOf(...line));
        writeFileSync(aside, lines.join(""), { mode: PRIVATE_FILE });
        renameSync(aside, file);
      });
      return start;
    },
  };
}

function textOf(file: string, from: number, to: number): string {
  const fd = openSync(file, "r");
  try {
    const bytes = Buffer.alloc(to - from);
    return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, from)).toString("latin1");
  } finally {
    closeSync(fd);
  }
}
