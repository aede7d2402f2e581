/** @file Numbers of the standing signatures that a submit service no longer stands by: a line each, in a private file that is only ever added to. */

import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { PRIVATE_DIR, PRIVATE_FILE } from "./private-files.ts";
import { hasErrorCode } from "../lib/error-code.ts";

export interface RevokedOrders {
  readonly has: (number: string) => boolean;
  readonly add: (number: string) => void;
}

/** Another service of the same file may add to it, so it is read each time: a schedule asks about once a minute at most. */
export function revokedOrders(file: string): RevokedOrders {
  return {
    has: (number) => linesOf(file).includes(number),
    add(number) {
      mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
      appendFileSync(file, `${number}\n`, { mode: PRIVATE_FILE, flush: true });
    },
  };
}

function linesOf(file: string): readonly string[] {
  try {
    return readFileSync(file, "utf8").split("\n");
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return [];
    throw error;
  }
}
