/** @file The words between the link monitor of a fleet, the agents that arrive, and who looks at links. */

import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { LinkEnds } from "./link-contract.ts";
import type { Proven } from "./word-proof.ts";
import type { MeasuredRate } from "../domain/fleet/site-link.ts";

export const LINK_MONITOR_WORKFLOW = "link-monitor";
export const linkMonitorWorkflowId = (fleet: string): string => `orbweaver-links-${fleet}`;

/** The version of the workflow's logic that new runs follow. */
export const LINK_MONITOR_RULES = 2;

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
export const probeLinksUpdate = defineUpdate<number, Proven<ProbeWish>>("probe");
export interface ProbeWish {
  /** Two sites; absent: all. */
  readonly between?: readonly [string, string];
}

/** What the monitor knows of the link between two sites. */
export interface LinkRecord {
  /** `a` comes first by code unit. */
  readonly a: string;
  readonly b: string;
  readonly there?: MeasuredRate;
  readonly back?: MeasuredRate;
  /** The last probe that said anything of the link. */
  readonly checkedAtMs?: number;
  readonly nextAtMs: number;
  /** Probes in a row that found no answer. */
  readonly failures: number;
  readonly outageSinceMs?: number;
  readonly isLocal?: true;
  /** Probes begun: even ones knock from `a`. */
  readonly turns: number;
  /** Why the last probe told nothing, or found no answer. */
  readonly problem?: string;
  /** What the fleet heard last, and when. */
  readonly notified?: {
    readonly atMs: number;
    readonly gbps: number;
    readonly isOut: boolean;
    readonly isLocal: boolean;
  };
}

/** In order of their keys. */
export type LinkMemory = readonly LinkRecord[];

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
export const linkEndsQuery = defineQuery<readonly LinkEnds[]>("link-ends");
