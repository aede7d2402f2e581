/** @file The policies that a simulation may be asked for, by name: ours, and its rivals behind the same interface. */

import type { Policies } from "../../scheduling/cycle.ts";
import {
  binPacking,
  conservative,
  drf,
  easy,
  fifo,
  fifoBackfill,
  tawfq,
} from "../../scheduling/policy-sets.ts";

const BY_NAME: ReadonlyMap<string, Policies> = new Map([
  ["tawfq", tawfq],
  ["fifo", fifo],
  ["fifo-backfill", fifoBackfill],
  ["bin-packing", binPacking],
  ["drf", drf],
  ["easy", easy],
  ["conservative", conservative],
]);

/** What the live fleet decides with. */
export const USUAL_POLICY = "tawfq";
export const POLICY_NAMES: readonly string[] = [...BY_NAME.keys()];

/** Of a name of the list. */
export function policiesNamed(name: string): Policies {
  const policies = BY_NAME.get(name);
  if (policies === undefined) throw new Error(`no policy is called ${name}`);
  return policies;
}
