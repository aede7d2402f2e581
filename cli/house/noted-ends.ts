/**
 * @file What collections have seen of the ends of jobs of which something lies here: `ended-jobs.json` in the fleet's state folder.
 *
 * Temporal drops what has ended, and many hosts have no history database. An end that Temporal told is proven. A job that is unknown when it is first looked
 * for is noted with that time and no proof, because one look at the wrong server makes every job unknown.
 */

import { randomUUID } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { giveToFolderOwner, PRIVATE_FILE } from "../../access/private-files.ts";
import { tenantId } from "../../domain/values/ids.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

const NAME = "ended-jobs.json";
const noteSchema = z.object({
  /** When it ended, or was first found to be unknown. */
  atMs: z.number(),
  isProven: z.boolean(),
  tenant: z.string().transform(tenantId).exactOptional(),
});
const schema = z.object({ version: z.literal(1), jobs: z.record(z.string(), noteSchema) });

export type NotedEnd = z.output<typeof noteSchema>;
export type NotedEnds = ReadonlyMap<string, NotedEnd>;

/** A file that cannot be read notes nothing: the ages begin anew. */
export function readNotedEnds(stateDir: string): NotedEnds {
  try {
    const found = schema.safeParse(parsedJson(readFileSync(join(stateDir, NAME), "utf8")));
    return new Map(Object.entries(found.data?.jobs ?? {}));
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return new Map();
    throw error;
  }
}

export function writeNotedEnds(stateDir: string, ends: NotedEnds): void {
  writeNote(stateDir, NAME, { version: 1, jobs: Object.fromEntries(ends) });
}

/** Whole or not at all, and the folder's owner's. */
export function writeNote(stateDir: string, name: string, note: object): void {
  const aside = join(stateDir, `${name}.${randomUUID()}`);
  writeFileSync(aside, JSON.stringify(note), { mode: PRIVATE_FILE });
  giveToFolderOwner(aside);
  renameSync(aside, join(stateDir, name));
}
