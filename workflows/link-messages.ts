/** @file The words between the link monitor of a fleet, the agents that arrive, and who looks at links. */

import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { LinkMemory, LinkRecord } from "./link-memory.ts";

export const LINK_MONITOR_WORKFLOW = "link-monitor";
export const linkMonitorWorkflowId = (fleet: string): string => `orbweaver-links-${fleet}`;

/** The version of the workflow's logic that new runs follow. */
export const LINK_MONITOR_RULES = 1;

export interface LinkMonitorInput {
  readonly fleet: string;
  /** The version of the workflow's logic that this run follows; 1 when absent. */
  readonly rules?: number;
  /** Carried over continue-as-new. */
  readonly memory?: LinkMemory;
}

/** An agent is there: sites that nobody answered for may have an end now. */
export const arrivedSignal = defineSignal("arrived");
/** Probes these links, or all, as soon as their turn comes; answers with how many. */
export const probeLinksUpdate = defineUpdate<number, [ProbeWish]>("probe");
export interface ProbeWish {
  /** Two sites; absent: all. */
  readonly between?: readonly [string, string];
}

export interface LinkMonitorView {
  readonly fleet: string;
  /** Every site, with the agents that may take part. */
  readonly sites: readonly { readonly site: string; readonly ends: number }[];
  readonly links: readonly LinkRecord[];
  /** The pair that is probed at this moment. */
  readonly busy?: readonly [string, string];
}
export const linksQuery = defineQuery<LinkMonitorView>("links");
/** Who could take part in a probe; asked of the fleet. */
export { linkEndsQuery } from "./link-ends.ts";
