/** @file The policies that a simulation may be asked for, by name: those that `bench queue` compares, in the same reading. */

import { ENTRANT_NAMES, ENTRANTS, type EntrantName } from "../../simulator/entrants/entrants.ts";
import type { Policies } from "../../scheduling/cycle/cycle.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

/** What the live fleet decides with. */
export const USUAL_POLICIES: readonly EntrantName[] = ["tawfq"];

export const POLICY_NAMES: readonly EntrantName[] = ENTRANT_NAMES;

/** `tawfq,fifo`: each once, in the order given. */
export function policyList(text: string): readonly EntrantName[] {
  const words = [...new Set(text.split(",").map((word) => word.trim()))].filter(
    (word) => word !== "",
  );
  const names = words.flatMap((word) => POLICY_NAMES.filter((name) => name === word));
  if (names.length === words.length && names.length > 0) return names;
  const unknown = words.find((word) => !POLICY_NAMES.some((name) => name === word));
  throw new OrbweaverError(
    "BAD_INPUT",
    `--policy ${JSON.stringify(unknown ?? text)} is none of ${POLICY_NAMES.join(", ")}. Write one or several of these with commas between.`,
  );
}

export const policiesNamed = (name: EntrantName): Policies => ENTRANTS[name].policies;
