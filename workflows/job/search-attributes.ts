/** @file How a job shows itself in Temporal's lists: its search attributes, and the memo of its last move. */

import { defineSearchAttributeKey } from "@temporalio/common";
import { upsertSearchAttributes } from "@temporalio/workflow";
import type { SearchMark } from "../../machines/job/job-state.ts";

export const STATE = defineSearchAttributeKey("OrbweaverState", "KEYWORD");
const FLEET = defineSearchAttributeKey("OrbweaverFleet", "KEYWORD");
const HOME = defineSearchAttributeKey("OrbweaverHome", "KEYWORD");
const CLASS = defineSearchAttributeKey("OrbweaverClass", "KEYWORD");
const TENANT = defineSearchAttributeKey("OrbweaverTenant", "KEYWORD");
const CLUSTER = defineSearchAttributeKey("OrbweaverCluster", "KEYWORD_LIST");
const GPUS = defineSearchAttributeKey("OrbweaverGpus", "INT");

/** Attributes that the mark does not name stay as they are. */
export function mark({
  state,
  fleet,
  home,
  class: jobClass,
  tenant,
  gpus,
  clusters,
}: SearchMark): void {
  upsertSearchAttributes([
    ...(state !== undefined ? [{ key: STATE, value: state }] : []),
    ...(fleet !== undefined ? [{ key: FLEET, value: fleet }] : []),
    ...(home !== undefined ? [{ key: HOME, value: home }] : []),
    ...(jobClass !== undefined ? [{ key: CLASS, value: jobClass }] : []),
    ...(tenant !== undefined ? [{ key: TENANT, value: tenant }] : []),
    ...(gpus !== undefined ? [{ key: GPUS, value: gpus }] : []),
    ...(clusters !== undefined ? [{ key: CLUSTER, value: [...clusters] }] : []),
  ]);
}
