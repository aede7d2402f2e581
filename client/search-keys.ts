/** @file The search attributes of `domain/values/search-attributes.ts` as typed keys of Temporal's client, and quoting for its queries. */

import { defineSearchAttributeKey } from "@temporalio/common";
import { OrbweaverError } from "../domain/values/failure.ts";

export const FLEET_KEY = defineSearchAttributeKey("OrbweaverFleet", "KEYWORD");
/** Of a job that was sent to another fleet: the fleet that it was submitted to. */
export const HOME_KEY = defineSearchAttributeKey("OrbweaverHome", "KEYWORD");
export const CLASS_KEY = defineSearchAttributeKey("OrbweaverClass", "KEYWORD");
export const TENANT_KEY = defineSearchAttributeKey("OrbweaverTenant", "KEYWORD");
export const STATE_KEY = defineSearchAttributeKey("OrbweaverState", "KEYWORD");
export const CLUSTER_KEY = defineSearchAttributeKey("OrbweaverCluster", "KEYWORD_LIST");
export const GPUS_KEY = defineSearchAttributeKey("OrbweaverGpus", "INT");

/** `name = "value"`; refuses a value that could leave its quotes, because no id of ours needs one. */
export function isEqual(key: { readonly name: string }, value: string): string {
  if (/["'\\`]/.test(value)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(value)} cannot be searched for in ${key.name}. Use letters, digits, dots and dashes.`,
    );
  }
  return `${key.name} = "${value}"`;
}
