/**
 * @file Since when jobs of which something lies here are known neither to Temporal nor to the history database: `unknown-jobs.json` in the fleet's state folder.
 *
 * One look at the wrong server makes every job unknown. So a look only notes the time, from which the ages count.
 */

import { randomUUID } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { PRIVATE_FILE } from "../../access/private-files.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

const NAME = "unknown-jobs.json";
const schema = z.object({ version: z.literal(1), jobs: z.record(z.string(), z.number()) });

export type UnknownJobs = ReadonlyMap<string, number>;

/** A file that cannot be read notes nothing: the ages begin anew. */
export function readUnknownJobs(stateDir: string): UnknownJobs {
  try {
    const found = schema.safeParse(parsedJson(readFileSync(join(stateDir, NAME), "utf8")));
    return new Map(Object.entries(found.data?.jobs ?? {}));
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return new Map();
    throw error;
  }
}

export function writeUnknownJobs(stateDir: string, jobs: UnknownJobs): void {
  const aside = join(stateDir, `${NAME}.${randomUUID()}`);
  writeFileSync(aside, JSON.stringify({ version: 1, jobs: Object.fromEntries(jobs) }), {
    mode: PRIVATE_FILE,
  });
  renameSync(aside, join(stateDir, NAME));
}
