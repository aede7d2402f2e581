/** @file Who is told of what, from a fleet file: read again whenever the file has changed. */

import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { NotifyOptions } from "../../console/history/start-history.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { readFleet } from "./fleet-files.ts";

/** Throws where the file cannot be read now; later the former targets stay, and `say` tells why. */
export function readNotify(
  name: string,
  { cwd, say }: { readonly cwd: string; readonly say: (line: string) => void },
): NotifyOptions {
  const path = resolve(cwd, name);
  const read = (): NonNullable<Fleet["notify"]> => readFleet(name, cwd).notify ?? [];
  let targets = read();
  let stamp = stampOf(path);
  return {
    folder: dirname(path),
    targets() {
      const now = stampOf(path);
      if (now === stamp) return targets;
      stamp = now;
      try {
        targets = read();
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        say(`console: the former targets of notices stay: ${why}`);
      }
      return targets;
    },
  };
}

/** What cannot be looked at has a stamp of its own, so that reading it says why. */
function stampOf(path: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(path);
    return `${mtimeMs} ${size} ${ino}`;
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : "unknown";
  }
}
