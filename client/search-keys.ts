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
/** These three are set by the client that submits a job; jobs of plain clients have none of them. */
export const NAME_KEY = defineSearchAttributeKey("OrbweaverName", "KEYWORD");
/** The name of the key that signed it, in its owner's own words. */
export const USER_KEY = defineSearchAttributeKey("OrbweaverUser", "KEYWORD");
/** `key=value` of each label. */
export const LABELS_KEY = defineSearchAttributeKey("OrbweaverLabels", "KEYWORD_LIST");

/** `name = "value"`; refuses a value that could leave its quotes, because no id of ours needs one. */
export const isEqual = (key: { readonly name: string }, value: string): string =>
  compared(key, "=", value);

/** `name STARTS_WITH "value"`, under the same rule. */
export const startsWith = (key: { readonly name: string }, value: string): string =>
  compared(key, "STARTS_WITH", value);

function compared(key: { readonly name: string }, how: string, value: string): string {
  if (/["'\\`]/.test(value)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(value)} cannot be searched for in ${key.name}. Use letters, digits, dots and dashes.`,
    );
  }
  return `${key.name} ${how} "${value}"`;
}
