/** @file The files that `bench plan` reads: those of the package, and graphs of the user's own. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

/** From sources and from the package alike. */
export const dataPath = (path: string): string => join(packageRoot(), "data", path);

export function textOf(path: string): string {
  try {
    const bytes = readFileSync(path);
    return (path.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw badInput(
      `The graph ${path} cannot be read (${reason}). Name a METIS, MSR or PipeDream file or lines \`a b weight\`, plain or .gz.`,
    );
  }
}

export const badInput = (message: string): OrbweaverError =>
  new OrbweaverError("BAD_INPUT", message);
