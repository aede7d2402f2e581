/** @file When a fleet's folder was collected last, what went, and whether that was by itself: `last-collection.json` in it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { parsedJson } from "../../lib/parsed-json.ts";
import { durationText, counted } from "../terminal/duration.ts";
import type { Collected } from "./collect.ts";
import { returnedText, sizeText } from "./collection-text.ts";
import { writeNote } from "./noted-ends.ts";
import type { HousePlace } from "./plan.ts";

/** Between two collections by themselves. */
export const COLLECTED_EVERY_MS = 86_400_000;
const NAME = "last-collection.json";
const schema = z.object({
  atMs: z.number(),
  isByItself: z.boolean(),
  things: z.number(),
  bytes: z.number(),
  rows: z.number(),
  /** Notes of former releases have none. */
  returnedBytes: z.number().default(0),
  failed: z.number(),
});

export type LastCollection = z.output<typeof schema>;

/** Undefined where there was none, or its note cannot be read. */
export function readLastCollection(stateDir: string): LastCollection | undefined {
  try {
    return schema.safeParse(parsedJson(readFileSync(join(stateDir, NAME), "utf8"))).data;
  } catch {
    return undefined;
  }
}

export function noteCollection(
  { stateDir, nowMs: atMs }: Pick<HousePlace, "stateDir" | "nowMs">,
  { things, bytes, rows, returnedBytes, failed }: Collected,
  isByItself: boolean,
): void {
  const counts = { things, bytes, rows, returnedBytes, failed: failed.length };
  const last: LastCollection = { atMs, isByItself, ...counts };
  writeNote(stateDir, NAME, last);
}

export function byItselfText(last: LastCollection | undefined, nowMs: number): string {
  if (last === undefined) return "nothing was collected here yet";
  const { atMs, isByItself, things, bytes, rows, returnedBytes, failed } = last;
  const rest = [
    ...(rows > 0 ? [counted(rows, "old row")] : []),
    ...(returnedBytes > 0 ? [returnedText(returnedBytes)] : []),
    ...(failed > 0 ? [`${counted(failed, "thing")} that could not be removed`] : []),
  ];
  return `collected ${durationText(nowMs - atMs)} ago${isByItself ? " by itself" : ""}: ${[counted(things, "thing"), sizeText(bytes), ...rest].join(", ")}`;
}
