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

const stampOf = (path: string): string => {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? "" : `${found.mtimeMs} ${found.size} ${found.ino}`;
};
