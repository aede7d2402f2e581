/** @file Who is told of what, and what becomes of idle jobs, from a fleet file: read again whenever the file has changed. */

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
  const read = (): Pick<Fleet, "notify" | "jobNotices" | "idle"> => readFleet(name, cwd);
  let rules = read();
  let stamp = stampOf(path);
  const current = (): typeof rules => {
    const now = stampOf(path);
    if (now === stamp) return rules;
    stamp = now;
    try {
      rules = read();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      say(`console: the former targets of notices and rules on idle jobs stay: ${why}`);
    }
    return rules;
  };
  return {
    folder: dirname(path),
    targets: () => current().notify ?? [],
    jobRules: () => current().jobNotices ?? [],
    idle: () => current().idle ?? new Map(),
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
