/**
 * @file `run.folder`: the submitter's working folder, as `submit --sync` has put it into the store of a submit service. Each host gets a copy of its own
 * for each lease, in which the processes run.
 */

import { z } from "zod";
import { problemAt, valueAt, type SchemaProblem } from "../file/schema-problems.ts";

export interface FolderRule {
  /** SHA-256 of the list of its parts, in hexadecimal digits. Who knows it may read the folder. */
  readonly hash: string;
  /** Where hosts get it: `unix:PATH`, `https://…`, or `http://…` of the host itself; tried in this order. */
  readonly from: readonly string[];
}

export const MOST_PLACES = 8;
const PLACE = /^(?:unix:\/|https:\/\/|http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)(?::|\/|$))/;

export const folder = z
  .strictObject({
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "it has 64 hexadecimal digits, as `submit --sync` writes them")
      .meta({ description: "SHA-256 of the folder's list of parts." }),
    from: z
      .array(
        z
          .string()
          .max(1_024)
          .regex(PLACE, "write unix:/PATH, https://HOST:PORT, or http:// of the host itself"),
      )
      .min(1)
      .max(MOST_PLACES)
      .meta({ description: "Submit services that have it, as the hosts reach them." }),
  })
  .meta({
    description:
      "The folder in which the job was submitted, as `submit --sync` sent it. Hosts give each lease a copy, in which the processes run.",
    examples: [{ hash: "0".repeat(64), from: ["https://submit.example.org:8443"] }],
  });

/** A job runs in one folder. */
export function folderProblems(file: unknown): SchemaProblem[] {
  const path = ["run", "folder"];
  if (valueAt(file, path) === undefined || valueAt(file, ["run", "workdir"]) === undefined)
    return [];
  const message = "run.workdir names another working folder";
  return [problemAt(file, path, { message, remedy: "leave one of the two out" })];
}
